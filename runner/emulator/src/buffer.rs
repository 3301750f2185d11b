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
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// What is in it is left over from its last use.
    pub fn new(length: usize) -> Self {
        let memory = reused(length + ALIGNMENT).unwrap_or_else(|| vec![0; length + ALIGNMENT]);
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Buffer { memory, start, length }
    }

    pub fn copy_of(data: &[u8]) -> Self {
        let mut buffer = Buffer::new(data.len());
        buffer.as_mut_slice().copy_from_slice(data);
        buffer
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
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
}
