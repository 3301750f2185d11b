//! Block mode: a mount with one file, disk.img, on which a loop device is put.
//!
//! Its requests come from /dev/fuse (`fuse`), or over io_uring where the kernel has that (`uring`).

pub mod fuse;
mod queues;
mod server;
mod slots;
pub mod uring;
mod wire;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, OFlags, fallocate, fdatasync};
use rustix::io::Errno;

use crate::buffer::{ALIGNMENT, Buffer};
use crate::engine::transfer::{Direction, Transfer, Transfers};
use crate::engine::{Lost, Storage};
use crate::flights::Flights;
use crate::frontend::errno_of;
use crate::journal::{Durability, Journal};
use crate::model::request::Nanos;

const IMAGE: &str = "disk.img";
/// The smallest block that a disk may have.
const SECTOR: usize = 512;
const ROOT_INODE: u64 = 1;
const IMAGE_INODE: u64 = 2;

/// The image file and what is not durable in it.
pub struct Disk {
    /// Around the page cache, or what was dropped from the guest's cache would still be warm in ours.
    direct: Option<File>,
    /// Whether the direct file takes what is aligned to `ALIGNMENT`; then a transfer need not be waited for.
    begins: bool,
    /// What the direct file takes at least: a sector, or `ALIGNMENT`.
    sector: usize,
    /// For what O_DIRECT cannot take.
    buffered: File,
    size: u64,
    sync_backing: bool,
    journal: Mutex<Journal<()>>,
    flights: Mutex<Flights>,
}

