//! One daemon for one state: whoever serves a backing has a lock on it, whichever directory and configuration lead there.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A daemon that was killed has its files for a moment longer.
pub const WAIT_MAX: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

/// Locks the backing for as long as the returned file is open. The file has nothing else to do: what a ring of the
/// kernel still has of a transfer's file after the end of a process would keep a lock of that file too.
///
/// Errors are those of opening it, and `WouldBlock` when another daemon serves the same backing.
pub fn lock(backing: &Path, wait_max: Duration) -> io::Result<File> {
    let file = File::open(backing)?;
    let deadline = Instant::now() + wait_max;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(POLL),
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "another daemon serves this volume"));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backing_has_one_daemon_under_any_of_its_names() {
        let directory = std::env::temp_dir().join(format!("volbench-lock-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let (image, name) = (directory.join("disk.img"), directory.join("name"));
        File::create(&image).unwrap();
        std::fs::hard_link(&image, &name).unwrap();
        for (one, other) in [(&image, &name), (&directory, &directory)] {
            let locked = lock(one, Duration::ZERO).unwrap();
            assert_eq!(lock(other, Duration::ZERO).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            drop(locked);
            lock(other, Duration::ZERO).unwrap();
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}
