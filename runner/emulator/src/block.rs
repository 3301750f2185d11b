//! Block mode: a mount with one file, disk.img, on which a loop device is put.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags, fallocate, fdatasync};
use rustix::io::Errno;

use crate::buffer::{ALIGNMENT, Buffer};
use crate::engine::transfer::{Direction, Transfer, Transfers};
use crate::engine::{Engine, Lost, Storage};
use crate::frontend::{errno_of, negotiate, perform_empty, reply_errno};
use crate::journal::{Durability, Journal};
use crate::model::request::{Nanos, Op, Request as Asked};

const IMAGE: &str = "disk.img";
const IMAGE_INODE: INodeNo = INodeNo(2);
/// Nothing here changes while it is mounted.
const FOREVER: Duration = Duration::from_secs(86_400);
/// The image file and what is not durable in it.
pub struct Disk {
    /// Around the page cache, or what was dropped from the guest's cache would still be warm in ours.
    direct: Option<File>,
    /// Whether the direct file takes what is aligned to `ALIGNMENT`; then a transfer need not be waited for.
    begins: bool,
    /// For what O_DIRECT cannot take.
    buffered: File,
    size: u64,
    sync_backing: bool,
    journal: Mutex<Journal<()>>,
}

impl Disk {
    pub fn open(path: &Path, durability: Durability, window_s: f64, sync_backing: bool) -> io::Result<Self> {
        let buffered = OpenOptions::new().read(true).write(true).open(path)?;
        let direct =
            OpenOptions::new().read(true).write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).ok();
        let first_block = |file: &File| file.read_at(Buffer::new(ALIGNMENT).as_mut_slice(), ALIGNMENT as u64).is_ok();
        Ok(Disk {
            size: buffered.metadata()?.len(),
            begins: direct.as_ref().is_some_and(first_block),
            direct,
            buffered,
            sync_backing,
            journal: Mutex::new(Journal::new(durability, window_s)),
        })
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

    fn read(&self, transfers: Option<&Transfers>, offset: u64, bytes: u64) -> Result<Arc<Transfer>, Errno> {
        let length = bytes.min(self.size.saturating_sub(offset));
        self.begin(transfers, Direction::Read, offset, Buffer::new(length as usize)).or_else(|mut buffer| {
            self.either(|file| file.read_exact_at(buffer.as_mut_slice(), offset))?;
            Ok(Transfer::done(buffer))
        })
    }

    fn write(
        &self,
        transfers: Option<&Transfers>,
        now: Nanos,
        offset: u64,
        data: Buffer,
    ) -> Result<Arc<Transfer>, Errno> {
        let bytes = data.as_slice().len() as u64;
        if offset + bytes > self.size {
            return Err(Errno::NOSPC);
        }
        let records = self.journal().records();
        if records {
            let old = self.read(None, offset, bytes)?.bytes().to_vec();
            self.journal().record(now, (), offset, old, None, bytes);
        }
        // What a power cut takes back must not land after it: such a write is waited for.
        self.begin(transfers.filter(|_| !records), Direction::Write, offset, data).or_else(|buffer| {
            self.either(|file| file.write_all_at(buffer.as_slice(), offset))?;
            Ok(Transfer::done(buffer))
        })
    }

    fn flush(&self) -> Result<(), Errno> {
        let mark = self.journal().mark();
        if self.sync_backing {
            fdatasync(&self.buffered)?;
        }
        self.journal().flushed(mark, None);
        Ok(())
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
        lost
    }

    fn settle(&self) {
        self.journal().settle_all();
    }

    fn unsynced(&self, now: Nanos) -> Lost {
        let (writes, bytes) = self.journal().pending(now);
        Lost { writes, bytes, early: 0 }
    }
}

pub struct BlockFs {
    pub engine: Arc<Engine>,
    pub disk: Arc<Disk>,
}

impl BlockFs {
    fn attr(&self, ino: INodeNo) -> FileAttr {
        let directory = ino == INodeNo::ROOT;
        FileAttr {
            ino,
            size: if directory { 0 } else { self.disk.size },
            blocks: if directory { 0 } else { self.disk.size / 512 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if directory { FileType::Directory } else { FileType::RegularFile },
            perm: if directory { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: ALIGNMENT as u32,
            flags: 0,
        }
    }
}

impl Filesystem for BlockFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_MAX_PAGES];
        negotiate(config, &wanted, "block mode will be slow");
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == IMAGE {
            reply.entry(&FOREVER, &self.attr(IMAGE_INODE), Generation(0));
        } else {
            reply.error(reply_errno(Errno::NOENT));
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attr(ino));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if size.is_some_and(|size| size != self.disk.size) {
            reply.error(reply_errno(Errno::PERM));
        } else {
            reply.attr(&FOREVER, &self.attr(ino));
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let asked = Asked { op: Op::Read, stream: 0, offset, bytes: u64::from(size) };
        self.engine.transfer(
            &asked,
            |transfers| self.disk.read(transfers, offset, asked.bytes),
            move |result| match result {
                Ok(transfer) => reply.data(transfer.bytes()),
                Err(error) => reply.error(reply_errno(error)),
            },
        );
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let asked = Asked { op: Op::Write, stream: 0, offset, bytes: data.len() as u64 };
        self.engine.transfer(
            &asked,
            |transfers| self.disk.write(transfers, self.engine.now(), offset, Buffer::copy_of(data)),
            move |result| match result {
                Ok(_) => reply.written(asked.bytes as u32),
                Err(error) => reply.error(reply_errno(error)),
            },
        );
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        perform_empty(&self.engine, &Asked::metadata(Op::Flush), || self.disk.flush(), reply);
    }

    /// Closing the image is no operation of the volume: a flush comes as fsync.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    /// Discards and zeroing. They are durable at once: what a power cut restores is writes.
    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let work = || fallocate(&self.disk.buffered, flags, offset, length);
        perform_empty(&self.engine, &Asked::metadata(Op::Other), work, reply);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = [
            (ino, FileType::Directory, "."),
            (ino, FileType::Directory, ".."),
            (IMAGE_INODE, FileType::RegularFile, IMAGE),
        ];
        for (index, (ino, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
            if reply.add(ino, index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
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
        disk.write(None, 0, offset, Buffer::copy_of(&[value; 4096])).unwrap();
    }

    fn first_byte(disk: &Disk, offset: u64) -> u8 {
        disk.read(None, offset, 4096).unwrap().bytes()[0]
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
        assert_eq!(after_power_cut(Durability::WriteBack), (1, Lost { writes: 1, bytes: 4096, early: 0 }));
        assert_eq!(after_power_cut(Durability::Async), (0, Lost { writes: 2, bytes: 8192, early: 0 }));
    }

    #[test]
    fn unaligned_requests_and_the_end_of_the_disk_are_served() {
        let (path, disk) = disk(Durability::WriteThrough);
        disk.write(None, 0, 5, Buffer::copy_of(&[9; 100])).unwrap();
        assert_eq!(disk.read(None, 0, 4096).unwrap().bytes()[4..7], [0, 9, 9]);
        assert_eq!(disk.read(None, (1 << 20) - 512, 4096).unwrap().bytes().len(), 512);
        assert_eq!(disk.write(None, 0, 1 << 20, Buffer::copy_of(&[9; 100])).err(), Some(Errno::NOSPC));
        std::fs::remove_file(path).unwrap();
    }
}
