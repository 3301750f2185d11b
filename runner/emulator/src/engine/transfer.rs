//! Reads and writes of the backing that go on while their operation waits: Linux AIO on an O_DIRECT file.
//!
//! Nobody sleeps for them and nobody is woken when they end: whoever completes the operation at its due time finds
//! the result in the ring. Sleep and wake-up of a reading thread cost more than all else that an operation takes.

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::buffer::{ALIGNMENT, Buffer};
use crate::model::request::Nanos;

/// More than a loop device sends at a time; what does not fit is done at once instead.
const IN_FLIGHT_MAX: libc::c_long = 256;
const REAPED_AT_ONCE: usize = 32;
const NOTIFY: u32 = 1; // IOCB_FLAG_RESFD

#[derive(Clone, Copy)]
#[repr(u16)]
pub enum Direction {
    Read = 0,  // IOCB_CMD_PREAD
    Write = 1, // IOCB_CMD_PWRITE
}

/// `struct iocb` of linux/aio_abi.h, on little-endian machines.
#[repr(C)]
#[derive(Default)]
struct ControlBlock {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    notified: u32,
}

/// `struct io_event` of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

#[derive(Clone, Copy)]
struct Outcome {
    result: Result<(), Errno>,
    seen: Nanos,
}

/// One read or write, on its way or at its end.
pub struct Transfer {
    /// The kernel's until there is an outcome.
    buffer: UnsafeCell<Buffer>,
    outcome: OnceLock<Outcome>,
}

// SAFETY: the buffer is only handed out once the outcome is there, shared and read-only; before, it is the kernel's.
unsafe impl Send for Transfer {}
// SAFETY: as above.
unsafe impl Sync for Transfer {}

impl Transfer {
    /// One that has been done already.
    pub fn done(buffer: Buffer) -> Arc<Self> {
        let outcome = OnceLock::from(Outcome { result: Ok(()), seen: 0 });
        Arc::new(Transfer { buffer: UnsafeCell::new(buffer), outcome })
    }

    /// One that ends when the test says so.
    #[cfg(test)]
    pub fn on_its_way() -> Arc<Self> {
        Arc::new(Transfer { buffer: UnsafeCell::new(Buffer::new(0)), outcome: OnceLock::new() })
    }

    pub fn is_done(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// How it ended; one that is on its way has not done what was asked for.
    pub fn result(&self) -> Result<(), Errno> {
        self.outcome.get().map_or(Err(Errno::IO), |outcome| outcome.result)
    }

    /// When its end was seen.
    pub fn seen(&self) -> Nanos {
        self.outcome.get().map_or(0, |outcome| outcome.seen)
    }

    /// What was read; nothing while it is on its way.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: with an outcome the kernel is done with the buffer, and nobody writes to it any more.
        if self.is_done() { unsafe { (*self.buffer.get()).as_slice() } } else { &[] }
    }

    pub(super) fn end(&self, result: i64, seen: Nanos) {
        // SAFETY: reads the length only, which the kernel does not change.
        let length = unsafe { (*self.buffer.get()).as_slice().len() };
        let result = match usize::try_from(result) {
            Ok(moved) if moved == length => Ok(()),
            Ok(_) => Err(Errno::IO),
            Err(_) => Err(Errno::from_raw_os_error(-result as i32)),
        };
        let _ = self.outcome.set(Outcome { result, seen });
    }
}

/// All transfers on their way.
pub struct Transfers {
    context: libc::c_ulong,
    ended: OwnedFd,
}