impl Disk {
    pub fn open(path: &Path, durability: Durability, window_s: f64, sync_backing: bool) -> io::Result<Self> {
        let buffered = OpenOptions::new().read(true).write(true).open(path)?;
        let direct =
            OpenOptions::new().read(true).write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).ok();
        let takes = |bytes: usize| {
            let mut buffer = Buffer::new(bytes);
            direct.as_ref().is_some_and(|file| file.read_at(buffer.as_mut_slice(), bytes as u64).is_ok())
        };
        Ok(Disk {
            size: buffered.metadata()?.len(),
            begins: takes(ALIGNMENT),
            sector: if takes(SECTOR) { SECTOR } else { ALIGNMENT },
            direct,
            buffered,
            sync_backing,
            journal: Mutex::new(Journal::new(durability, window_s)),
            flights: Mutex::new(Flights::new(0, 0)),
        })
    }

    /// Lets a power cut tear the writes under way at the multiples of `atomic_bytes`; 0: none is torn.
    pub fn tearing(mut self, atomic_bytes: u64, seed: u64) -> Self {
        self.flights = Mutex::new(Flights::new(atomic_bytes, seed));
        self
    }

    fn flights(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    fn journal(&self) -> MutexGuard<'_, Journal<()>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an access on the direct file, and on the buffered one when the first cannot take it.
    fn either(&self, mut access: impl FnMut(&File) -> io::Result<()>) -> Result<(), Errno> {
        if let Some(direct) = &self.direct {
            match access(direct) {
                Err(error) if errno_of(&error) == Errno::INVAL => {}
                done => return done.map_err(|error| errno_of(&error)),
            }
        }
        access(&self.buffered).map_err(|error| errno_of(&error))
    }

    /// Begins a transfer on the direct file, where that can be; else gives the buffer back.
    fn begin(
        &self,
        transfers: Option<&Transfers>,
        direction: Direction,
        offset: u64,
        buffer: Buffer,
    ) -> Result<Arc<Transfer>, Buffer> {
        match (transfers, &self.direct) {
            (Some(transfers), Some(direct)) if self.begins => transfers.begin(direction, direct, offset, buffer),
            _ => Err(buffer),
        }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// How much of a read is before the end of the disk.
    pub fn readable(&self, offset: u64, bytes: u64) -> usize {
        bytes.min(self.size.saturating_sub(offset)) as usize
    }

    /// Whether nothing that is done with the disk has to be waited for: neither writes that a power cut would take back
    /// or tear, nor syncs of the backing, nor a backing without direct I/O.
    pub fn never_waits(&self) -> bool {
        self.begins && !self.sync_backing && !self.journal().records() && !self.flights().records()
    }

    /// The file on which a transfer of so many bytes may go on while others begin; None where it has to be waited for.
    pub fn direct_file(&self, offset: u64, length: usize) -> Option<&File> {
        let aligned = length != 0 && (offset | length as u64) % self.sector as u64 == 0;
        self.direct.as_ref().filter(|_| self.begins && aligned && offset + length as u64 <= self.size)
    }

    /// The file of which ranges are discarded and zeroed.
    pub fn buffered_file(&self) -> &File {
        &self.buffered
    }

    /// Reads into `buffer`, all of which is before the end of the disk.
    pub fn read(&self, transfers: Option<&Transfers>, offset: u64, buffer: Buffer) -> Result<Arc<Transfer>, Errno> {
        self.begin(transfers, Direction::Read, offset, buffer).or_else(|mut buffer| {
            self.either(|file| file.read_exact_at(buffer.as_mut_slice(), offset))?;
            Ok(Transfer::done(buffer))
        })
    }

    /// `due` is when the caller has the answer: until then a power cut may tear the write.
    pub fn write(
        &self,
        transfers: Option<&Transfers>,
        now: Nanos,
        due: Nanos,
        offset: u64,
        data: Buffer,
    ) -> Result<Arc<Transfer>, Errno> {
        let bytes = data.as_slice().len() as u64;
        if offset + bytes > self.size {
            return Err(Errno::NOSPC);
        }
        let (records, tears) = (self.journal().records(), self.flights().records());
        if records || tears {
            let old = self.read(None, offset, Buffer::new(bytes as usize))?.bytes().to_vec();
            if tears {
                self.flights().record(now, due, offset, old);
            } else {
                self.journal().record(now, (), offset, old, None, bytes);
            }
        }
        // What a power cut takes back must not land after it: such a write is waited for.
        self.begin(transfers.filter(|_| !records && !tears), Direction::Write, offset, data).or_else(|buffer| {
            self.either(|file| file.write_all_at(buffer.as_slice(), offset))?;
            Ok(Transfer::done(buffer))
        })
    }

    pub fn flush(&self) -> Result<(), Errno> {
        let mark = self.journal().mark();
        if self.sync_backing {
            fdatasync(&self.buffered)?;
        }
        self.journal().flushed(mark, None);
        Ok(())
    }

    /// Discards and zeroing. They are durable at once: what a power cut restores is writes.
    pub fn fallocate(&self, mode: u32, offset: u64, length: u64) -> Result<(), Errno> {
        fallocate(&self.buffered, FallocateFlags::from_bits_retain(mode), offset, length)
    }
}

impl Storage for Disk {
    fn power_cut(&self, now: Nanos, keep_share: f64) -> Lost {
        let mut lost = Lost { early: self.journal().take_early(now), ..Lost::default() };
        let entries = self.journal().cut(now, keep_share);
        for entry in entries {
            let old = Buffer::copy_of(&entry.old);
            if let Err(error) = self.either(|file| file.write_all_at(old.as_slice(), entry.offset)) {
                eprintln!("power cut: old bytes at {} could not be put back: {error}", entry.offset);
            }
            lost.writes += 1;
            lost.bytes += entry.bytes;
        }
        let (unwritten, torn) = self.flights().cut(now);
        for piece in unwritten {
            let old = Buffer::copy_of(&piece.old);
            if let Err(error) = self.either(|file| file.write_all_at(old.as_slice(), piece.offset)) {
                eprintln!("power cut: old bytes at {} could not be put back: {error}", piece.offset);
            }
        }
        lost.torn = torn;
        lost
    }

    fn settle(&self) {
        self.journal().settle_all();
    }

    fn unsynced(&self, now: Nanos) -> Lost {
        let (writes, bytes) = self.journal().pending(now);
        Lost { writes, bytes, early: 0, torn: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(durability: Durability) -> (std::path::PathBuf, Disk) {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let name = format!("volbench-emulator-{}-{count}.img", std::process::id());
        let path = std::env::temp_dir().join(name);
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let disk = Disk::open(&path, durability, 5.0, false).unwrap();
        (path, disk)
    }

    fn put(disk: &Disk, offset: u64, value: u8) {
        disk.write(None, 0, 0, offset, Buffer::copy_of(&[value; 4096])).unwrap();
    }

    fn read(disk: &Disk, offset: u64, bytes: u64) -> Arc<Transfer> {
        disk.read(None, offset, Buffer::new(disk.readable(offset, bytes))).unwrap()
    }

    fn first_byte(disk: &Disk, offset: u64) -> u8 {
        read(disk, offset, 4096).bytes()[0]
    }

    /// Writes 1, flushes, writes 2; returns what is there after a power cut.
    fn after_power_cut(durability: Durability) -> (u8, Lost) {
        let (path, disk) = disk(durability);
        put(&disk, 8192, 1);
        disk.flush().unwrap();
        put(&disk, 8192, 2);
        let lost = disk.power_cut(0, 0.0);
        let left = first_byte(&disk, 8192);
        std::fs::remove_file(path).unwrap();
        (left, lost)
    }

    #[test]
    fn a_power_cut_leaves_what_the_durability_promises() {
        assert_eq!(after_power_cut(Durability::WriteThrough), (2, Lost::default()));
        assert_eq!(after_power_cut(Durability::WriteBack), (1, Lost { writes: 1, bytes: 4096, early: 0, torn: 0 }));
        assert_eq!(after_power_cut(Durability::Async), (0, Lost { writes: 2, bytes: 8192, early: 0, torn: 0 }));
    }

    #[test]
    fn a_power_cut_tears_what_is_under_way_and_keeps_what_was_answered() {
        let (path, disk) = disk(Durability::WriteThrough);
        let disk = disk.tearing(4096, 1);
        let page = |value: u8| Buffer::copy_of(&[value; 16384]);
        for offset in (0..1 << 20).step_by(16384) {
            disk.write(None, 0, 10, offset, page(1)).unwrap();
            disk.write(None, 20, 30, offset, page(2)).unwrap();
        }
        let lost = disk.power_cut(25, 0.0);
        assert!(lost.torn > 40 && lost.torn < 64, "{lost:?}");
        let blocks: Vec<_> = (0..1 << 20).step_by(4096).map(|offset| first_byte(&disk, offset)).collect();
        assert!(blocks.iter().all(|value| [1, 2].contains(value)));
        assert!(blocks.chunks(4).any(|page| page.contains(&1) && page.contains(&2)));
        assert_eq!(disk.power_cut(26, 0.0), Lost::default());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn unaligned_requests_and_the_end_of_the_disk_are_served() {
        let (path, disk) = disk(Durability::WriteThrough);
        disk.write(None, 0, 0, 5, Buffer::copy_of(&[9; 100])).unwrap();
        assert_eq!(read(&disk, 0, 4096).bytes()[4..7], [0, 9, 9]);
        assert_eq!(read(&disk, (1 << 20) - 512, 4096).bytes().len(), 512);
        assert_eq!(disk.write(None, 0, 0, 1 << 20, Buffer::copy_of(&[9; 100])).err(), Some(Errno::NOSPC));
        std::fs::remove_file(path).unwrap();
    }
}
