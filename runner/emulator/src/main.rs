//! `volbench-volume`: a volume with known limits, latency and faults behind a FUSE mount.

mod attr;
mod block;
mod buffer;
mod config;
mod control;
mod engine;
mod exclusive;
mod files;
mod flights;
mod frontend;
mod isolate;
mod journal;
mod model;

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::{Parser, Subcommand};
use fuser::{Filesystem, MountOption, Session, SessionACL};
use rustix::mount::{UnmountFlags, unmount};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use block::uring::Uring;
use config::{Config, Mode, Transport};
use control::{Control, Facts, Phase};
use engine::clock::Clock;
use engine::{Engine, Storage};
use isolate::Isolation;

/// How long `ask` waits for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[derive(Parser)]
#[command(version, about = "An emulated storage volume")]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Mount the volume that a JSON file describes; ends when it is unmounted.
    Run { config: PathBuf },
    /// Only read the JSON file, and print it with all defaults.
    Check { config: PathBuf },
    /// Send one JSON line to a control socket and print the answer.
    Ask { socket: PathBuf, request: String },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Action::Run { config } => Config::read(&config).and_then(|config| run(&config)),
        Action::Check { config } => Config::read(&config).and_then(|config| check(&config)),
        Action::Ask { socket, request } => ask(&socket, &request).map_err(|error| error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("volbench-volume: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(config: &Config) -> Result<(), String> {
    println!("{}", serde_json::to_string_pretty(config).map_err(|error| error.to_string())?);
    Ok(())
}

fn ask(socket: &Path, request: &str) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(format!("{}\n", request.trim_end()).as_bytes())?;
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer)?;
    print!("{answer}");
    Ok(())
}

fn run(config: &Config) -> Result<(), String> {
    let _locked = exclusive::lock(&config.backing, exclusive::WAIT_MAX)
        .map_err(|error| format!("{}: {error}", config.backing.display()))?;
    let isolation = isolate::isolate();
    write_pid_file(&config.directory).map_err(|error| format!("daemon.pid: {error}"))?;
    let engine = start_engine(config)?;
    let (durability, window) = (config.durability, config.async_window_s);
    match config.mode {
        Mode::Block => {
            let disk = block::Disk::open(&config.backing, durability, window, config.sync_backing)
                .map(|disk| Arc::new(disk.tearing(config.atomic_bytes, config.model.seed)))
                .map_err(|error| format!("{}: {error}", config.backing.display()))?;
            let facts = facts(config, isolation, disk.is_direct());
            let uring = if config.transport == Transport::Auto { ring_for(&disk) } else { None };
            let negotiated = Arc::new(AtomicBool::new(uring.is_some()));
            let fs = block::fuse::BlockFs {
                engine: Arc::clone(&engine),
                disk: Arc::clone(&disk),
                uring: Arc::clone(&negotiated),
            };
            let (engine_of_ring, disk_of_ring) = (Arc::clone(&engine), Arc::clone(&disk));
            serve(config, fs, &engine, disk, facts, move |device| match uring {
                Some(uring) if negotiated.load(SeqCst) => take_over(uring, device, engine_of_ring, disk_of_ring),
                _ => Ok(Transport::DevFuse),
            })
        }
        Mode::Files => {
            let tree = files::Tree::open(&config.backing, durability, window, config.sync_backing)
                .map(Arc::new)
                .map_err(|error| format!("{}: {error}", config.backing.display()))?;
            if durability == journal::Durability::Async {
                expire_regularly(&tree, &engine);
            }
            let facts = facts(config, isolation, false);
            let ttl = Duration::from_secs_f64(config.attribute_ttl_s);
            let fs = files::FilesFs::new(Arc::clone(&engine), Arc::clone(&tree), ttl, config.client_sync);
            serve(config, fs, &engine, tree, facts, |_| Ok(Transport::DevFuse))
        }
    }
}

/// A ring for requests over io_uring; None where the kernel has none, or where one thread that serves all would wait.
fn ring_for(disk: &block::Disk) -> Option<Uring> {
    if !disk.never_waits() {
        return None;
    }
    Uring::prepare().unwrap_or_else(|error| {
        eprintln!("no requests over io_uring, /dev/fuse instead: {error}");
        None
    })
}

/// Starts the thread that serves the mount from now on; the FUSE library is left with what cannot come over io_uring.
///
/// Without that thread nobody would be answered, so the daemon ends with it: then the kernel ends the mount.
fn take_over(
    uring: Uring,
    device: BorrowedFd<'_>,
    engine: Arc<Engine>,
    disk: Arc<block::Disk>,
) -> io::Result<Transport> {
    let device = device.try_clone_to_owned()?;
    let (acceptance, answer) = mpsc::channel();
    let serve = move || match panic::catch_unwind(AssertUnwindSafe(|| uring.serve(&device, engine, disk, &acceptance)))
    {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            eprintln!("requests over io_uring: {error}");
            std::process::exit(1);
        }
        Err(_panicked) => std::process::exit(1),
    };
    std::thread::Builder::new().name("requests".into()).spawn(serve)?;
    answer.recv().map_err(io::Error::other)?; // the kernel has the ring
    Ok(Transport::IoUring)
}

