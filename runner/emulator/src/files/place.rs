//! Where a journalled change was: in a file's contents, or a name; and how each is put back.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ftruncate, open};
use rustix::io::Errno;

use super::names::Change;
use super::tree::magic_path;
use crate::frontend::errno_of;
use crate::journal;

/// What a journalled change was of.
#[derive(Clone)]
pub enum Place {
    /// A file's contents. The descriptor outlives the kernel's interest in the file.
    File { ino: u64, fd: Arc<OwnedFd> },
    /// A name: its change takes itself back.
    Name(Arc<Change>),
}

impl journal::Place for Place {
    fn is_write(&self) -> bool {
        matches!(self, Place::File { .. })
    }

    fn bytes(&self) -> usize {
        match self {
            Place::File { .. } => 0,
            Place::Name(change) => change.bytes(),
        }
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        matches!((self, other), (Place::File { ino, .. }, Place::File { ino: theirs, .. }) if ino == theirs)
    }
}

/// Puts back what a change replaced.
pub fn put_back(place: &Place, offset: u64, old: &[u8], length: Option<u64>) -> Result<(), Errno> {
    let fd = match place {
        Place::Name(change) => return change.undo(),
        Place::File { fd, .. } => fd,
    };
    let file = File::from(open(magic_path(fd), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?);
    file.write_all_at(old, offset).map_err(|error| errno_of(&error))?;
    length.map_or(Ok(()), |length| ftruncate(file.as_fd(), length))
}
