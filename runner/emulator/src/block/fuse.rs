//! The disk's file as the FUSE library serves it, over /dev/fuse.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use rustix::io::Errno;

use super::{Disk, IMAGE};
use crate::buffer::{ALIGNMENT, Buffer};
use crate::engine::Engine;
use crate::frontend::{negotiate, perform_empty, reply_errno};
use crate::model::request::{Op, Request as Asked};

const IMAGE_INODE: INodeNo = INodeNo(super::IMAGE_INODE);
/// Nothing here changes while it is mounted.
const FOREVER: Duration = Duration::from_secs(86_400);

pub struct BlockFs {
    pub engine: Arc<Engine>,
    pub disk: Arc<Disk>,
    /// Set on the way in where requests over io_uring are wanted, on the way out where the kernel agrees.
    pub uring: Arc<AtomicBool>,
}

impl BlockFs {
    fn attr(&self, ino: INodeNo) -> FileAttr {
        let directory = ino == INodeNo::ROOT;
        FileAttr {
            ino,
            size: if directory { 0 } else { self.disk.size() },
            blocks: if directory { 0 } else { self.disk.size() / 512 },
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
        let negotiated = self.uring.load(SeqCst) && config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok();
        self.uring.store(negotiated, SeqCst);
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
        if size.is_some_and(|size| size != self.disk.size()) {
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
            |transfers, _| self.disk.read(transfers, offset, Buffer::new(self.disk.readable(offset, asked.bytes))),
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
            |transfers, due| self.disk.write(transfers, self.engine.now(), due, offset, Buffer::copy_of(data)),
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
        let work = || self.disk.fallocate(mode as u32, offset, length);
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
