//! Which writes a power cut would lose, and how to take them back.
//!
//! Writes go to the backing at once; what they overwrote is kept here until a flush (or time) makes them
//! durable. A power cut puts the old bytes back, newest first. Memory is bounded: when there is too much, the
//! oldest writes become durable early, as in any real cache. A write that replaced nothing (an append) counts with
//! what its entry takes.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::model::request::{Nanos, SECOND_NS};

/// Memory of all entries at most, so that the whole daemon stays within 64 MiB.
const BYTES_MAX: usize = 24 << 20;
/// The same of an asynchronous volume, whose window would be shorter than it promises: 5 s of 50 MiB/s.
const ASYNC_BYTES_MAX: usize = 256 << 20;

/// What a volume promises about an acknowledged write.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Durable when acknowledged (EBS).
    WriteThrough,
    /// Durable after the next flush or fsync (a disk with a cache, NFS with a sync export).
    WriteBack,
    /// A flush is acknowledged before anything is durable; time makes it so (NFS with an async export).
    Async,
}

/// Where a change was.
pub trait Place: Clone + PartialEq {
    /// Whether it counts as a write that a power cut loses.
    fn is_write(&self) -> bool {
        true
    }

    /// Memory of it beyond its own size.
    fn bytes(&self) -> usize {
        0
    }
}

/// The only place of a block volume.
impl Place for () {}

/// What one write, truncation or allocation replaced in `place`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<P> {
    pub place: P,
    pub offset: u64,
    pub old: Vec<u8>,
    /// The file's length before, where it can change.
    pub old_length: Option<u64>,
    /// Bytes of the write itself, for the report of what was lost.
    pub bytes: u64,
    sequence: u64,
    at: Nanos,
}

/// The writes that are not durable yet, oldest first.
#[derive(Debug)]
pub struct Journal<P> {
    durability: Durability,
    window: Nanos,
    entries: VecDeque<Entry<P>>,
    sequence: u64,
    kept: usize,
    bytes_max: usize,
    /// When those writes of an asynchronous volume came that are durable before their time, since memory was full.
    early: VecDeque<Nanos>,
}

impl<P: Place> Journal<P> {
    /// `window_s`: after this time an asynchronous volume has made a write durable by itself.
    pub fn new(durability: Durability, window_s: f64) -> Self {
        Journal {
            durability,
            window: (window_s * SECOND_NS) as Nanos,
            entries: VecDeque::new(),
            sequence: 0,
            kept: 0,
            bytes_max: if durability == Durability::Async { ASYNC_BYTES_MAX } else { BYTES_MAX },
            early: VecDeque::new(),
        }
    }

    /// Whether writes have to be recorded at all.
    pub fn records(&self) -> bool {
        self.durability != Durability::WriteThrough
    }

    /// Memory of an entry: its old bytes, and itself twice, since the queue doubles when it grows.
    fn cost(entry: &Entry<P>) -> usize {
        2 * size_of::<Entry<P>>() + entry.old.len() + entry.place.bytes()
    }

    pub fn record(&mut self, now: Nanos, place: P, offset: u64, old: Vec<u8>, old_length: Option<u64>, bytes: u64) {
        self.sequence += 1;
        let entry = Entry { place, offset, old, old_length, bytes, sequence: self.sequence, at: now };
        self.kept += Self::cost(&entry);
        self.entries.push_back(entry);
        if self.durability == Durability::Async {
            self.expire(now);
        }
        while self.kept > self.bytes_max {
            if self.durability == Durability::Async {
                let oldest = self.entries.front().filter(|entry| entry.place.is_write());
                self.early.extend(oldest.map(|entry| entry.at));
            }
            self.forget_oldest();
        }
    }

    /// How many writes a power cut would take too, had they not become durable before their time; forgets them.
    pub fn take_early(&mut self, now: Nanos) -> u64 {
        let window = self.window;
        std::mem::take(&mut self.early).iter().filter(|at| *at + window > now).count() as u64
    }

