//! Files mode: a directory as a network file system shows it.
//!
//! The client is the kernel's page cache: it believes attributes and names for a while, writes back when a file
//! is closed or synced, and asks the server again when it is opened. Every request that reaches us is one round
//! trip of the network file system. Locks are the kernel's own (local). As in NFS up to 4.1 there are no extended
//! attributes and no search for holes.

mod tree;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, chmod,
    chownat, fstatvfs, linkat, mkdirat, mknodat, open, readlinkat, renameat_with, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::block::{BACKGROUND_MAX, WRITE_BYTES_MAX, reply_errno};
use crate::engine::Engine;
use crate::model::request::{Op, Request as Asked};
pub use tree::Tree;
use tree::{Name, Opened, magic_path};

/// The attributes to change, as one setattr carries them.
struct Change {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    atime: Option<TimeOrNow>,
    mtime: Option<TimeOrNow>,
}

pub struct FilesFs {
    engine: Arc<Engine>,
    tree: Arc<Tree>,
    ttl: Duration,
    files: RwLock<HashMap<u64, Arc<Opened>>>,
    listings: Mutex<HashMap<u64, Vec<Name>>>,
    next_handle: AtomicU64,
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) },
            // Of a request's time before 1970 the FUSE library takes the fraction off: -1 s and 0.7 s arrives as -1.7 s.
            Err(before) => Timespec {
                tv_sec: -(before.duration().as_secs() as i64),
                tv_nsec: i64::from(before.duration().subsec_nanos()),
            },
        },
    }
}

impl FilesFs {
    pub fn new(engine: Arc<Engine>, tree: Arc<Tree>, ttl: Duration) -> Self {
        FilesFs {
            engine,
            tree,
            ttl,
            files: RwLock::default(),
            listings: Mutex::default(),
            next_handle: AtomicU64::new(1),
        }
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<Opened>, Errno> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    fn handle(&self, opened: Opened) -> u64 {
        let handle = self.next_handle.fetch_add(1, Relaxed);
        self.files.write().unwrap_or_else(PoisonError::into_inner).insert(handle, Arc::new(opened));
        handle
    }

    /// Answers with an inode; a reference that the kernel did not get (the volume went away) is given back.
    fn entry(&self, op: Op, work: impl FnOnce() -> Result<FileAttr, Errno>, reply: ReplyEntry) {
        let (ttl, tree) = (self.ttl, Arc::clone(&self.tree));
        let found = Arc::new(AtomicU64::new(0));
        let noted = Arc::clone(&found);
        let work = || work().inspect(|attr| noted.store(attr.ino.0, Relaxed));
        self.engine.perform(&Asked::metadata(op), work, move |result| match result {
            Ok(attr) => reply.entry(&ttl, &attr, Generation(0)),
            Err(error) => {
                match found.load(Relaxed) {
                    0 => {}
                    ino => tree.forget(ino, 1),
                }
                reply.error(reply_errno(error));
            }
        });
    }

    fn empty(&self, asked: &Asked, work: impl FnOnce() -> Result<(), Errno>, reply: ReplyEmpty) {
        self.engine.perform(asked, work, move |result| match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(reply_errno(error)),
        });
    }

    fn attr(&self, op: Op, work: impl FnOnce() -> Result<FileAttr, Errno>, reply: ReplyAttr) {
        let ttl = self.ttl;
        self.engine.perform(&Asked::metadata(op), work, move |result| match result {
            Ok(attr) => reply.attr(&ttl, &attr),
            Err(error) => reply.error(reply_errno(error)),
        });
    }

