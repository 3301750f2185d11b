//! The control socket: one JSON object per line, one answer per line.
//!
//! `{"do": "state"}`, `{"do": "counters"}`, `{"do": "parameters"}`, `{"do": "modify", "parameters": {..}, "lasts_s": 3}`,
//! `{"do": "fault", "fault": {"kind": "stall", "seconds": 2}}`, `{"do": "hurry", "on": true}`. An answer is `{"ok": true, ..}` or
//! `{"ok": false, "error": ".."}`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::mount::{MountFlags, mount_remount};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::Transport;
use crate::engine::{Engine, Storage};
use crate::model::Parameters;
use crate::model::fault::Fault;
use crate::model::request::{Nanos, Op};

/// A line longer than any set of parameters.
const LINE_BYTES_MAX: u64 = 1 << 20;
const CONNECTIONS_MAX: usize = 16;
/// A peer that says nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Phase {
    Starting,
    Ready,
    Stopping,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    State,
    Counters,
    Parameters,
    Modify {
        parameters: Box<Parameters>,
        /// Seconds until the volume goes back by itself; absent: it stays as it is now.
        lasts_s: Option<f64>,
    },
    Fault {
        fault: Fault,
    },
    Hurry {
        on: bool,
    },
    Settle,
}

/// The longest change that the volume takes back by itself.
const LASTS_S_MAX: f64 = 3600.0;

/// The nanoseconds of a change for a limited time.
fn duration(lasts_s: f64) -> Result<Nanos, String> {
    if lasts_s > 0.0 && lasts_s <= LASTS_S_MAX {
        Ok((lasts_s * 1e9) as Nanos)
    } else {
        Err(format!("lasts_s is {lasts_s}; it must be above 0 and at most {LASTS_S_MAX}"))
    }
}

/// What is known of the daemon itself.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    pub version: &'static str,
    pub pid: u32,
    pub profile: String,
    pub mode: crate::config::Mode,
    pub durability: crate::journal::Durability,
    pub backing_direct: bool,
    pub memory_locked: bool,
    pub io_flusher: bool,
    pub own_memory_cgroup: bool,
    pub high_priority: bool,
}

pub struct Control {
    engine: Arc<Engine>,
    storage: Arc<dyn Storage>,
    facts: Facts,
    /// Where the tree is mounted, in files mode.
    tree: Option<PathBuf>,
    phase: AtomicU8,
    transport: OnceLock<Transport>,
    connections: AtomicUsize,
}