/// Makes changes durable in time on a volume that has no others to do it: what was removed would keep its space.
fn expire_regularly(tree: &Arc<files::Tree>, engine: &Arc<Engine>) {
    let (tree, engine) = (Arc::downgrade(tree), Arc::clone(engine));
    std::thread::spawn(move || {
        while let Some(tree) = tree.upgrade() {
            tree.unsynced(engine.now());
            drop(tree);
            std::thread::sleep(Duration::from_secs(1));
        }
    });
}

fn start_engine(config: &Config) -> Result<Arc<Engine>, String> {
    let clock = Clock::start();
    let model = model::Model::new(config.model.clone(), clock.now())?;
    Ok(Engine::start(clock, model, (config.late_tolerance_us * 1e3) as u64))
}

fn facts(config: &Config, isolation: Isolation, backing_direct: bool) -> Facts {
    Facts {
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        profile: config.profile.clone(),
        mode: config.mode,
        durability: config.durability,
        backing_direct,
        memory_locked: isolation.memory_locked,
        io_flusher: isolation.io_flusher,
        own_memory_cgroup: isolation.own_memory_cgroup,
        high_priority: isolation.high_priority,
    }
}

/// The pid and the start time (of /proc/PID/stat): together they name one process for ever.
fn write_pid_file(directory: &Path) -> io::Result<()> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may hold blanks; the start time is the 20th field after it.
    let started = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)).unwrap_or("0");
    let partial = directory.join("daemon.pid.partial");
    fs::write(&partial, format!("{} {started}\n", std::process::id()))?;
    fs::rename(partial, directory.join("daemon.pid"))
}

/// Mounts, answers until unmounted, and leaves nothing behind.
fn serve<F: Filesystem>(
    config: &Config,
    filesystem: F,
    engine: &Arc<Engine>,
    storage: Arc<dyn Storage>,
    facts: Facts,
    take_over: impl FnOnce(BorrowedFd<'_>) -> io::Result<Transport>,
) -> Result<(), String> {
    let socket = config.directory.join("control.sock");
    let tree = (config.mode == Mode::Files).then(|| config.mount.clone());
    let control = Control::new(Arc::clone(engine), Arc::clone(&storage), facts, tree);
    let listener = listen(&config.directory).map_err(|error| format!("{}: {error}", socket.display()))?;
    // The writer's umask is in the modes that arrive; ours must not be taken off a second time.
    rustix::process::umask(rustix::fs::Mode::empty());
    let answering = Arc::clone(&control);
    std::thread::spawn(move || answering.serve(&listener));

    let mut options = fuser::Config::default();
    options.acl = SessionACL::All;
    options.n_threads = Some(config.threads);
    options.mount_options = vec![
        MountOption::FSName(format!("volbench-{}", config.profile)),
        MountOption::Subtype("volbench".into()),
        MountOption::DefaultPermissions,
    ];
    let session = Session::new(filesystem, &config.mount, &options)
        .map_err(|error| format!("mount on {}: {error}", config.mount.display()))?;
    let transport = take_over(session.as_fd()).map_err(|error| format!("requests over io_uring: {error}"))?;
    control.served_over(transport);
    unmount_on_signal(config.mount.clone(), Arc::clone(&control)).map_err(|error| format!("signals: {error}"))?;
    control.enter(Phase::Ready);
    let ended = session.run();
    control.enter(Phase::Stopping);
    engine.stop();
    storage.settle();
    let _ = fs::remove_file(&socket);
    let _ = fs::remove_file(config.directory.join("daemon.pid"));
    ended.map_err(|error| format!("session: {error}"))
}

/// Binds relative to the directory, since a socket's path may be 107 bytes long and a directory's longer.
///
/// The daemon stays there: its working directory tells which volume it serves, even when it hangs.
fn listen(directory: &Path) -> io::Result<UnixListener> {
    std::env::set_current_dir(directory)?;
    match fs::remove_file("control.sock") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind("control.sock")
}

/// A signal asks for an orderly end: unmounting is refused while the volume is in use, and then nothing happens.
fn unmount_on_signal(mount: PathBuf, control: Arc<Control>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            control.enter(Phase::Stopping);
            if let Err(error) = unmount(&mount, UnmountFlags::empty()) {
                control.enter(Phase::Ready);
                eprintln!("signal {signal}: {} cannot be unmounted: {error}", mount.display());
            }
        }
    });
    Ok(())
}