    fn fill(&self, ino: u64, handle: u64, offset: u64, reply: &mut ReplyDirectory) -> Result<(), Errno> {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 || !listings.contains_key(&handle) {
            listings.insert(handle, self.tree.list(ino)?);
        }
        for (index, entry) in listings[&handle].iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(entry.ino), index as u64 + 1, entry.kind, OsStr::from_bytes(&entry.name)) {
                break;
            }
        }
        Ok(())
    }

    fn open_flags(&self, opened: &Opened) -> FopenFlags {
        if self.tree.cache_is_right(opened) {
            FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        }
    }

    fn change(&self, ino: u64, change: &Change) -> Result<FileAttr, Errno> {
        let place = self.tree.place(ino)?;
        let path = magic_path(&place);
        if let Some(size) = change.size {
            self.tree.truncate(self.engine.now(), ino, size)?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            chownat(&place, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = change.mode {
            chmod(&path, Mode::from_raw_mode(mode))?; // after chown, which takes set-id bits away
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let times = Timestamps { last_access: timespec(change.atime), last_modification: timespec(change.mtime) };
            utimensat(CWD, &path, &times, AtFlags::empty())?;
        }
        self.tree.attr(ino)
    }
}

impl Filesystem for FilesFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_MAX_PAGES,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_WRITEBACK_CACHE,
        ];
        for flag in wanted {
            if config.add_capabilities(flag).is_err() {
                eprintln!("the kernel lacks {flag:?}: caching differs from a network file system's");
            }
        }
        let _previous = config.set_max_background(BACKGROUND_MAX);
        let _previous = config.set_congestion_threshold(BACKGROUND_MAX);
        let _previous = config.set_max_write(WRITE_BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(Op::Lookup, || self.tree.lookup(parent.0, name), reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.tree.forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(Op::Getattr, || self.tree.attr(ino.0), reply);
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
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, uid, gid, size, atime, mtime };
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
            self.tree.give(parent.0, name, request.uid(), request.gid())?;
            self.tree.lookup(parent.0, name)
        };
        self.entry(Op::Create, make, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let make = || {
            mkdirat(self.tree.place(parent.0)?, name, Mode::from_raw_mode(mode))?;
            self.tree.give(parent.0, name, request.uid(), request.gid())?;
            self.tree.lookup(parent.0, name)
        };
        self.entry(Op::Create, make, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let make = || {
            symlinkat(target, self.tree.place(parent.0)?, name)?;
            self.tree.give(parent.0, name, request.uid(), request.gid())?;
            self.tree.lookup(parent.0, name)
        };
        self.entry(Op::Create, make, reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let make = || {
            let (place, parent_place) = (self.tree.place(ino.0)?, self.tree.place(parent.0)?);
            linkat(CWD, magic_path(&place).as_str(), parent_place, name, AtFlags::SYMLINK_FOLLOW)?;
            self.tree.lookup(parent.0, name)
        };
        self.entry(Op::Create, make, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || unlinkat(self.tree.place(parent.0)?, name, AtFlags::empty());
        self.empty(&Asked::metadata(Op::Unlink), remove, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || unlinkat(self.tree.place(parent.0)?, name, AtFlags::REMOVEDIR);
        self.empty(&Asked::metadata(Op::Unlink), remove, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let work = || renameat_with(self.tree.place(parent.0)?, name, self.tree.place(new_parent.0)?, new_name, flags);
        self.empty(&Asked::metadata(Op::Rename), work, reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let work = || {
            let opened = self.tree.open_node(self.engine.now(), ino.0, OFlags::from_bits_retain(flags.0 as u32))?;
            let answer = self.open_flags(&opened);
            Ok((self.handle(opened), answer))
        };
        self.engine.perform(&Asked::metadata(Op::Open), work, move |result| match result {
            Ok((handle, flags)) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(reply_errno(error)),
        });
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
        let ttl = self.ttl;
        let work = || {
            let owner = (request.uid(), request.gid());
            let flags = OFlags::from_bits_retain(flags as u32);
            let (attr, opened) = self.tree.create(self.engine.now(), parent.0, name, mode, flags, owner)?;
            let answer = self.open_flags(&opened);
            Ok((attr, self.handle(opened), answer))
        };
        self.engine.perform(&Asked::metadata(Op::Create), work, move |result| match result {
            Ok((attr, handle, flags)) => reply.created(&ttl, &attr, Generation(0), FileHandle(handle), flags),
            Err(error) => reply.error(reply_errno(error)),
        });
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
        let work = || self.tree.write(self.engine.now(), self.file(handle)?.as_ref(), offset, data);
        self.engine.perform(&asked, work, move |result| match result {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(reply_errno(error)),
        });
    }

    /// Close: the client has written back, and waits until the server has committed.
    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let work = || {
            let opened = self.file(handle)?;
            self.tree.closed(&opened);
            self.tree.sync(&opened, true)
        };
        self.empty(&Asked::metadata(Op::Close), work, reply);
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

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let work = || self.tree.sync(self.file(handle)?.as_ref(), data_only);
        self.empty(&Asked::metadata(Op::Flush), work, reply);
    }

    /// Names are durable as soon as they are acknowledged, so there is nothing to do but to ask.
    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.empty(&Asked::metadata(Op::Flush), || Ok(()), reply);
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
        self.empty(&Asked::metadata(Op::Other), work, reply);
    }
}