impl Control {
    pub fn new(engine: Arc<Engine>, storage: Arc<dyn Storage>, facts: Facts, tree: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Control {
            engine,
            storage,
            facts,
            tree,
            phase: AtomicU8::new(Phase::Starting as u8),
            transport: OnceLock::new(),
            connections: AtomicUsize::new(0),
        })
    }

    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, SeqCst);
    }

    /// Takes note how requests come, which is known once the volume is mounted.
    pub fn served_over(&self, transport: Transport) {
        let _once_only = self.transport.set(transport);
    }

    fn phase(&self) -> Phase {
        match self.phase.load(SeqCst) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Stopping,
        }
    }

    /// Answers connections for ever, each in a thread of its own.
    pub fn serve(self: Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { continue };
            if self.connections.fetch_add(1, SeqCst) >= CONNECTIONS_MAX {
                self.connections.fetch_sub(1, SeqCst);
                continue; // dropping the stream tells the peer
            }
            let control = Arc::clone(&self);
            std::thread::spawn(move || {
                if let Err(error) = control.converse(&stream) {
                    eprintln!("control connection: {error}");
                }
                control.connections.fetch_sub(1, SeqCst);
            });
        }
    }

    fn converse(&self, stream: &UnixStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        let (mut reader, mut writer) = (BufReader::new(stream), stream);
        loop {
            let mut line = String::new();
            if reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
                return Ok(());
            }
            let mut answer = self.answer(&line).to_string();
            answer.push('\n');
            writer.write_all(answer.as_bytes())?;
        }
    }

    fn answer(&self, line: &str) -> Value {
        let done = serde_json::from_str(line).map_err(|error| error.to_string()).and_then(|command| self.obey(command));
        match done {
            Ok(mut answer) => {
                answer["ok"] = json!(true);
                answer
            }
            Err(error) => json!({"ok": false, "error": error}),
        }
    }

    fn obey(&self, command: Command) -> Result<Value, String> {
        match command {
            Command::State => Ok(json!({"state": self.state()})),
            Command::Counters => Ok(json!({"counters": self.counters()})),
            Command::Parameters => {
                let mut model = self.engine.model();
                model.go_back(self.engine.now());
                Ok(json!({"parameters": model.parameters()}))
            }
            Command::Modify { parameters, lasts_s } => {
                let (mut model, now) = (self.engine.model(), self.engine.now());
                match lasts_s {
                    None => model.modify(*parameters, now)?,
                    Some(lasts_s) => model.modify_until(*parameters, now, now + duration(lasts_s)?)?,
                }
                Ok(json!({}))
            }
            Command::Hurry { on } => {
                self.engine.hurry(on);
                Ok(json!({}))
            }
            Command::Settle => {
                self.storage.settle();
                Ok(json!({}))
            }
            Command::Fault { fault } => {
                let lost = self.engine.inject(&fault, self.storage.as_ref())?;
                if matches!(fault, Fault::PowerOn) {
                    self.forget_files()?;
                }
                Ok(json!({"lost": lost}))
            }
        }
    }

    /// Makes the client's kernel forget the files that nobody has open, as a client that was cut off itself has: it
    /// believes lengths and pages that a power cut has taken back. A remount does it and leaves users in place.
    fn forget_files(&self) -> Result<(), String> {
        let Some(mount) = &self.tree else { return Ok(()) };
        mount_remount(mount, MountFlags::NOSUID | MountFlags::NODEV, "")
            .map_err(|error| format!("power is on, but {} cannot be remounted: {error}", mount.display()))
    }

    fn state(&self) -> Value {
        let (time_scale, seed, troubles, touched) = {
            let model = self.engine.model();
            let parameters = model.parameters();
            (parameters.time_scale, parameters.seed, model.troubles(self.engine.now()), model.touched_share())
        };
        json!({
            "emulated": true,
            "phase": self.phase(),
            "health": self.engine.health(),
            "uptime_s": self.engine.now() as f64 / 1e9,
            "time_scale": time_scale,
            "seed": seed,
            "faults": troubles,
            "touched_share": touched,
            "transport": self.transport.get(),
            "unsynced": self.storage.unsynced(self.engine.now()),
            "daemon": self.facts,
        })
    }

    /// Everything counted since the start, under our names and under the vendors'.
    fn counters(&self) -> Value {
        let now = self.engine.now();
        let counters = self.engine.counters();
        let (balances, disks, exceeded, time_scale) = {
            let mut model = self.engine.model();
            (model.balances(now), model.disks(now), model.exceeded(now), model.parameters().time_scale)
        };
        let operations: BTreeMap<&str, _> =
            Op::ALL.iter().map(|op| (op.name(), counters.op(*op))).filter(|(_, op)| op.count > 0).collect();
        let (read, write) = (counters.op(Op::Read), counters.op(Op::Write));
        let published: BTreeMap<&str, f64> = balances
            .iter()
            .filter_map(|balance| {
                let metric = balance.metric.as_deref()?;
                Some((metric, if balance.as_percent { balance.percent } else { balance.units }))
            })
            .collect();
        json!({
            "schema": 1,
            "emulated": true,
            "profile": self.facts.profile,
            "uptime_s": now as f64 / 1e9,
            "time_scale": time_scale,
            "operations": operations,
            "queue_length": counters.queue_length(),
            "queue_length_max": counters.queue_length_max(),
            "waited_us": counters.waited_us(),
            "exceeded": exceeded,
            "balances": balances,
            "disks": disks,
            "fidelity": counters.fidelity(self.engine.tolerance()),
            "nvme": {
                "total_read_ops": read.count,
                "total_write_ops": write.count,
                "total_read_bytes": read.bytes,
                "total_write_bytes": write.bytes,
                "total_read_time": read.time_us,
                "total_write_time": write.time_us,
                "ebs_volume_performance_exceeded_iops": exceeded.volume_iops_us,
                "ebs_volume_performance_exceeded_tp": exceeded.volume_throughput_us,
                "ec2_instance_ebs_performance_exceeded_iops": exceeded.instance_iops_us,
                "ec2_instance_ebs_performance_exceeded_tp": exceeded.instance_throughput_us,
                "volume_queue_length": counters.queue_length(),
            },
            "cloudwatch": published,
        })
    }
}
