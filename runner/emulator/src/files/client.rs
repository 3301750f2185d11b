//! What the client of a network file system knows, so that it need not ask: names that are not there, writes that are
//! durable already. The kernel's FUSE asks all the same; such requests cost no round trip here.
//!
//! Counted with Linux 6.12 as client (docs/emulated-volumes.md). The client asks for a name that is not there once, and
//! not at all before it makes the name: OPEN, CREATE and RENAME carry it (`nfs_is_exclusive_create`, `nfs_atomic_open`).
//! Whether a name is going to be made shows one request later, so a question is paid by what the thread asks next.
//! Data that is one WRITE is written durably when it is synced or closed, without a COMMIT (`FLUSH_COND_STABLE`).

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::request::Nanos;

/// So many names and threads are remembered at most; beyond, the client asks anew.
const NAMES_MAX: usize = 1 << 16;

/// A name in a directory, which its inode names.
type Name = (u64, OsString);

#[derive(Default)]
struct Absent {
    /// Names that are not there, and until when the client believes that.
    until: HashMap<Name, Nanos>,
    /// The latest name that the kernel asked for on behalf of a thread, where that was not there and has cost nothing
    /// yet: it may be a part of the thread's next request, which makes the name. If not, that request takes its time.
    owed: HashMap<u32, Name>,
}

#[derive(Default)]
pub struct Client {
    absent: Mutex<Absent>,
    /// How many writes of a file were sent since it was last synced or closed.
    uncommitted: Mutex<HashMap<u64, u32>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Notes that a thread asked for a name that is not there. Returns whether a question is to be paid now: an earlier
    /// one of the thread. This one is free where the client knows the answer, else it is owed.
    pub fn miss(&self, thread: u32, parent: u64, name: &OsStr, now: Nanos, until: Nanos) -> bool {
        let mut absent = locked(&self.absent);
        let owed = absent.owed.remove(&thread).is_some();
        let name = (parent, name.to_owned());
        if absent.until.get(&name).is_none_or(|until| *until <= now) {
            if absent.until.len() >= NAMES_MAX || absent.owed.len() >= NAMES_MAX {
                *absent = Absent::default();
            }
            absent.until.insert(name.clone(), until);
            absent.owed.insert(thread, name);
        }
        owed
    }

    /// Notes that a thread makes a name. Returns whether an earlier question of the thread is to be paid: not the
    /// kernel's own for this name.
    pub fn make(&self, thread: u32, parent: u64, name: &OsStr) -> bool {
        let mut absent = locked(&self.absent);
        let name = (parent, name.to_owned());
        absent.until.remove(&name);
        absent.owed.remove(&thread).is_some_and(|owed| owed != name)
    }

    /// Whether a thread that makes another request is to pay an earlier question.
    pub fn settle(&self, thread: u32) -> bool {
        locked(&self.absent).owed.remove(&thread).is_some()
    }

    /// Notes that a WRITE of a file was sent.
    pub fn write(&self, ino: u64) {
        *locked(&self.uncommitted).entry(ino).or_default() += 1;
    }

    /// Commits what was written since the last time. Returns whether it was durable already, so that no COMMIT is sent.
    pub fn commit(&self, ino: u64) -> bool {
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
    fn the_kernel_s_question_before_a_name_is_made_costs_nothing() {
        let client = Client::default();
        assert!(!client.miss(9, 1, name("a"), 0, 100));
        assert!(!client.make(9, 1, name("a")));
        assert!(!client.settle(9));
    }

    #[test]
    fn a_question_of_the_program_s_own_is_paid_by_the_thread_s_next_request() {
        let client = Client::default();
        assert!(!client.miss(9, 1, name("a"), 0, 100));
        assert!(client.miss(9, 1, name("a"), 1, 101), "stat, then the kernel's own before open");
        assert!(!client.make(9, 1, name("a")));
        assert!(!client.miss(9, 1, name("b"), 0, 100));
        assert!(client.make(9, 2, name("b")), "another directory");
        assert!(!client.miss(9, 1, name("c"), 0, 100));
        assert!(!client.settle(8), "another thread");
        assert!(client.settle(9));
        assert!(!client.settle(9), "once");
    }

    #[test]
    fn what_is_absent_is_believed_for_a_while_and_until_it_is_made() {
        let client = Client::default();
        client.miss(9, 1, name("a"), 0, 100);
        client.settle(9);
        client.miss(9, 1, name("a"), 99, 199);
        assert!(!client.settle(9), "known");
        client.miss(9, 1, name("a"), 100, 200);
        assert!(client.settle(9), "asked anew");
        client.make(9, 1, name("a"));
        client.miss(9, 1, name("a"), 101, 201);
        assert!(client.settle(9), "it was there meanwhile");
    }

    #[test]
    fn names_do_not_fill_the_memory() {
        let client = Client::default();
        for number in 0..=NAMES_MAX {
            client.miss(number as u32, 1, OsStr::new(&number.to_string()), 0, 100);
        }
        let absent = locked(&client.absent);
        assert!(absent.until.len() <= NAMES_MAX && absent.owed.len() <= NAMES_MAX);
    }

    #[test]
    fn one_write_is_durable_by_itself_and_more_need_a_commit() {
        let client = Client::default();
        assert!(client.commit(5), "nothing was written");
        client.write(5);
        assert!(client.commit(5));
        client.write(5);
        client.write(5);
        client.write(6);
        assert!(!client.commit(5));
        assert!(client.commit(5), "all was committed just now");
        assert!(client.commit(6));
    }
}
