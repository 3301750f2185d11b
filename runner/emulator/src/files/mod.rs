//! Files mode: a directory as a network file system shows it.
//!
//! The client is the kernel's page cache: it believes attributes and names for a while, writes back when a file
//! is closed or synced, and asks the server again when it is opened. Every request that reaches us is one round
//! trip of the network file system. Locks are the kernel's own (local). As in NFS up to 4.1 there are no extended
//! attributes and no search for holes.

mod client;
mod names;
mod nodes;
mod place;
mod state;
mod tree;

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, fstatvfs, linkat, mkdirat, mknodat, open, readlinkat,
    symlinkat,
};
use rustix::io::Errno;

use crate::engine::Health;
use crate::frontend::{negotiate, perform_empty, reply_errno};
use crate::model::request::{Nanos, Op, Request as Asked};
use state::Change;
pub use state::FilesFs;
pub use tree::Tree;
use tree::magic_path;

impl Filesystem for FilesFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = vec![
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_MAX_PAGES,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
        ];
        if !self.client_sync {
            wanted.push(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        negotiate(config, &wanted, "caching differs from a network file system's");
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if self.engine.health() != Health::Attached || !self.tree.lacks(parent.0, name) {
            let owed = self.client.settle(request.pid());
            return self.entry(Op::Lookup, owed, || self.tree.lookup(parent.0, name), reply);
        }
        let now = self.engine.now();
        let until = now + self.ttl.as_nanos() as Nanos;
        if !self.client.miss(request.pid(), parent.0, name, now, until) {
            return reply.error(reply_errno(Errno::NOENT));
        }
        self.engine.perform(
            &Asked::metadata(Op::Lookup),
            || Err(Errno::NOENT),
            move |result: Result<(), Errno>| reply.error(reply_errno(result.err().unwrap_or(Errno::NOENT))),
        );
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.tree.forget(ino.0, lookups);
        self.client.commit(ino.0); // its number may be another file's next
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if self.engine.health() != Health::Attached || !self.tree.has_attributes(ino.0, self.engine.now()) {
            return self.attr(Op::Getattr, || self.tree.attr(ino.0), reply);
        }
        match self.tree.attr(ino.0) {
            Ok(attr) => reply.attr(&self.ttl, &attr),
            Err(error) => reply.error(reply_errno(error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // Of written-back data FUSE sends the time apart, which an NFS client does not: its server takes the time itself.
        let of_written_data = mtime.is_some() && ctime.is_some();
        let others = mode.is_some() || uid.is_some() || gid.is_some() || size.is_some() || atime.is_some();
        let change = Change { mode, uid, gid, size, atime, mtime };
        if of_written_data && !others {
            return match self.change(ino.0, &change) {
                Ok(attr) => reply.attr(&self.ttl, &attr),
                Err(error) => reply.error(reply_errno(error)),
            };
        }
        self.attr(Op::Setattr, || self.change(ino.0, &change), reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        self.engine.perform(
            &Asked::metadata(Op::Other),
            || readlinkat(self.tree.place(ino.0)?, "", Vec::new()),
            move |result| match result {
                Ok(target) => reply.data(target.as_bytes()),
                Err(error) => reply.error(reply_errno(error)),
            },
        );
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        let make = || {
            let kind = FileType::from_raw_mode(mode);
            mknodat(self.tree.place(parent.0)?, name, kind, Mode::from_raw_mode(mode), u64::from(rdev))?;
            self.tree.made(self.engine.now(), parent.0, name, false)?;
            self.tree.give(parent.0, name, request.uid(), request.gid())?;
            self.give_attributes(&[parent.0]);
            self.tree.lookup(parent.0, name)
        };
        self.entry(Op::Create, self.client.make(request.pid(), parent.0, name), make, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let make = || {
            mkdirat(self.tree.place(parent.0)?, name, Mode::from_raw_mode(mode))?;
            self.tree.made(self.engine.now(), parent.0, name, true)?;
            self.tree.give(parent.0, name, request.uid(), request.gid())?;
            self.give_attributes(&[parent.0]);
            self.tree.lookup(parent.0, name)
        };
        self.entry(Op::Create, self.client.make(request.pid(), parent.0, name), make, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let make = || {
            symlinkat(target, self.tree.place(parent.0)?, name)?;
            self.tree.made(self.engine.now(), parent.0, name, false)?;
            self.tree.give(parent.0, name, request.uid(), request.gid())?;
            self.give_attributes(&[parent.0]);
            self.tree.lookup(parent.0, name)
        };
        self.entry(Op::Create, self.client.make(request.pid(), parent.0, name), make, reply);
    }

    fn link(&self, request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let make = || {
            let (place, parent_place) = (self.tree.place(ino.0)?, self.tree.place(parent.0)?);
            linkat(CWD, magic_path(&place).as_str(), parent_place, name, AtFlags::SYMLINK_FOLLOW)?;
            self.tree.made(self.engine.now(), parent.0, name, false)?;
            self.give_attributes(&[ino.0, parent.0]);
            self.tree.lookup(parent.0, name)
        };
        self.entry(Op::Create, self.client.make(request.pid(), parent.0, name), make, reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || self.remove(parent.0, name, AtFlags::empty());
        self.change_names(Op::Unlink, self.client.settle(request.pid()), remove, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || self.remove(parent.0, name, AtFlags::REMOVEDIR);
        self.change_names(Op::Unlink, self.client.settle(request.pid()), remove, reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let owed = self.client.make(request.pid(), new_parent.0, new_name);
        let work = || {
            self.tree.rename(self.engine.now(), (parent.0, name), (new_parent.0, new_name), flags)?;
            self.give_attributes(&[parent.0, new_parent.0]);
            Ok(())
        };
        self.change_names(Op::Rename, owed, work, reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let flags = OFlags::from_bits_retain(flags.0 as u32);
        let work = || {
            let opened = self.tree.open_node(self.engine.now(), ino.0, flags)?;
            let answer = self.open_flags(&opened);
            self.give_attributes(&[ino.0]);
            Ok((self.handle(opened), answer))
        };
        let answer = |result| match result {
            Ok((handle, flags)) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(reply_errno(error)),
        };
        self.perform_then_setattr(
            Op::Open,
            self.client.settle(request.pid()),
            flags.contains(OFlags::TRUNC),
            work,
            answer,
        );
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (ttl, owed) = (self.ttl, self.client.make(request.pid(), parent.0, name));
        let flags = OFlags::from_bits_retain(flags as u32);
        let work = || {
            let owner = (request.uid(), request.gid());
            let (attr, generation, opened) = self.tree.create(self.engine.now(), parent.0, name, mode, flags, owner)?;
            let answer = self.open_flags(&opened);
            self.give_attributes(&[parent.0, attr.ino.0]);
            Ok((attr, generation, self.handle(opened), answer))
        };
        let answer = move |result| match result {
            Ok((attr, generation, handle, flags)) => {
                reply.created(&ttl, &attr, generation, FileHandle(handle), flags);
            }
            Err(error) => reply.error(reply_errno(error)),
        };
        self.perform_then_setattr(Op::Create, owed, flags.contains(OFlags::EXCL), work, answer);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let asked = Asked { op: Op::Read, stream: ino.0, offset, bytes: u64::from(size) };
        let work = || Tree::read(self.file(handle)?.as_ref(), offset, size as usize);
        self.engine.perform(&asked, work, move |result| match result {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(reply_errno(error)),
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let asked = Asked { op: Op::Write, stream: ino.0, offset, bytes: data.len() as u64 };
        let work = || {
            let written = self.tree.write(self.engine.now(), self.file(handle)?.as_ref(), offset, data)?;
            self.client.write(ino.0);
            self.give_attributes(&[ino.0]);
            Ok(written)
        };
        self.engine.perform(&asked, work, move |result| match result {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(reply_errno(error)),
        });
    }

    /// Close: the client has written back, and waits until the server has committed.
    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let work = || {
            let opened = self.file(handle)?;
            self.client.commit(opened.ino);
            self.tree.closed(&opened);
            self.tree.sync(&opened, true)
        };
        perform_empty(&self.engine, &Asked::metadata(Op::Close), work, reply);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.files.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let work = || self.tree.sync(self.file(handle)?.as_ref(), data_only);
        if self.client.commit(ino.0) && self.engine.health() == Health::Attached {
            return match self.engine.work(work) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(reply_errno(error)),
            };
        }
        perform_empty(&self.engine, &Asked::metadata(Op::Flush), work, reply);
    }

    /// Names are durable as soon as they are acknowledged, so there is nothing to do but to ask.
    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        perform_empty(&self.engine, &Asked::metadata(Op::Flush), || Ok(()), reply);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(self.next_handle.fetch_add(1, Relaxed)), FopenFlags::empty());
    }

    /// A listing is read when it is begun, and again after a rewind; between, it does not change.
    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = self.fill(ino.0, handle.0, offset, &mut reply);
        self.engine.perform(
            &Asked::metadata(Op::Readdir),
            || listed,
            move |result| match result {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(reply_errno(error)),
            },
        );
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let work = || {
            let root = self.tree.place(tree::ROOT)?;
            fstatvfs(open(magic_path(&root), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
        };
        self.engine.perform(&Asked::metadata(Op::Other), work, move |result| match result {
            Ok(stat) => reply.statfs(
                stat.f_blocks,
                stat.f_bfree,
                stat.f_bavail,
                stat.f_files,
                stat.f_ffree,
                stat.f_bsize as u32,
                stat.f_namemax as u32,
                stat.f_frsize as u32,
            ),
            Err(error) => reply.error(reply_errno(error)),
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let work = || self.tree.allocate(self.engine.now(), self.file(handle)?.as_ref(), mode, offset, length);
        perform_empty(&self.engine, &Asked::metadata(Op::Other), work, reply);
    }
}
