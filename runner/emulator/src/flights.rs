//! Writes that nobody has an answer to yet: a power cut tears them.
//!
//! A disk writes what it was given in pieces, and promises at most that an aligned piece of `atomic_bytes` is written
//! whole or not at all. So of a write that is under way when power goes, any of its pieces may be old and any new.
//! Memory is bounded: when there is too much, the oldest writes are taken as done.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::model::request::Nanos;

const BYTES_MAX: usize = 24 << 20;
/// Pieces that a power cut may be told to tear at.
pub const ATOMIC_BYTES: std::ops::RangeInclusive<u64> = 512..=1 << 20;

/// A piece of the disk with the bytes that it had before.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub offset: u64,
    pub old: Vec<u8>,
}

#[derive(Debug)]
struct Flight {
    piece: Piece,
    due: Nanos,
}

/// The writes under way, oldest first.
#[derive(Debug)]
pub struct Flights {
    atomic_bytes: u64,
    flights: VecDeque<Flight>,
    kept: usize,
    random: Xoshiro256PlusPlus,
}

impl Flights {
    /// `atomic_bytes` 0: no write is torn, and none recorded.
    pub fn new(atomic_bytes: u64, seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Flights { atomic_bytes, flights: VecDeque::new(), kept: 0, random }
    }

    /// Whether writes have to be recorded at all.
    pub fn records(&self) -> bool {
        self.atomic_bytes != 0
    }

    /// A write that is answered at `due` replaces `old`.
    pub fn record(&mut self, now: Nanos, due: Nanos, offset: u64, old: Vec<u8>) {
        self.forget(|flight| flight.due <= now);
        self.kept += old.len();
        self.flights.push_back(Flight { piece: Piece { offset, old }, due });
        while self.kept > BYTES_MAX {
            if let Some(oldest) = self.flights.pop_front() {
                self.kept -= oldest.piece.old.len();
            }
        }
    }

    fn forget(&mut self, answered: impl Fn(&Flight) -> bool) {
        let kept = &mut self.kept;
        self.flights.retain(|flight| {
            let gone = answered(flight);
            if gone {
                *kept -= flight.piece.old.len();
            }
            !gone
        });
    }

    /// The pieces that were not written when power went, newest first, and how many writes are torn by that.
    pub fn cut(&mut self, now: Nanos) -> (Vec<Piece>, u64) {
        self.forget(|flight| flight.due <= now);
        self.kept = 0;
        let (mut unwritten, mut torn) = (Vec::new(), 0);
        for flight in self.flights.drain(..).rev() {
            let pieces = pieces(&flight.piece, self.atomic_bytes);
            let lost: Vec<_> = pieces.iter().filter(|_| self.random.next_u64() & 1 == 0).cloned().collect();
            torn += u64::from(!lost.is_empty() && lost.len() < pieces.len());
            unwritten.extend(lost);
        }
        (unwritten, torn)
    }
}

/// What one write covers, divided at the multiples of `atomic_bytes`.
fn pieces(whole: &Piece, atomic_bytes: u64) -> Vec<Piece> {
    let end = whole.offset + whole.old.len() as u64;
    let mut divided = Vec::new();
    let mut from = whole.offset;
    while from < end {
        let to = end.min((from / atomic_bytes + 1) * atomic_bytes);
        let old = whole.old[(from - whole.offset) as usize..(to - whole.offset) as usize].to_vec();
        divided.push(Piece { offset: from, old });
        from = to;
    }
    divided
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 16384;

    /// Cuts power while pages are under way; returns the pieces that went back, and how many pages are torn.
    fn cut(atomic_bytes: u64, first: u64) -> (Vec<Piece>, u64) {
        let mut flights = Flights::new(atomic_bytes, 1);
        for number in 0..100 {
            flights.record(0, 10, first + number * PAGE as u64, vec![number as u8; PAGE]);
        }
        flights.cut(5)
    }

    #[test]
    fn pages_are_torn_at_small_pieces_and_stay_whole_in_large_ones() {
        let (unwritten, torn) = cut(4096, 0);
        assert!(torn > 70 && torn < 100, "{torn}");
        assert!(unwritten.iter().all(|piece| piece.old.len() == 4096 && piece.offset % 4096 == 0));
        let (unwritten, torn) = cut(PAGE as u64, 0);
        assert_eq!(torn, 0);
        assert!(unwritten.len() > 20 && unwritten.len() < 80);
    }

    #[test]
    fn a_page_that_is_not_aligned_is_torn_in_spite_of_the_promise() {
        assert!(cut(PAGE as u64, 4096).1 > 20);
    }

    #[test]
    fn what_was_answered_stays() {
        let mut flights = Flights::new(4096, 1);
        flights.record(0, 10, 0, vec![1; PAGE]);
        flights.record(20, 30, 0, vec![2; PAGE]);
        assert_eq!(flights.flights.len(), 1);
        assert_eq!(flights.cut(30), (vec![], 0));
    }

    #[test]
    fn memory_is_bounded() {
        let mut flights = Flights::new(4096, 1);
        for _ in 0..100 {
            flights.record(0, 10, 0, vec![0; 1 << 20]);
        }
        assert!(flights.kept <= BYTES_MAX);
    }

    #[test]
    fn nothing_is_recorded_without_a_size() {
        assert!(!Flights::new(0, 1).records());
    }
}
