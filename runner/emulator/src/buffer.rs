//! Memory that O_DIRECT takes, used again and again.

use std::sync::{Mutex, PoisonError};

/// What O_DIRECT wants of memory, offset and length on every disk we know.
pub const ALIGNMENT: usize = 4096;
/// Unused memory kept at most, of the 64 MiB that the daemon may take.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// What was given back: fresh memory costs a page fault for every 4 KiB.
static KEPT: Mutex<Kept> = Mutex::new(Kept { memory: Vec::new(), bytes: 0 });

struct Kept {
    memory: Vec<Vec<u8>>,
    bytes: usize,
}

/// A buffer whose contents begin at an address that O_DIRECT takes.
pub struct Buffer {
    /// Empty where the memory is somebody else's.
    memory: Vec<u8>,
    start: *mut u8,
    length: usize,
}

// SAFETY: `start` points into `memory`, which moves along, or to memory that its lender leaves to this buffer.
unsafe impl Send for Buffer {}
// SAFETY: as above; shared, it is only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// What is in it is left over from its last use.
    pub fn new(length: usize) -> Self {
        let mut memory = reused(length + ALIGNMENT).unwrap_or_else(|| vec![0; length + ALIGNMENT]);
        let start = memory.as_mut_ptr().wrapping_add(memory.as_ptr().align_offset(ALIGNMENT));
        Buffer { memory, start, length }
    }

    /// A buffer over memory that is not its own.
    ///
    /// # Safety
    /// `length` bytes from `start` are valid, and nobody else uses them, until the buffer is gone.
    pub unsafe fn lent(start: *mut u8, length: usize) -> Self {
        Buffer { memory: Vec::new(), start, length }
    }

    pub fn copy_of(data: &[u8]) -> Self {
        let mut buffer = Buffer::new(data.len());
        buffer.as_mut_slice().copy_from_slice(data);
        buffer
    }

    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` is the first of `length` valid bytes: `new` has made room for them, or `lent` has been promised.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed by one only.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        if memory.is_empty() {
            return;
        }
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + memory.len() <= KEPT_BYTES_MAX {
            kept.bytes += memory.len();
            kept.memory.push(memory);
        }
    }
}

/// The memory given back last, when it is large enough: requests of one load are mostly of one size.
fn reused(length: usize) -> Option<Vec<u8>> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = kept.memory.pop()?;
    kept.bytes -= memory.len();
    (memory.len() >= length).then_some(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_as_long_as_asked_for_whatever_was_used_before() {
        for length in [4096, 100, 1 << 20, 4096, 512] {
            let mut buffer = Buffer::new(length);
            assert_eq!(buffer.as_slice().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(buffer.as_mut_slice().len(), length);
        }
        assert_eq!(Buffer::copy_of(b"volume").as_slice(), b"volume");
    }

    #[test]
    fn lent_memory_is_used_and_stays_its_owners() {
        let mut memory = *b"volume";
        // SAFETY: the memory outlives the buffer and is not used meanwhile.
        unsafe { Buffer::lent(memory.as_mut_ptr(), 3) }.as_mut_slice().copy_from_slice(b"VOL");
        assert_eq!(&memory, b"VOLume");
    }
}
