//! Changes of names that a power cut takes back, on a volume that goes back to one moment.
//!
//! What loses its name stays beside the tree until the change is durable: a file by a second link, a directory, which
//! can have only one name, by moving there.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
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
    Exchanged { one: Entry, other: Entry },
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
            Change::Exchanged { one, other } => {
                renameat_with(&one.parent, &one.name, &other.parent, &other.name, RenameFlags::EXCHANGE)
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
        fs::create_dir(&path)?;
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
            return Ok(Some(Change::Exchanged { one: from, other: to }));
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
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::engine::Storage;
    use crate::files::tree::{ROOT, Tree};
    use crate::journal::Durability;

    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    const WINDOW_S: f64 = 5.0;

    struct Backing {
        directory: PathBuf,
        tree: Tree,
    }

    impl Backing {
        fn new(durability: Durability) -> Self {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let number = NEXT.fetch_add(1, Relaxed);
            let directory = std::env::temp_dir().join(format!("volbench-names-{}-{number}", std::process::id()));
            fs::create_dir_all(directory.join("tree")).unwrap();
            let tree = Tree::open(&directory.join("tree"), durability, WINDOW_S, false).unwrap();
            Backing { directory, tree }
        }

        /// All paths: a file with its content and inode, a directory with None.
        fn contents(&self) -> BTreeMap<PathBuf, Option<(Vec<u8>, u64)>> {
            use std::os::unix::fs::MetadataExt;
            let mut contents = BTreeMap::new();
            let mut directories = vec![self.directory.join("tree")];
            while let Some(directory) = directories.pop() {
                for entry in fs::read_dir(directory).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        directories.push(path.clone());
                        contents.insert(path, None);
                    } else {
                        let content = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().ino());
                        contents.insert(path, Some(content));
                    }
                }
            }
            contents
        }

        fn kept(&self) -> usize {
            self.tree.wait_until_removed();
            fs::read_dir(self.directory.join(ASIDE)).unwrap().count()
        }

        /// One operation, which may be refused: by its number, in the root or in a directory of it.
        fn operate(&self, now: u64, operation: u8, inside: bool, first: usize, second: usize, value: u8) {
            let (name, other) = (OsStr::new(NAMES[first]), OsStr::new(NAMES[second]));
            let parent = match inside.then(|| self.tree.lookup(ROOT, OsStr::new("a"))) {
                Some(Ok((attr, _))) => attr.ino.0,
                _ => ROOT,
            };
            let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
            let _ = match operation {
                0..=2 => self.tree.create(now, parent, name, 0o644, OFlags::RDWR, owner).and_then(|(_, _, opened)| {
                    self.tree.write(now, &opened, u64::from(value % 5), &[value; 3]).map(|_| ())
                }),
                3 => {
                    let made = self.tree.place(parent).and_then(|at| rustix::fs::mkdirat(at, name, Mode::RWXU));
                    made.and_then(|()| self.tree.made(now, parent, name, true))
                }
                4 => self.tree.remove(now, parent, name, AtFlags::empty()),
                5 => self.tree.remove(now, parent, name, AtFlags::REMOVEDIR),
                6 => self.tree.rename(now, (parent, name), (ROOT, other), RenameFlags::empty()),
                7 => self.tree.rename(now, (ROOT, name), (parent, other), RenameFlags::EXCHANGE),
                _ => self.tree.lookup(parent, name).and_then(|(attr, _)| {
                    let from = self.tree.place(attr.ino.0)?;
                    let path = crate::files::tree::magic_path(&from);
                    linkat(rustix::fs::CWD, path.as_str(), self.tree.place(ROOT)?, other, AtFlags::SYMLINK_FOLLOW)?;
                    self.tree.made(now, ROOT, other, false)
                }),
            };
        }
    }

    impl Drop for Backing {
        fn drop(&mut self) {
            self.tree.settle();
            fs::remove_dir_all(&self.directory).unwrap();
        }
    }

    type Step = (u8, bool, usize, usize, u8);

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        prop::collection::vec((0u8..10, any::<bool>(), 0usize..4, 0usize..4, any::<u8>()), 0..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        /// Names, contents and inodes are again what they were when the last change became durable.
        #[test]
        fn an_asynchronous_volume_goes_back_to_one_moment(before in steps(), after in steps()) {
            let backing = Backing::new(Durability::Async);
            for (operation, inside, first, second, value) in before {
                backing.operate(1, operation, inside, first, second, value);
            }
            backing.tree.settle();
            prop_assert_eq!(backing.kept(), 0);
            let moment = backing.contents();
            for (operation, inside, first, second, value) in after {
                backing.operate(2, operation, inside, first, second, value);
            }
            backing.tree.power_cut(3, 0.0);
            prop_assert_eq!(backing.contents(), moment);
            prop_assert_eq!(backing.kept(), 0);
        }

        /// The same operations leave the same tree whether or not their names can be taken back.
        #[test]
        fn what_can_be_taken_back_does_what_posix_says(steps in steps()) {
            let (asynchronous, synchronous) = (Backing::new(Durability::Async), Backing::new(Durability::WriteBack));
            for (operation, inside, first, second, value) in steps {
                asynchronous.operate(1, operation, inside, first, second, value);
                synchronous.operate(1, operation, inside, first, second, value);
            }
            let [one, other] = [&asynchronous, &synchronous].map(|backing| {
                backing.contents().into_iter()
                    .map(|(path, content)| {
                        let path = path.strip_prefix(&backing.directory).unwrap().to_owned();
                        (path, content.map(|(content, _)| content))
                    })
                    .collect::<Vec<_>>()
            });
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn what_is_removed_is_kept_for_the_window_and_no_longer() {
        let backing = Backing::new(Durability::Async);
        let second = 1_000_000_000;
        backing.operate(second, 0, false, 0, 0, 1);
        backing.operate(2 * second, 4, false, 0, 0, 0);
        assert_eq!(backing.kept(), 1);
        backing.operate(6 * second, 0, false, 1, 0, 2);
        assert_eq!(backing.kept(), 1);
        backing.operate(8 * second, 0, false, 2, 0, 3);
        assert_eq!(backing.kept(), 0);
        backing.tree.power_cut(8 * second, 0.0);
        assert!(backing.contents().is_empty());
    }
}
