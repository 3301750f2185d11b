//! Changes of names that a power cut takes back, on a volume that goes back to one moment.
//!
//! What loses its name stays beside the tree until the change is durable: a file by a second link, a directory, which
//! can have only one name, by moving there.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, RenameFlags, linkat, open, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

/// The directory beside the tree.
pub const ASIDE: &str = ".volbench-removed";

/// A name in a directory.
#[derive(Clone)]
pub struct Entry {
    pub parent: Arc<OwnedFd>,
    pub name: OsString,
}

impl Entry {
    pub fn new(parent: &Arc<OwnedFd>, name: &OsStr) -> Self {
        Entry { parent: Arc::clone(parent), name: name.to_owned() }
    }

    fn is_empty_directory(&self) -> Result<bool, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for entry in Dir::new(openat(&self.parent, &self.name, flags, Mode::empty())?)? {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// One change, with what it needs to be taken back.
pub enum Change {
    Made { entry: Entry, directory: bool },
    Removed { entry: Entry, kept: Kept },
    Moved { from: Entry, to: Entry, replaced: Option<Kept> },
    Exchanged { first: Entry, second: Entry },
}

impl Change {
    /// Memory of it, roughly: the names' own bytes are few.
    pub fn bytes(&self) -> usize {
        2 * size_of::<Self>()
    }

    /// Takes the change back, all later ones having been taken back before.
    pub fn undo(&self) -> Result<(), Errno> {
        match self {
            Change::Made { entry, directory } => {
                let flags = if *directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                unlinkat(&entry.parent, &entry.name, flags)
            }
            Change::Removed { entry, kept } => kept.restore(entry),
            Change::Moved { from, to, replaced } => {
                renameat_with(&to.parent, &to.name, &from.parent, &from.name, RenameFlags::NOREPLACE)?;
                replaced.as_ref().map_or(Ok(()), |kept| kept.restore(to))
            }
            Change::Exchanged { first, second } => {
                renameat_with(&first.parent, &first.name, &second.parent, &second.name, RenameFlags::EXCHANGE)
            }
        }
    }
}

/// Where things without a name are, on the tree's file system.
pub struct Aside {
    directory: Arc<Directory>,
    next: AtomicU64,
    /// To the thread that removes: nobody waits for a large file to be freed.
    removals: Sender<Removal>,
}

struct Directory {
    fd: OwnedFd,
    /// Links here by inode: the client has none of them.
    links: Mutex<HashMap<u64, u32>>,
}

impl Directory {
    fn links(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a name, unless what it named was given its own name back.
    fn remove(&self, name: &str, file: Option<u64>) {
        let flags = if file.is_none() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match unlinkat(&self.fd, name, flags) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => eprintln!("{ASIDE}/{name}: {error}"),
        }
        let mut links = self.links();
        if let Some((ino, count)) = file.and_then(|ino| Some((ino, links.get_mut(&ino)?))) {
            *count -= 1;
            if *count == 0 {
                links.remove(&ino);
            }
        }
    }

    fn serve(&self, removals: &Receiver<Removal>) {
        for removal in removals {
            match removal {
                Removal::Name { name, file } => self.remove(&name, file),
                Removal::Reached(answer) => drop(answer.send(())),
            }
        }
    }
}

enum Removal {
    /// A name here, of a file with that inode or of a directory.
    Name { name: String, file: Option<u64> },
    /// All before it are done.
    Reached(Sender<()>),
}

impl Aside {
    /// Clears what an earlier daemon left beside the root, and makes the directory anew where it is `wanted`.
    pub fn beside(root: &Path, wanted: bool) -> io::Result<Option<Arc<Self>>> {
        let root = root.canonicalize()?;
        let path = root.parent().ok_or(io::ErrorKind::NotADirectory)?.join(ASIDE);
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        if !wanted {
            return Ok(None);
        }
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let fd = open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let directory = Arc::new(Directory { fd, links: Mutex::default() });
        let (removals, received) = channel();
        let served = Arc::clone(&directory);
        thread::spawn(move || served.serve(&received));
        Ok(Some(Arc::new(Aside { directory, next: AtomicU64::new(0), removals })))
    }

    /// Returns when all that is gone for good by now takes no space any more.
    pub fn wait_until_removed(&self) {
        let (answer, answered) = channel();
        if self.removals.send(Removal::Reached(answer)).is_ok() {
            let _ = answered.recv();
        }
    }

    /// How many links of an inode are here.
    pub fn links_of(&self, ino: u64) -> u32 {
        self.directory.links().get(&ino).copied().unwrap_or(0)
    }

    fn keep(self: &Arc<Self>, entry: &Entry, directory: bool) -> Result<Kept, Errno> {
        let name = self.next.fetch_add(1, Relaxed).to_string();
        if directory {
            renameat(&entry.parent, &entry.name, &self.directory.fd, &name)?;
            return Ok(Kept { aside: Arc::clone(self), name, file: None });
        }
        linkat(&entry.parent, &entry.name, &self.directory.fd, &name, AtFlags::empty())?;
        let ino = statat(&self.directory.fd, &name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
        *self.directory.links().entry(ino).or_default() += 1;
        Ok(Kept { aside: Arc::clone(self), name, file: Some(ino) })
    }

    /// Removes a name. None where the file system does not let us keep the file: the change is durable at once.
    pub fn remove(self: &Arc<Self>, entry: Entry, flags: AtFlags) -> Result<Option<Change>, Errno> {
        if flags.contains(AtFlags::REMOVEDIR) {
            if !entry.is_empty_directory()? {
                return Err(Errno::NOTEMPTY);
            }
            let kept = self.keep(&entry, true)?;
            return Ok(Some(Change::Removed { entry, kept }));
        }
        let kept = self.keep(&entry, false);
        unlinkat(&entry.parent, &entry.name, flags)?;
        Ok(kept.ok().map(|kept| Change::Removed { entry, kept }))
    }

    /// Moves a name. None as in `remove`, and where both names are of one file, which changes nothing.
    pub fn rename(self: &Arc<Self>, from: Entry, to: Entry, flags: RenameFlags) -> Result<Option<Change>, Errno> {
        let rename = || renameat_with(&from.parent, &from.name, &to.parent, &to.name, flags);
        if flags.contains(RenameFlags::EXCHANGE) {
            rename()?;
            return Ok(Some(Change::Exchanged { first: from, second: to }));
        }
        let source = statat(&from.parent, &from.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let target = match statat(&to.parent, &to.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if !flags.contains(RenameFlags::NOREPLACE) => stat,
            _ => {
                rename()?;
                return Ok(Some(Change::Moved { from, to, replaced: None }));
            }
        };
        let is_directory = |mode| rustix::fs::FileType::from_raw_mode(mode).is_dir();
        if (source.st_dev, source.st_ino) == (target.st_dev, target.st_ino) {
            return rename().map(|()| None);
        }
        if !is_directory(target.st_mode) {
            let kept = self.keep(&to, false);
            rename()?;
            return Ok(kept.ok().map(|kept| Change::Moved { from, to, replaced: Some(kept) }));
        }
        if !is_directory(source.st_mode) {
            return Err(Errno::ISDIR);
        }
        if !to.is_empty_directory()? {
            return Err(Errno::NOTEMPTY);
        }
        let kept = self.keep(&to, true)?;
        if let Err(error) = rename() {
            kept.restore(&to)?;
            return Err(error);
        }
        Ok(Some(Change::Moved { from, to, replaced: Some(kept) }))
    }
}

/// What has lost its name. Dropping it makes that final.
pub struct Kept {
    aside: Arc<Aside>,
    name: String,
    /// The inode of a file; None of a directory.
    file: Option<u64>,
}

impl Kept {
    fn restore(&self, entry: &Entry) -> Result<(), Errno> {
        renameat_with(&self.aside.directory.fd, &self.name, &entry.parent, &entry.name, RenameFlags::NOREPLACE)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let removal = Removal::Name { name: std::mem::take(&mut self.name), file: self.file };
        let _ = self.aside.removals.send(removal);
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
