//! The directory behind the mount: inodes that the kernel remembers, and what may be lost of them.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{FileAttr, FileType, Generation};
use rustix::fs::{
    AtFlags, Dir, FallocateFlags, Gid, Mode, OFlags, RenameFlags, Stat, Uid, chownat, fallocate, fdatasync, fstat,
    fsync, ftruncate, open, openat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::names::{Aside, Change, Entry};
use super::nodes::{Nodes, Stamp};
use super::place::{Place, put_back};
use crate::attr::{attr_of, kind_of};
use crate::engine::{Lost, Storage};
use crate::frontend::errno_of;
use crate::journal::{self, Durability, Journal};
use crate::model::request::Nanos;

pub const ROOT: u64 = 1;
/// A longer tail that is cut off or zeroed is not kept for a power cut: the cut off part is gone at once.
const TAIL_BYTES_MAX: u64 = 4 << 20;
/// The same of an asynchronous volume, which goes back to one moment.
const ASYNC_TAIL_BYTES_MAX: u64 = 64 << 20;

/// An open file.
pub struct Opened {
    pub ino: u64,
    pub file: File,
    place: Arc<OwnedFd>,
}

/// One name in a directory.
pub struct Name {
    pub ino: u64,
    pub kind: FileType,
    pub name: Vec<u8>,
}

pub struct Tree {
    nodes: Mutex<Nodes>,
    device: u64,
    root_ino: u64,
    sync_backing: bool,
    journal: Mutex<Journal<Place>>,
    /// Where names can be taken back: on an asynchronous volume.
    aside: Option<Arc<Aside>>,
}

/// A path by which an O_PATH descriptor can be opened, truncated, or given times.
pub fn magic_path(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn stamp(stat: &Stat) -> Stamp {
    (stat.st_size, stat.st_mtime, stat.st_mtime_nsec)
}

impl Tree {
    pub fn open(root: &Path, durability: Durability, window_s: f64, sync_backing: bool) -> io::Result<Self> {
        let fd = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let stat = statat(&fd, "", AtFlags::EMPTY_PATH)?;
        Ok(Tree {
            nodes: Mutex::new(Nodes::open(root, fd)?),
            device: stat.st_dev,
            root_ino: stat.st_ino,
            sync_backing,
            journal: Mutex::new(Journal::new(durability, window_s)),
            aside: Aside::beside(root, durability == Durability::Async)?,
        })
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Journal<Place>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number under which the kernel knows a backing inode.
    fn number(&self, ino: u64) -> u64 {
        if ino == self.root_ino { ROOT } else { ino }
    }

    /// The descriptor of an inode: good for `*at` calls, not for reading.
    pub fn place(&self, ino: u64) -> Result<Arc<OwnedFd>, Errno> {
        self.nodes().place(ino)
    }

    /// Notes that the client has the attributes of inodes until then: the answer to its request brought them along.
    pub fn give_attributes(&self, inos: &[u64], until: Nanos) {
        let mut nodes = self.nodes();
        for ino in inos {
            nodes.give_attributes(*ino, until);
        }
    }

    pub fn has_attributes(&self, ino: u64, now: Nanos) -> bool {
        self.nodes().has_attributes(ino, now)
    }

    pub fn attr(&self, ino: u64) -> Result<FileAttr, Errno> {
        let stat = statat(self.place(ino)?, "", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(self.attr_of(ino, &stat))
    }

    /// Attributes as the client has them: what is kept aside is gone for it.
    fn attr_of(&self, ino: u64, stat: &Stat) -> FileAttr {
        let mut attr = attr_of(ino, stat);
        attr.nlink -= self.aside.as_ref().map_or(0, |aside| aside.links_of(stat.st_ino)).min(attr.nlink);
        attr
    }

    /// Finds a name and remembers its inode; each success is one reference of the kernel's. Its generation comes along.
    pub fn lookup(&self, parent: u64, name: &OsStr) -> Result<(FileAttr, Generation), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(self.place(parent)?, name, flags, Mode::empty())?;
        let stat = statat(&fd, "", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        if stat.st_dev != self.device {
            return Err(Errno::XDEV); // another file system's inode numbers would clash with ours
        }
        let ino = self.number(stat.st_ino);
        let generation = self.nodes().remember(ino, fd);
        Ok((self.attr_of(ino, &stat), Generation(generation)))
    }

    /// Whether a name is not there.
    pub fn lacks(&self, parent: u64, name: &OsStr) -> bool {
        let Ok(parent) = self.place(parent) else { return false };
        statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_err_and(|error| error == Errno::NOENT)
    }

    pub fn forget(&self, ino: u64, lookups: u64) {
        self.nodes().forget(ino, lookups);
    }

    /// Gives a new file to who asked for it; a directory with the set-group-id bit keeps its group.
    pub fn give(&self, parent: u64, name: &OsStr, uid: u32, gid: u32) -> Result<(), Errno> {
        let parent = self.place(parent)?;
        let inherits = statat(&parent, "", AtFlags::EMPTY_PATH)?.st_mode & Mode::SGID.as_raw_mode() != 0;
        let new = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let group = (!inherits && new.st_gid != gid).then(|| Gid::from_raw(gid));
        let owner = (new.st_uid != uid).then(|| Uid::from_raw(uid));
        if owner.is_none() && group.is_none() {
            return Ok(());
        }
        chownat(&parent, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?;
        let special = new.st_mode & (Mode::SUID | Mode::SGID).as_raw_mode() != 0;
        if special && !rustix::fs::FileType::from_raw_mode(new.st_mode).is_symlink() {
            let mode = Mode::from_raw_mode(new.st_mode);
            rustix::fs::chmodat(&parent, name, mode, AtFlags::empty())?; // chown takes these bits away
        }
        Ok(())
    }

    /// Opens an inode. The client's cache reads files that were opened for writing, and does its own appending.
    pub fn open_node(&self, now: Nanos, ino: u64, flags: OFlags) -> Result<Opened, Errno> {
        let place = self.place(ino)?;
        let wanted = flags - OFlags::NOFOLLOW - OFlags::CREATE - OFlags::EXCL - OFlags::APPEND - OFlags::DIRECT;
        let mut readable = wanted | OFlags::CLOEXEC;
        if wanted.contains(OFlags::WRONLY) {
            readable = (readable - OFlags::WRONLY) | OFlags::RDWR;
        }
        if wanted.contains(OFlags::TRUNC) {
            self.record_length(now, ino, &place, 0)?;
        }
        let file = File::from(open(magic_path(&place), readable, Mode::empty())?);
        Ok(Opened { ino, file, place })
    }

    /// Creates and opens; an existing file is opened unless `flags` forbid it.
    pub fn create(
        &self,
        now: Nanos,
        parent: u64,
        name: &OsStr,
        mode: u32,
        flags: OFlags,
        owner: (u32, u32),
    ) -> Result<(FileAttr, Generation, Opened), Errno> {
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match openat(self.place(parent)?, name, new, Mode::from_raw_mode(mode)) {
            Ok(_) => {
                self.made(now, parent, name, false)?;
                self.give(parent, name, owner.0, owner.1)?;
            }
            Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => {}
            Err(error) => return Err(error),
        }
        let (attr, generation) = self.lookup(parent, name)?;
        match self.open_node(now, attr.ino.0, flags) {
            Ok(opened) => Ok((attr, generation, opened)),
            Err(error) => {
                self.forget(attr.ino.0, 1);
                Err(error)
            }
        }
    }

    /// Whether what the client has cached of a file is still right; from now on it is.
    pub fn cache_is_right(&self, opened: &Opened) -> bool {
        let Ok(stat) = fstat(&opened.file) else { return false };
        let now = Some(stamp(&stat));
        self.nodes().cached(opened.ino).is_some_and(|cached| std::mem::replace(cached, now) == now)
    }

    /// The client has written everything back, so its cache is what the file holds.
    pub fn closed(&self, opened: &Opened) {
        if let (Ok(stat), Some(cached)) = (fstat(&opened.file), self.nodes().cached(opened.ino)) {
            *cached = Some(stamp(&stat));
        }
    }

    pub fn read(opened: &Opened, offset: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
        let mut buffer = vec![0; bytes];
        let mut filled = 0;
        while filled < bytes {
            match opened.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno_of(&error)),
            }
        }
        buffer.truncate(filled);
        Ok(buffer)
    }

    pub fn write(&self, now: Nanos, opened: &Opened, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        if self.journal().records() {
            let length = fstat(&opened.file)?.st_size as u64;
            let overwritten = length.saturating_sub(offset).min(data.len() as u64);
            let old = Self::read(opened, offset, overwritten as usize)?;
            let place = Place::File { ino: opened.ino, fd: Arc::clone(&opened.place) };
            self.journal().record(now, place, offset, old, Some(length), data.len() as u64);
        }
        opened.file.write_all_at(data, offset).map_err(|error| errno_of(&error))?;
        Ok(data.len() as u32)
    }

    /// Keeps the length, and what lies beyond `from` if it is not too much, for a power cut.
    fn record_length(&self, now: Nanos, ino: u64, place: &Arc<OwnedFd>, from: u64) -> Result<(), Errno> {
        if !self.journal().records() {
            return Ok(());
        }
        let file = File::from(open(magic_path(place), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
        let length = fstat(&file)?.st_size as u64;
        let tail = length.saturating_sub(from);
        let of_file = Place::File { ino, fd: Arc::clone(place) };
        if tail > if self.aside.is_some() { ASYNC_TAIL_BYTES_MAX } else { TAIL_BYTES_MAX } {
            self.journal().settle(&of_file);
            return Ok(());
        }
        let old = Self::read(&Opened { ino, file, place: Arc::clone(place) }, from, tail as usize)?;
        self.journal().record(now, of_file, from, old, Some(length), tail);
        Ok(())
    }

    /// Returns when what was removed for good takes no space any more.
    pub fn wait_until_removed(&self) {
        if let Some(aside) = &self.aside {
            aside.wait_until_removed();
        }
    }

    fn record_change(&self, now: Nanos, change: Change) {
        self.journal().record(now, Place::Name(Arc::new(change)), 0, Vec::new(), None, 0);
    }

    /// Notes that a name was made, of a directory or of anything else.
    pub fn made(&self, now: Nanos, parent: u64, name: &OsStr, directory: bool) -> Result<(), Errno> {
        if self.aside.is_some() {
            let entry = Entry::new(&self.place(parent)?, name);
            self.record_change(now, Change::Made { entry, directory });
        }
        Ok(())
    }

    /// Removes a name; of a directory with `AtFlags::REMOVEDIR`.
    pub fn remove(&self, now: Nanos, parent: u64, name: &OsStr, flags: AtFlags) -> Result<(), Errno> {
        let parent = self.place(parent)?;
        let Some(aside) = &self.aside else { return unlinkat(parent, name, flags) };
        if let Some(change) = aside.remove(Entry::new(&parent, name), flags)? {
            self.record_change(now, change);
        }
        Ok(())
    }

    /// Moves a name, each given with its directory.
    pub fn rename(&self, now: Nanos, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> Result<(), Errno> {
        let (from_place, to_place) = (self.place(from.0)?, self.place(to.0)?);
        let Some(aside) = &self.aside else { return renameat_with(from_place, from.1, to_place, to.1, flags) };
        if let Some(change) = aside.rename(Entry::new(&from_place, from.1), Entry::new(&to_place, to.1), flags)? {
            self.record_change(now, change);
        }
        Ok(())
    }

    pub fn truncate(&self, now: Nanos, ino: u64, length: u64) -> Result<(), Errno> {
        let place = self.place(ino)?;
        self.record_length(now, ino, &place, length)?;
        let file = open(magic_path(&place), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        ftruncate(file, length)
    }

    pub fn allocate(
        &self,
        now: Nanos,
        opened: &Opened,
        mode: FallocateFlags,
        offset: u64,
        length: u64,
    ) -> Result<(), Errno> {
        if mode != FallocateFlags::KEEP_SIZE {
            let old_length = fstat(&opened.file)?.st_size as u64;
            let from = if mode.is_empty() { old_length } else { offset };
            self.record_length(now, opened.ino, &opened.place, from)?;
        }
        fallocate(&opened.file, mode, offset, length)
    }

    /// Makes a file durable: an fsync, or the commit that a close brings with it.
    pub fn sync(&self, opened: &Opened, data_only: bool) -> Result<(), Errno> {
        let mark = self.journal().mark();
        if self.sync_backing {
            if data_only { fdatasync(&opened.file)? } else { fsync(&opened.file)? }
        }
        let place = Place::File { ino: opened.ino, fd: Arc::clone(&opened.place) };
        self.journal().flushed(mark, Some(&place));
        Ok(())
    }

    pub fn list(&self, ino: u64) -> Result<Vec<Name>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(self.place(ino)?, ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::new(fd)? {
            let entry = entry?;
            names.push(Name {
                ino: self.number(entry.ino()),
                kind: kind_of(entry.file_type()),
                name: entry.file_name().to_bytes().to_vec(),
            });
        }
        Ok(names)
    }
}

impl Storage for Tree {
    /// Takes back what was written and how long files were. Names are durable at once, as in a metadata log, but on an
    /// asynchronous volume, which goes back to one moment.
    fn power_cut(&self, now: Nanos, keep_share: f64) -> Lost {
        let mut lost = Lost { early: self.journal().take_early(now), ..Lost::default() };
        let entries = self.journal().cut(now, keep_share);
        for entry in entries {
            if let Err(error) = put_back(&entry.place, entry.offset, &entry.old, entry.old_length) {
                match &entry.place {
                    Place::File { ino, .. } => eprintln!("power cut: inode {ino} could not be put back: {error}"),
                    Place::Name(_) => eprintln!("power cut: a name could not be put back: {error}"),
                }
            }
            lost.writes += u64::from(journal::Place::is_write(&entry.place));
            lost.bytes += entry.bytes;
        }
        lost
    }

    fn settle(&self) {
        self.journal().settle_all();
        self.wait_until_removed();
    }

    fn unsynced(&self, now: Nanos) -> Lost {
        let (writes, bytes) = self.journal().pending(now);
        Lost { writes, bytes, early: 0, torn: 0 }
    }
}
