//! The inodes that the kernel remembers, each with a descriptor, or with a file handle where descriptors would run out.
//!
//! A process may have few descriptors (20,000 in some containers), and a tree may have many files. A handle names the
//! inode to the file system below, with its generation: a deleted inode is stale, and never another file of its number.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::tree::ROOT;
use crate::model::request::Nanos;

/// The longest handle of any file system (MAX_HANDLE_SZ of Linux).
const HANDLE_BYTES_MAX: usize = 128;

/// Length and change time of a file.
pub type Stamp = (i64, i64, u64);

/// A file handle as Linux lays it out.
#[derive(Eq, PartialEq)]
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    data: [u8; HANDLE_BYTES_MAX],
}

impl Handle {
    fn of(fd: &OwnedFd) -> io::Result<Self> {
        let mut handle = Handle { bytes: HANDLE_BYTES_MAX as u32, kind: 0, data: [0; HANDLE_BYTES_MAX] };
        let mut mount_id = 0;
        // SAFETY: the handle has room for as many bytes as it says, and the path is an empty C string.
        let answer = unsafe {
            let handle = (&raw mut handle).cast::<libc::file_handle>();
            libc::name_to_handle_at(fd.as_raw_fd(), c"".as_ptr(), handle, &mut mount_id, libc::AT_EMPTY_PATH)
        };
        if answer == 0 { Ok(handle) } else { Err(io::Error::last_os_error()) }
    }

    /// Opens the inode as `openat` with O_PATH does. Needs CAP_DAC_READ_SEARCH.
    fn open(&mut self, file_system: &OwnedFd) -> Result<OwnedFd, Errno> {
        // SAFETY: the call reads the handle, which `name_to_handle_at` filled; the descriptor it returns is ours alone.
        unsafe {
            let handle = std::ptr::from_mut(self).cast::<libc::file_handle>();
            let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
            match libc::open_by_handle_at(file_system.as_raw_fd(), handle, flags) {
                -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
                fd => Ok(OwnedFd::from_raw_fd(fd)),
            }
        }
    }
}

/// How an inode is reached. A descriptor keeps its inode from being reused.
enum Reach {
    Descriptor(Arc<OwnedFd>),
    Handle(Box<Handle>),
}

struct Node {
    reach: Reach,
    lookups: u64,
    /// How many deleted files had this number while the kernel remembered it: FUSE tells inodes apart by both.
    generation: u64,
    /// Of its latest entry in `Nodes::turns`.
    turn: u64,
    /// Used since its turn last came.
    used: bool,
    /// What the file was when the client's cache was last known to be right.
    cached: Option<Stamp>,
    /// Until then the client has attributes that came with the answer to a request of its own.
    attributes_until: Nanos,
}

impl Node {
    fn new(fd: OwnedFd) -> Self {
        let reach = Reach::Descriptor(Arc::new(fd));
        Node { reach, lookups: 1, generation: 0, turn: 0, used: true, cached: None, attributes_until: 0 }
    }
}

pub struct Nodes {
    nodes: HashMap<u64, Node>,
    /// Inodes in the order in which their descriptors were opened, each with its number of the turn. Those that were
    /// forgotten or closed since are passed over.
    turns: VecDeque<(u64, u64)>,
    next_turn: u64,
    descriptors: usize,
    descriptors_max: usize,
    /// Beyond so many descriptors, one is closed. Above `descriptors_max` while more are in use.
    close_above: usize,
    file_system: OwnedFd,
    has_handles: bool,
}

impl Nodes {
    pub fn open(root: &Path, place: OwnedFd) -> io::Result<Self> {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self::with_limit(root, place, usize::try_from(limit / 2).unwrap_or(usize::MAX))
    }

    /// At most `descriptors_max` inodes have descriptors, plus those in use.
    fn with_limit(root: &Path, place: OwnedFd, descriptors_max: usize) -> io::Result<Self> {
        let file_system = open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let trial = Handle::of(&place).and_then(|mut handle| Ok(handle.open(&file_system)?));
        if let Err(error) = &trial {
            eprintln!(
                "no file handles ({error}): at most {} files can be remembered",
                descriptors_max.saturating_mul(2)
            );
        }
        Ok(Nodes {
            nodes: HashMap::from([(ROOT, Node::new(place))]),
            turns: VecDeque::new(),
            next_turn: 0,
            descriptors: 1,
            descriptors_max,
            close_above: descriptors_max,
            file_system,
            has_handles: trial.is_ok(),
        })
    }

