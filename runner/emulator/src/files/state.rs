//! What the files frontend remembers between requests (open files, listings begun), and how it answers.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyDirectory, ReplyEmpty, ReplyEntry, TimeOrNow,
};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, chmod, chownat, utimensat,
};
use rustix::io::Errno;

use super::client::Client;
use super::tree::{Name, Opened, Tree, magic_path};
use crate::engine::Engine;
use crate::frontend::reply_errno;
use crate::model::request::{Nanos, Op, Request as Asked};

/// The attributes to change, as one setattr carries them.
pub(super) struct Change {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) atime: Option<TimeOrNow>,
    pub(super) mtime: Option<TimeOrNow>,
}

pub struct FilesFs {
    pub(super) engine: Arc<Engine>,
    pub(super) tree: Arc<Tree>,
    pub(super) client: Client,
    pub(super) ttl: Duration,
    pub(super) client_sync: bool,
    pub(super) files: RwLock<HashMap<u64, Arc<Opened>>>,
    pub(super) listings: Mutex<HashMap<u64, Vec<Name>>>,
    pub(super) next_handle: AtomicU64,
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

/// The question for a name that is to be paid before a request.
fn first(owed: bool) -> Option<Op> {
    owed.then_some(Op::Lookup)
}

impl FilesFs {
    pub fn new(engine: Arc<Engine>, tree: Arc<Tree>, ttl: Duration, client_sync: bool) -> Self {
        FilesFs {
            engine,
            tree,
            client: Client::default(),
            ttl,
            client_sync,
            files: RwLock::default(),
            listings: Mutex::default(),
            next_handle: AtomicU64::new(1),
        }
    }

    /// An answer of an NFS server brings the attributes of what it changed or opened: in version 3 `wcc_data` and
    /// `post_op_attr` (RFC 1813), in version 4 a GETATTR in the same compound. FUSE asks for them apart, so that the
    /// client of a network file system would not ask: those requests are answered from what it has.
    pub(super) fn give_attributes(&self, inos: &[u64]) {
        self.tree.give_attributes(inos, self.engine.now() + self.ttl.as_nanos() as Nanos);
    }

    pub(super) fn file(&self, handle: FileHandle) -> Result<Arc<Opened>, Errno> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    pub(super) fn handle(&self, opened: Opened) -> u64 {
        let handle = self.next_handle.fetch_add(1, Relaxed);
        self.files.write().unwrap_or_else(PoisonError::into_inner).insert(handle, Arc::new(opened));
        handle
    }

    /// Answers with an inode; a reference that the kernel did not get (the volume went away) is given back.
    pub(super) fn entry(
        &self,
        op: Op,
        owed: bool,
        work: impl FnOnce() -> Result<(FileAttr, Generation), Errno>,
        reply: ReplyEntry,
    ) {
        let (ttl, tree) = (self.ttl, Arc::clone(&self.tree));
        let found = Arc::new(AtomicU64::new(0));
        let noted = Arc::clone(&found);
        let work = || work().inspect(|(attr, _)| noted.store(attr.ino.0, Relaxed));
        self.engine.perform_after(first(owed), &Asked::metadata(op), work, move |result| match result {
            Ok((attr, generation)) => reply.entry(&ttl, &attr, generation),
            Err(error) => {
                match found.load(Relaxed) {
                    0 => {}
                    ino => tree.forget(ino, 1),
                }
                reply.error(reply_errno(error));
            }
        });
    }

    /// Performs what is answered by success or an error alone, after a question that is owed.
    pub(super) fn change_names(&self, op: Op, owed: bool, work: impl FnOnce() -> Result<(), Errno>, reply: ReplyEmpty) {
        self.engine.perform_after(first(owed), &Asked::metadata(op), work, move |result| match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(reply_errno(error)),
        });
    }

    /// Performs an operation that a client of NFS follows with a SETATTR of its own: after an exclusive OPEN, whose
    /// verifier takes the place of the times, and after one that is to truncate.
    pub(super) fn perform_then_setattr<T: Send + 'static>(
        &self,
        op: Op,
        owed: bool,
        sets: bool,
        work: impl FnOnce() -> Result<T, Errno>,
        answer: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let engine = Arc::clone(&self.engine);
        self.engine.perform_after(first(owed), &Asked::metadata(op), work, move |result| match result {
            Ok(done) if sets => engine.perform(&Asked::metadata(Op::Setattr), || Ok(done), answer),
            result => answer(result),
        });
    }

    pub(super) fn attr(&self, op: Op, work: impl FnOnce() -> Result<FileAttr, Errno>, reply: ReplyAttr) {
        let ttl = self.ttl;
        self.engine.perform(&Asked::metadata(op), work, move |result| match result {
            Ok(attr) => reply.attr(&ttl, &attr),
            Err(error) => reply.error(reply_errno(error)),
        });
    }

    pub(super) fn fill(&self, ino: u64, handle: u64, offset: u64, reply: &mut ReplyDirectory) -> Result<(), Errno> {
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

    pub(super) fn open_flags(&self, opened: &Opened) -> FopenFlags {
        if self.tree.cache_is_right(opened) {
            FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        }
    }

    pub(super) fn remove(&self, parent: u64, name: &OsStr, flags: AtFlags) -> Result<(), Errno> {
        self.tree.remove(self.engine.now(), parent, name, flags)?;
        self.give_attributes(&[parent]);
        Ok(())
    }

    pub(super) fn change(&self, ino: u64, change: &Change) -> Result<FileAttr, Errno> {
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
