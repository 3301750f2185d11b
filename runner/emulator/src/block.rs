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

use crate::engine::{Engine, Lost, Storage};
use crate::journal::{Durability, Journal};
use crate::model::request::{Nanos, Op, Request as Asked};

const IMAGE: &str = "disk.img";
const IMAGE_INODE: INodeNo = INodeNo(2);
/// Nothing here changes while it is mounted.
const FOREVER: Duration = Duration::from_secs(86_400);
/// What O_DIRECT wants of memory, offset and length on every disk we know.
const ALIGNMENT: usize = 4096;
/// A loop device sends a request each, up to its queue depth and more: never make it wait for a free slot.
pub const BACKGROUND_MAX: u16 = 1024;
pub const WRITE_BYTES_MAX: u32 = 1 << 20;

pub fn reply_errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

pub fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// A buffer whose contents begin at an address that O_DIRECT takes.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize) -> Self {
        let bytes = vec![0; length + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Aligned { bytes, start, length }
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// The image file and what is not durable in it.
pub struct Disk {
    /// Around the page cache, or what was dropped from the guest's cache would still be warm in ours.
    direct: Option<File>,
    /// For what O_DIRECT cannot take.
    buffered: File,
    size: u64,
    sync_backing: bool,
    journal: Mutex<Journal<()>>,
}

impl Disk {
    pub fn open(path: &Path, durability: Durability, window_s: f64, sync_backing: bool) -> io::Result<Self> {
        let buffered = OpenOptions::new().read(true).write(true).open(path)?;
        let direct = OpenOptions::new().read(true).write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path);
        Ok(Disk {
            size: buffered.metadata()?.len(),
            direct: direct.ok(),
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

    fn read(&self, offset: u64, bytes: u64) -> Result<Aligned, Errno> {
        let length = bytes.min(self.size.saturating_sub(offset));
        let mut buffer = Aligned::new(length as usize);
        self.either(|file| file.read_exact_at(buffer.as_mut_slice(), offset))?;
        Ok(buffer)
    }

    fn write(&self, now: Nanos, offset: u64, data: &Aligned) -> Result<u32, Errno> {
        let bytes = data.length as u64;
        if offset + bytes > self.size {
            return Err(Errno::NOSPC);
        }
        if self.journal().records() {
            let old = self.read(offset, bytes)?.as_slice().to_vec();
            self.journal().record(now, (), offset, old, None, bytes);
        }
        self.either(|file| file.write_all_at(data.as_slice(), offset))?;
        Ok(bytes as u32)
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
        let mut lost = Lost::default();
        let entries = self.journal().cut(now, keep_share);
        for entry in entries {
            let mut old = Aligned::new(entry.old.len());
            old.as_mut_slice().copy_from_slice(&entry.old);
            if let Err(error) = self.either(|file| file.write_all_at(old.as_slice(), entry.offset)) {
                eprintln!("power cut: old bytes at {} could not be put back: {error}", entry.offset);
            }
            lost.writes += 1;
            lost.bytes += entry.bytes;
        }
        lost
    }

    fn unsynced(&self, now: Nanos) -> Lost {
        let (writes, bytes) = self.journal().pending(now);
        Lost { writes, bytes }
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
            perm: if directory { 0o755 } else { 0o600 },
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
        for wanted in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_MAX_PAGES] {
            if config.add_capabilities(wanted).is_err() {
                eprintln!("the kernel lacks {wanted:?}: block mode will be slow");
            }
        }
        let _previous = config.set_max_background(BACKGROUND_MAX);
        let _previous = config.set_congestion_threshold(BACKGROUND_MAX);
        let _previous = config.set_max_write(WRITE_BYTES_MAX);
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
        self.engine.perform(
            &asked,
            || self.disk.read(offset, asked.bytes),
            move |result| match result {
                Ok(buffer) => reply.data(buffer.as_slice()),
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
        self.engine.perform(
            &asked,
            || {
                let mut buffer = Aligned::new(data.len());
                buffer.as_mut_slice().copy_from_slice(data);
                self.disk.write(self.engine.now(), offset, &buffer)
            },
            move |result| match result {
                Ok(written) => reply.written(written),
                Err(error) => reply.error(reply_errno(error)),
            },
        );
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.engine.perform(
            &Asked::metadata(Op::Flush),
            || self.disk.flush(),
            move |result| match result {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(reply_errno(error)),
            },
        );
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
        self.engine.perform(
            &Asked::metadata(Op::Other),
            || fallocate(&self.disk.buffered, flags, offset, length),
            move |result| match result {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(reply_errno(error)),
            },
        );
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
        let mut data = Aligned::new(4096);
        data.as_mut_slice().fill(value);
        disk.write(0, offset, &data).unwrap();
    }

    fn first_byte(disk: &Disk, offset: u64) -> u8 {
        disk.read(offset, 4096).unwrap().as_slice()[0]
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
        assert_eq!(after_power_cut(Durability::WriteBack), (1, Lost { writes: 1, bytes: 4096 }));
        assert_eq!(after_power_cut(Durability::Async), (0, Lost { writes: 2, bytes: 8192 }));
    }

    #[test]
    fn unaligned_requests_and_the_end_of_the_disk_are_served() {
        let (path, disk) = disk(Durability::WriteThrough);
        let mut odd = Aligned::new(100);
        odd.as_mut_slice().fill(9);
        disk.write(0, 5, &odd).unwrap();
        assert_eq!(disk.read(0, 4096).unwrap().as_slice()[4..7], [0, 9, 9]);
        assert_eq!(disk.read((1 << 20) - 512, 4096).unwrap().length, 512);
        assert_eq!(disk.write(0, 1 << 20, &odd), Err(Errno::NOSPC));
        std::fs::remove_file(path).unwrap();
    }
}
