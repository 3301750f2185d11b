//! Keeps the daemon out of the way of those who write through it.
//!
//! A daemon that has to wait for memory which is only freed by writing through the daemon waits for ever. So it
//! leaves the writer's memory cgroup, locks its memory, and tells the kernel what it is.

use std::fs;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, configure_io_flusher_behavior, getrlimit, setpriority_process, setrlimit};

/// The root memory cgroup, in version 1 and in version 2.
const ROOT_CGROUPS: [&str; 2] = ["/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/cgroup.procs"];

const HIGHEST_PRIORITY: i32 = -20;

/// Which of the precautions took effect.
#[derive(Clone, Copy, Debug)]
pub struct Isolation {
    pub memory_locked: bool,
    pub io_flusher: bool,
    pub own_memory_cgroup: bool,
    pub high_priority: bool,
}

/// To be called before any thread is started: threads inherit what is set here.
pub fn isolate() -> Isolation {
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    raise_open_files();
    // Only what is touched is locked: the FUSE library sets aside 16 MiB per thread and uses 1 of them.
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    Isolation {
        own_memory_cgroup: ROOT_CGROUPS.iter().any(|path| fs::write(path, std::process::id().to_string()).is_ok()),
        memory_locked: mlockall(all).is_ok(),
        io_flusher: configure_io_flusher_behavior(true).is_ok(),
        high_priority: real_time() || setpriority_process(None, HIGHEST_PRIORITY).is_ok(),
    }
}

/// A real volume does not wait for this machine's processors, so neither do we, where that is allowed.
///
/// The kernel keeps 5 % of each processor from real-time threads: a fault of ours cannot stop the machine.
fn real_time() -> bool {
    // SAFETY: zeros are a valid parameter, and the call only reads it.
    unsafe {
        let mut parameter: libc::sched_param = std::mem::zeroed();
        parameter.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_RR, &parameter) == 0
    }
}

/// Files mode has descriptors for the files that the kernel remembers, as many as half the limit.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    for wanted in [Some(1 << 20), limit.maximum] {
        let maximum = limit.maximum.max(wanted);
        if setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum }).is_ok() {
            return;
        }
    }
}
