//! The disk's requests over io_uring instead of /dev/fuse, where the kernel has that (`fuse.enable_uring`): setting up.

use std::fs;
use std::io;
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue};
use rustix::event::{EventfdFlags, eventfd};

use super::server::{Ring, Server};
use super::slots::Slots;
use super::{Disk, queues};
use crate::engine::Engine;

const ENABLED: &str = "/sys/module/fuse/parameters/enable_uring";
/// Older kernels may crash when a mount ends with requests under way ("fuse: fix io-uring list corruption for
/// terminated non-committed requests"), and count waiting for requests as waiting for I/O before 6.15.
const KERNEL: (u32, u32, u32) = (6, 18, 3);

const COMMANDS_AT_ONCE: u32 = 256;

/// Set up before the mount, since a mount that has agreed to io_uring answers nobody until it is served that way.
pub struct Uring {
    ring: Ring,
    slots: Slots,
    wake_event: Arc<OwnedFd>,
}

impl Uring {
    /// Sets a ring up; None where the kernel does not offer requests over io_uring.
    pub fn prepare() -> io::Result<Option<Self>> {
        let enabled = fs::read_to_string(ENABLED).is_ok_and(|value| value.trim() == "Y");
        let kernel = rustix::system::uname();
        if !enabled || version(&kernel.release().to_string_lossy()) < KERNEL {
            return Ok(None);
        }
        let slots = Slots::new(&queues::slots()?)?;
        let mut builder = IoUring::<Entry128, cqueue::Entry>::builder();
        // Disabled until the thread that serves is there: only it may use the ring then, which spares locks, and what
        // the kernel does for the ring it does in calls of that thread alone.
        builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_r_disabled();
        builder.setup_cqsize((slots.count() as u32 + 2).next_power_of_two().max(2 * COMMANDS_AT_ONCE));
        let wake_event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Some(Uring { ring: builder.build(COMMANDS_AT_ONCE)?, slots, wake_event: Arc::new(wake_event) }))
    }

    /// Serves the mount behind `device`, an open /dev/fuse, until it is gone; sends `acceptance` when the kernel has the ring.
    pub fn serve(
        mut self,
        device: &OwnedFd,
        engine: Arc<Engine>,
        disk: Arc<Disk>,
        acceptance: &Sender<()>,
    ) -> io::Result<()> {
        let wake_event = Arc::clone(&self.wake_event);
        engine.on_rush(move || {
            let _counted_already = rustix::io::write(&*wake_event, &1u64.to_ne_bytes());
        });
        // The default slack of 50 us would make every completion that much too late.
        if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
            eprintln!("timer slack stays at its default, completions come late: {error}");
        }
        self.slots.attach(device.as_raw_fd());
        self.ring.submitter().register_enable_rings()?;
        // After a failure the memory stays until the process ends: the kernel may still write to it.
        let mut server = ManuallyDrop::new(Server::new(self.ring, self.slots, self.wake_event, engine, disk));
        server.offer()?;
        let _nobody_waits = acceptance.send(());
        server.run()?;
        drop(ManuallyDrop::into_inner(server));
        Ok(())
    }
}

/// The numbers of a kernel's release, such as `6.18.44-fc`; zero for what is none.
fn version(release: &str) -> (u32, u32, u32) {
    let mut numbers =
        release.split(|character: char| !character.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_kernels_are_compared_by_their_numbers() {
        assert_eq!(version("6.18.44-fc-v769"), (6, 18, 44));
        assert_eq!(version("7.0"), (7, 0, 0));
        assert!(version("6.12.9+deb13-amd64") < KERNEL && version("6.18.3") >= KERNEL && version("7.0-rc1") > KERNEL);
    }
}
