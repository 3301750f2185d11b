//! Names after a power cut, against the moment they go back to, and against a volume that takes none back.

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