    fn forget_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.kept -= Self::cost(&entry);
        }
    }

    fn expire(&mut self, now: Nanos) {
        while self.entries.front().is_some_and(|entry| entry.at + self.window <= now) {
            self.forget_oldest();
        }
        while self.early.front().is_some_and(|at| at + self.window <= now) {
            self.early.pop_front();
        }
    }

    /// The newest write so far: a flush that arrives now covers it and all before.
    pub fn mark(&self) -> u64 {
        self.sequence
    }

    /// A flush is done: writes up to the mark are durable, of one place or of all. An async volume only says so.
    pub fn flushed(&mut self, mark: u64, place: Option<&P>) {
        if self.durability == Durability::Async {
            return;
        }
        self.make_durable(|entry| entry.sequence <= mark && place.is_none_or(|place| *place == entry.place));
    }

    /// Whatever was written to a place is durable now, even on an async volume.
    pub fn settle(&mut self, place: &P) {
        self.make_durable(|entry| entry.place == *place);
    }

    /// Whatever was written until now is durable, even on an async volume.
    pub fn settle_all(&mut self) {
        self.make_durable(|_| true);
        self.early.clear();
    }

    fn make_durable(&mut self, durable: impl Fn(&Entry<P>) -> bool) {
        let kept = &mut self.kept;
        self.entries.retain(|entry| {
            let gone = durable(entry);
            if gone {
                *kept -= Self::cost(entry);
            }
            !gone
        });
    }

    /// What is lost, newest first: putting the old bytes back in this order restores the past.
    pub fn cut(&mut self, now: Nanos, keep_share: f64) -> Vec<Entry<P>> {
        if self.durability == Durability::Async {
            self.expire(now);
        }
        let survivors = (self.entries.len() as f64 * keep_share) as usize;
        self.entries.drain(..survivors);
        self.kept = 0;
        self.entries.drain(..).rev().collect()
    }

    /// Writes and bytes that a power cut would take back now.
    pub fn pending(&mut self, now: Nanos) -> (u64, u64) {
        if self.durability == Durability::Async {
            self.expire(now);
        }
        let writes = self.entries.iter().filter(|entry| entry.place.is_write());
        (writes.clone().count() as u64, writes.map(|entry| entry.bytes).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: Nanos = 1_000_000_000;

    impl Place for i32 {}
    impl Place for u8 {}
    impl Place for u64 {}

    fn put(journal: &mut Journal<u8>, now: Nanos, place: u8, disk: &mut [u8], offset: usize, value: u8) {
        journal.record(now, place, offset as u64, vec![disk[offset]], None, 1);
        disk[offset] = value;
    }

    #[test]
    fn an_async_volume_counts_writes_that_memory_made_durable_too_early() {
        for (durability, early) in [(Durability::Async, 90), (Durability::WriteBack, 0)] {
            let mut journal = Journal::new(durability, 5.0);
            journal.bytes_max = 10 * Journal::cost(&entry_of(1000));
            for number in 0..100 {
                journal.record(S, 0, number, vec![0; 1000], None, 1000);
            }
            assert_eq!(journal.pending(S).0, 10);
            assert_eq!((journal.take_early(2 * S), journal.take_early(2 * S)), (early, 0));
        }
    }

    #[test]
    fn a_write_that_was_due_to_be_durable_by_the_cut_was_not_too_early() {
        let mut journal = Journal::new(Durability::Async, 5.0);
        journal.bytes_max = 0;
        for second in [1, 2, 8] {
            journal.record(second * S, 0, 0, vec![0; 1000], None, 1000);
        }
        assert_eq!(journal.take_early(9 * S), 1);
    }

    #[test]
    fn what_is_settled_no_cut_takes_and_what_comes_after_it_does() {
        for durability in [Durability::Async, Durability::WriteBack] {
            let mut journal = Journal::new(durability, 5.0);
            journal.bytes_max = 2 * Journal::cost(&entry_of(1));
            let mut disk = [0u8; 8];
            (0..4).for_each(|offset| put(&mut journal, S, 0, &mut disk, offset, 1));
            journal.settle_all();
            assert_eq!((journal.pending(S), journal.kept, journal.take_early(S)), ((0, 0), 0, 0));
            put(&mut journal, S, 0, &mut disk, 5, 1);
            assert_eq!(journal.cut(S, 0.0).iter().map(|entry| entry.offset).collect::<Vec<_>>(), [5]);
        }
    }

    fn entry_of(bytes: usize) -> Entry<u8> {
        Entry { place: 0, offset: 0, old: vec![0; bytes], old_length: None, bytes: bytes as u64, sequence: 0, at: 0 }
    }

    #[test]
    fn an_async_volume_keeps_nothing_but_what_is_older_than_its_window() {
        let mut journal = Journal::new(Durability::Async, 5.0);
        let mut disk = [0u8; 2];
        put(&mut journal, 0, 0, &mut disk, 0, 1);
        put(&mut journal, 4 * S, 0, &mut disk, 1, 1);
        journal.flushed(journal.mark(), None);
        let lost = journal.cut(6 * S, 0.0);
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].offset, 1);
    }

    #[test]
    fn a_flush_of_one_file_leaves_the_others_open() {
        let mut journal = Journal::new(Durability::WriteBack, 0.0);
        let mut disk = [0u8; 2];
        put(&mut journal, 0, 7, &mut disk, 0, 1);
        put(&mut journal, 0, 8, &mut disk, 1, 1);
        journal.flushed(journal.mark(), Some(&7));
        assert_eq!(journal.cut(0, 0.0).iter().map(|entry| entry.place).collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn too_many_old_bytes_make_the_oldest_writes_durable() {
        let mut journal = Journal::new(Durability::WriteBack, 0.0);
        journal.bytes_max = 2 * (2 * size_of::<Entry<u8>>() + 1);
        let mut disk = [0u8; 3];
        (0..3).for_each(|offset| put(&mut journal, 0, 0, &mut disk, offset, 1));
        assert_eq!(journal.pending(0), (2, 2));
    }

    #[test]
    fn appends_that_nobody_syncs_take_bounded_memory() {
        let mut journal: Journal<u64> = Journal::new(Durability::WriteBack, 0.0);
        (0..1_000_000).for_each(|offset| journal.record(0, 1, offset, Vec::new(), Some(offset), 1));
        assert!(journal.entries.capacity() * size_of::<Entry<u64>>() <= BYTES_MAX);
        assert!(journal.pending(0).0 > 10_000);
        journal.flushed(journal.mark(), None);
        assert_eq!((journal.pending(0), journal.kept), ((0, 0), 0));
    }

    proptest! {
        /// After a cut the disk holds exactly what it held at some moment at or after the last flush.
        #[test]
        fn a_cut_restores_a_moment_after_the_last_flush(
            steps in prop::collection::vec((0usize..16, any::<u8>(), prop::bool::weighted(0.1)), 1..120),
            keep_share in 0.0f64..1.0,
        ) {
            let mut journal = Journal::new(Durability::WriteBack, 0.0);
            let mut disk = [0u8; 16];
            let mut since_flush = vec![disk];
            for (offset, value, flush) in steps {
                put(&mut journal, 0, 0, &mut disk, offset, value);
                since_flush.push(disk);
                if flush {
                    journal.flushed(journal.mark(), None);
                    since_flush = vec![disk];
                }
            }
            for entry in journal.cut(0, keep_share) {
                disk[entry.offset as usize] = entry.old[0];
            }
            prop_assert!(since_flush.contains(&disk));
            if keep_share == 0.0 { prop_assert_eq!(disk, since_flush[0]); }
        }
    }
}