    /// The descriptor of an inode. ESTALE if the kernel does not remember it, or the file is gone.
    pub fn place(&mut self, ino: u64) -> Result<Arc<OwnedFd>, Errno> {
        let node = self.nodes.get_mut(&ino).ok_or(Errno::STALE)?;
        node.used = true;
        match &mut node.reach {
            Reach::Descriptor(place) => Ok(Arc::clone(place)),
            Reach::Handle(handle) => {
                let place = Arc::new(handle.open(&self.file_system)?);
                node.reach = Reach::Descriptor(Arc::clone(&place));
                self.opened(ino);
                Ok(place)
            }
        }
    }

    /// Notes a reference of the kernel's to an inode, which `fd` is open on. Returns the inode's generation.
    pub fn remember(&mut self, ino: u64, fd: OwnedFd) -> u64 {
        let mut generation = 0;
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.lookups += 1;
            node.used = true;
            let Reach::Handle(handle) = &node.reach else { return node.generation };
            if Handle::of(&fd).ok().as_ref() != Some(handle.as_ref()) {
                node.cached = None; // the handle is of a deleted file, whose number this one has
                node.generation += 1;
            }
            node.reach = Reach::Descriptor(Arc::new(fd));
            generation = node.generation;
        } else {
            self.nodes.insert(ino, Node::new(fd));
        }
        self.opened(ino);
        generation
    }

    pub fn forget(&mut self, ino: u64, lookups: u64) {
        let Some(node) = self.nodes.get_mut(&ino) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 && ino != ROOT {
            if let Some(Node { reach: Reach::Descriptor(_), .. }) = self.nodes.remove(&ino) {
                self.descriptors -= 1;
            }
        }
    }

    /// What the client has cached of a file, to be read and replaced.
    pub fn cached(&mut self, ino: u64) -> Option<&mut Option<Stamp>> {
        self.nodes.get_mut(&ino).map(|node| &mut node.cached)
    }

    /// Notes that the client has an inode's attributes until then.
    pub fn give_attributes(&mut self, ino: u64, until: Nanos) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.attributes_until = until;
        }
    }

    pub fn has_attributes(&self, ino: u64, now: Nanos) -> bool {
        self.nodes.get(&ino).is_some_and(|node| now < node.attributes_until)
    }

    /// Gives an inode with a new descriptor its turn, and closes another one where there are too many.
    fn opened(&mut self, ino: u64) {
        let turn = self.next_turn;
        self.next_turn += 1;
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.turn = turn;
        }
        self.descriptors += 1;
        self.turns.push_back((ino, turn));
        if self.turns.len() > 2 * self.descriptors.max(1024) {
            let nodes = &self.nodes;
            self.turns.retain(|(ino, turn)| {
                nodes.get(ino).is_some_and(|node| node.turn == *turn && matches!(node.reach, Reach::Descriptor(_)))
            });
        }
        if self.descriptors > self.close_above && self.has_handles {
            self.close_above = if self.close_one() { self.descriptors_max } else { self.descriptors * 9 / 8 };
        }
    }

    /// Closes the descriptor that was opened first, and is not in use nor was since its last turn. False if none is.
    fn close_one(&mut self) -> bool {
        for _ in 0..2 * self.turns.len() {
            let Some((ino, turn)) = self.turns.pop_front() else { return false };
            let Some(node) = self.nodes.get_mut(&ino).filter(|node| node.turn == turn) else { continue };
            let Reach::Descriptor(place) = &node.reach else { continue };
            if std::mem::take(&mut node.used) || Arc::strong_count(place) > 1 {
                self.turns.push_back((ino, turn));
                continue;
            }
            let Ok(handle) = Handle::of(place) else {
                self.turns.push_back((ino, turn));
                continue;
            };
            node.reach = Reach::Handle(Box::new(handle));
            self.descriptors -= 1;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::MetadataExt;
    use std::path::PathBuf;

    use super::*;

    const DESCRIPTORS_MAX: usize = 8;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("volbench-nodes-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        path
    }

    fn descriptor(path: &Path) -> OwnedFd {
        open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    fn remember(nodes: &mut Nodes, path: &Path) -> u64 {
        let fd = descriptor(path);
        let ino = fs::metadata(path).unwrap().ino();
        nodes.remember(ino, fd);
        ino
    }

    /// So many other files that all that is not in use has lost its descriptor.
    fn remember_others(nodes: &mut Nodes, root: &Path) {
        for number in 0..50 {
            let path = root.join(number.to_string());
            File::create(&path).unwrap();
            remember(nodes, &path);
        }
    }

    fn ino_of(place: &OwnedFd) -> u64 {
        fs::metadata(format!("/proc/self/fd/{}", place.as_raw_fd())).unwrap().ino()
    }

    #[test]
    fn more_files_than_descriptors_are_all_reached() {
        let root = directory("many");
        let mut nodes = Nodes::with_limit(&root, descriptor(&root), DESCRIPTORS_MAX).unwrap();
        let inos: Vec<u64> = (0..100)
            .map(|number| {
                let path = root.join(number.to_string());
                File::create(&path).unwrap();
                remember(&mut nodes, &path)
            })
            .collect();
        for ino in inos.iter().chain(inos.iter().rev()) {
            assert_eq!(ino_of(&nodes.place(*ino).unwrap()), *ino);
            assert!(nodes.descriptors <= DESCRIPTORS_MAX + 1);
        }
        for ino in &inos {
            nodes.forget(*ino, 1);
            assert!(nodes.place(*ino).is_err());
        }
        assert_eq!(nodes.descriptors, 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_number_that_comes_and_goes_needs_no_more_memory() {
        let root = directory("cycles");
        let path = root.join("file");
        File::create(&path).unwrap();
        let mut nodes = Nodes::with_limit(&root, descriptor(&root), DESCRIPTORS_MAX).unwrap();
        for _ in 0..20_000 {
            let ino = remember(&mut nodes, &path);
            nodes.forget(ino, 1);
        }
        assert_eq!((nodes.descriptors, nodes.nodes.len()), (1, 1));
        assert!(nodes.turns.len() <= 2 * 1024 + 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn directories_and_links_are_reached_by_handles_too() {
        let root = directory("kinds");
        let mut nodes = Nodes::with_limit(&root, descriptor(&root), DESCRIPTORS_MAX).unwrap();
        fs::create_dir(root.join("directory")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("link")).unwrap();
        let inos = ["directory", "link"].map(|name| {
            let fd = descriptor(&root.join(name));
            let ino = fs::symlink_metadata(root.join(name)).unwrap().ino();
            nodes.remember(ino, fd);
            ino
        });
        remember_others(&mut nodes, &root);
        assert!(inos.iter().all(|ino| matches!(nodes.nodes[ino].reach, Reach::Handle(_))));
        let entry = rustix::fs::openat(nodes.place(inos[0]).unwrap(), ".", OFlags::RDONLY, Mode::empty());
        assert!(entry.is_ok());
        let target = rustix::fs::readlinkat(nodes.place(inos[1]).unwrap(), "", Vec::new()).unwrap();
        assert_eq!(target.as_bytes(), b"nowhere");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_descriptor_in_use_stays_and_reaches_a_deleted_file() {
        let root = directory("in-use");
        let mut nodes = Nodes::with_limit(&root, descriptor(&root), DESCRIPTORS_MAX).unwrap();
        let path = root.join("used");
        File::create(&path).unwrap();
        let ino = remember(&mut nodes, &path);
        let place = nodes.place(ino).unwrap();
        fs::remove_file(&path).unwrap();
        remember_others(&mut nodes, &root);
        assert!(Arc::ptr_eq(&place, &nodes.place(ino).unwrap()));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_deleted_file_is_stale_and_a_new_one_of_its_number_is_not_it() {
        let root = directory("reused");
        let mut nodes = Nodes::with_limit(&root, descriptor(&root), DESCRIPTORS_MAX).unwrap();
        let first = root.join("first");
        File::create(&first).unwrap();
        let ino = remember(&mut nodes, &first);
        *nodes.cached(ino).unwrap() = Some((1, 2, 3));
        let mut number = 0;
        while matches!(nodes.nodes[&ino].reach, Reach::Descriptor(_)) {
            let path = root.join(number.to_string());
            File::create(&path).unwrap();
            remember(&mut nodes, &path);
            number += 1;
            assert!(number < 100);
        }
        fs::remove_file(&first).unwrap();
        assert_eq!(nodes.place(ino).unwrap_err(), Errno::STALE);
        let other = root.join("0");
        nodes.remember(ino, descriptor(&other)); // as if the file system had given its number away
        assert_eq!(nodes.remember(ino, descriptor(&other)), 1);
        assert_eq!(*nodes.cached(ino).unwrap(), None);
        assert_eq!(ino_of(&nodes.place(ino).unwrap()), fs::metadata(&other).unwrap().ino());
        fs::remove_dir_all(root).unwrap();
    }
}
