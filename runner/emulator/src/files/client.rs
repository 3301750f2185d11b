//! What the client of a network file system knows, so that it need not ask: names that are not there, writes that are
//! durable already. The kernel's FUSE asks all the same; such requests cost no round trip here.
//!
//! Counted with Linux 6.12 as client (docs/emulated-volumes.md). The client asks for a name that is not there once, and
//! not at all before it makes the name: OPEN, CREATE and RENAME carry it (`nfs_is_exclusive_create`, `nfs_atomic_open`).
//! Data that is one WRITE is written durably when it is synced or closed, without a COMMIT (`FLUSH_COND_STABLE`).

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::request::Nanos;

/// So many names are remembered at most; beyond, the client asks anew.
const NAMES_MAX: usize = 1 << 16;

/// A name that was asked for and is not there.
struct Absent {
    until: Nanos,
    /// What the latest question took: it is the first part of the request that makes the name, if that comes next.
    took: Nanos,
}

/// A name in a directory, which its inode names.
type Name = (u64, OsString);

#[derive(Default)]
pub struct Client {
    absent: Mutex<HashMap<Name, Absent>>,
    /// How many writes of a file were sent since it was last synced or closed.
    uncommitted: Mutex<HashMap<u64, u32>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Whether the client knows that the name is not there, and does not ask. The next request that makes the name is
    /// then one of its own.
    pub fn knows_absent(&self, parent: u64, name: &OsStr, now: Nanos) -> bool {
        let mut absent = locked(&self.absent);
        let Some(known) = absent.get_mut(&(parent, name.to_owned())) else { return false };
        known.took = 0;
        now < known.until
    }

    /// Notes that a name is not there, and how long it took to learn that.
    pub fn learn_absent(&self, parent: u64, name: &OsStr, until: Nanos, took: Nanos) {
        let mut absent = locked(&self.absent);
        if absent.len() >= NAMES_MAX {
            absent.clear();
        }
        absent.insert((parent, name.to_owned()), Absent { until, took });
    }

    /// Notes that a name is being made. Returns what the kernel's own question for it took, which the client's request
    /// does not take: 0 where something else asked.
    pub fn make(&self, parent: u64, name: &OsStr) -> Nanos {
        locked(&self.absent).remove(&(parent, name.to_owned())).map_or(0, |known| known.took)
    }

    pub fn write(&self, ino: u64) {
        *locked(&self.uncommitted).entry(ino).or_default() += 1;
    }

    /// Whether what was written since the last time is durable without a COMMIT; from now on all is.
    pub fn is_committed(&self, ino: u64) -> bool {
        locked(&self.uncommitted).remove(&ino).unwrap_or(0) <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[test]
    fn the_kernel_s_question_before_a_name_is_made_is_part_of_making_it() {
        let client = Client::default();
        assert!(!client.knows_absent(1, name("a"), 0));
        client.learn_absent(1, name("a"), 100, 7);
        assert_eq!(client.make(2, name("a")), 0, "another directory");
        assert_eq!(client.make(1, name("a")), 7);
        assert_eq!(client.make(1, name("a")), 0, "it is there now");
        assert!(!client.knows_absent(1, name("a"), 0));
    }

    #[test]
    fn a_question_of_the_program_s_own_is_a_request_and_the_next_one_is_none() {
        let client = Client::default();
        client.learn_absent(1, name("a"), 100, 7);
        assert!(client.knows_absent(1, name("a"), 99));
        assert_eq!(client.make(1, name("a")), 0, "stat, then open: two requests of an NFS client");
    }

    #[test]
    fn what_is_absent_is_believed_for_a_while() {
        let client = Client::default();
        client.learn_absent(1, name("a"), 100, 7);
        assert!(client.knows_absent(1, name("a"), 99));
        assert!(!client.knows_absent(1, name("a"), 100));
    }

    #[test]
    fn names_do_not_fill_the_memory() {
        let client = Client::default();
        for number in 0..=NAMES_MAX {
            client.learn_absent(1, OsStr::new(&number.to_string()), 100, 0);
        }
        assert!(locked(&client.absent).len() <= NAMES_MAX);
        assert!(client.knows_absent(1, OsStr::new(&NAMES_MAX.to_string()), 0));
    }

    #[test]
    fn one_write_is_durable_by_itself_and_more_need_a_commit() {
        let client = Client::default();
        assert!(client.is_committed(5), "nothing was written");
        client.write(5);
        assert!(client.is_committed(5));
        client.write(5);
        client.write(5);
        client.write(6);
        assert!(!client.is_committed(5));
        assert!(client.is_committed(5), "all was committed just now");
        assert!(client.is_committed(6));
    }
}