impl Transfers {
    pub fn new() -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context to a place of the right size.
        if unsafe { libc::syscall(libc::SYS_io_setup, IN_FLIGHT_MAX, &raw mut context) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Transfers { context, ended: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? })
    }

    /// Begins a transfer; gives the buffer back when that cannot be (odd size, too many on their way).
    pub fn begin(
        &self,
        direction: Direction,
        file: &File,
        offset: u64,
        buffer: Buffer,
    ) -> Result<Arc<Transfer>, Buffer> {
        let (address, length) = (buffer.as_slice().as_ptr(), buffer.as_slice().len());
        if length == 0 || (offset | length as u64) % ALIGNMENT as u64 != 0 {
            return Err(buffer);
        }
        let transfer = Arc::new(Transfer { buffer: UnsafeCell::new(buffer), outcome: OnceLock::new() });
        let kernels = Arc::into_raw(Arc::clone(&transfer));
        let mut block = ControlBlock {
            data: kernels as u64,
            opcode: direction as u16,
            file: file.as_raw_fd() as u32,
            buffer: address as u64,
            bytes: length as u64,
            offset: offset as i64,
            flags: NOTIFY,
            notified: self.ended.as_raw_fd() as u32,
            ..ControlBlock::default()
        };
        let mut blocks = [&raw mut block];
        // SAFETY: the kernel copies the block. The buffer lives until `reap` takes the kernel's reference back, and
        // the file until the process ends.
        let begun = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1 as libc::c_long, blocks.as_mut_ptr()) };
        if begun == 1 {
            return Ok(transfer);
        }
        // SAFETY: the kernel has not taken the reference: it is the one of `into_raw` above.
        drop(unsafe { Arc::from_raw(kernels) });
        Err(Arc::into_inner(transfer).expect("the only reference left").buffer.into_inner())
    }

    /// Takes note of all transfers that have ended; `seen` is when somebody looked.
    pub fn reap(&self, seen: Nanos) {
        loop {
            let mut events = [Event::default(); REAPED_AT_ONCE];
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the kernel writes at most as many events as there is room for.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    0 as libc::c_long,
                    REAPED_AT_ONCE as libc::c_long,
                    events.as_mut_ptr(),
                    &raw const at_once,
                )
            };
            let count = usize::try_from(count).unwrap_or(0);
            for event in &events[..count] {
                // SAFETY: the reference that `begin` gave to the kernel, which gives each back once.
                unsafe { Arc::from_raw(event.data as *const Transfer) }.end(event.result, seen);
            }
            if count < REAPED_AT_ONCE {
                return;
            }
        }
    }

    /// Becomes readable when a transfer ends, until `rearm`.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// To be called before `reap`, or an end between the two would be missed.
    pub fn rearm(&self) {
        let _nothing_ended = rustix::io::read(&self.ended, &mut [0u8; 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(10);

    fn awaited(transfers: &Transfers, transfer: &Transfer) -> Result<(), Errno> {
        let deadline = Instant::now() + PATIENCE;
        while !transfer.is_done() && Instant::now() < deadline {
            transfers.reap(7);
            std::thread::yield_now();
        }
        transfer.result()
    }

    fn file(name: &str) -> (std::path::PathBuf, File) {
        let path = std::env::temp_dir().join(format!("volbench-transfer-{}-{name}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(1 << 16).unwrap();
        (path, file)
    }

    #[test]
    fn what_is_written_is_there_and_what_is_read_is_right() {
        let (path, file) = file("both");
        let transfers = Transfers::new().unwrap();
        let written = transfers.begin(Direction::Write, &file, 8192, Buffer::copy_of(&[9; 4096])).ok().unwrap();
        assert_eq!(awaited(&transfers, &written), Ok(()));
        let mut there = [0; 4096];
        file.read_exact_at(&mut there, 8192).unwrap();
        assert_eq!(there, [9; 4096]);
        let read = transfers.begin(Direction::Read, &file, 8192, Buffer::new(4096)).ok().unwrap();
        assert_eq!(awaited(&transfers, &read), Ok(()));
        assert_eq!((read.bytes(), read.seen()), ([9; 4096].as_slice(), 7));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn reading_past_the_end_is_an_error_and_odd_sizes_are_not_begun() {
        let (path, file) = file("end");
        let transfers = Transfers::new().unwrap();
        let read = transfers.begin(Direction::Read, &file, 1 << 16, Buffer::new(4096)).ok().unwrap();
        assert_eq!(awaited(&transfers, &read), Err(Errno::IO));
        let refused = transfers.begin(Direction::Read, &file, 512, Buffer::new(4096));
        assert_eq!(refused.err().map(|buffer| buffer.as_slice().len()), Some(4096));
        std::fs::remove_file(path).unwrap();
    }
}
