//! Memory that the kernel and the daemon share for requests over io_uring, and the commands about it (linux/fuse.h).
//!
//! A slot carries one request at a time: its headers, and the contents that come or go with it. The kernel fills it
//! only while the thread that serves it is in the kernel, so between two calls it stays as it is.

use std::io;
use std::os::fd::RawFd;

use io_uring::squeue::Entry128;
use io_uring::{opcode, types};

use super::wire;
use crate::buffer::Buffer;
use crate::frontend::WRITE_BYTES_MAX;

/// `struct fuse_uring_req_header`: in_out, op_in, and `struct fuse_uring_ent_in_out`.
const OP_AT: usize = 128;
const COMMIT_ID_AT: usize = 256 + 8;
const PAYLOAD_BYTES_AT: usize = 256 + 16;
const HEADER_BYTES: usize = 288;
const HEADER_STRIDE: usize = 512;
const PAYLOAD_BYTES: usize = WRITE_BYTES_MAX as usize;

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
const IO_VECTORS: u32 = 2;
/// Where `len` is in `struct io_uring_sqe`; the library has no field for a command's.
const SQE_LENGTH_AT: usize = 24;

/// What of a payload stays in memory when its slot is not in use.
const RESIDENT_BYTES: usize = 64 << 10;
/// What payloads may take beyond that, all together, before they are given back.
const LARGE_BYTES_MAX: usize = 16 << 20;

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// The kernel's: empty, or filled and not yet looked at.
    Offered,
    /// A request is in it.
    Busy,
    /// Its answer is on the way to the kernel.
    Answered,
}

struct Slot {
    queue: u16,
    vectors: [libc::iovec; IO_VECTORS as usize],
    /// Of the payload, since it was last given back.
    resident: usize,
    state: State,
}

/// All slots of a mount.
pub struct Slots {
    device: RawFd,
    memory: *mut u8,
    bytes: usize,
    slots: Vec<Slot>,
    /// Bytes of payloads in memory, beyond `RESIDENT_BYTES` of each.
    large: usize,
    /// Slots whose answers may not have reached the kernel.
    unsent_answers: Vec<usize>,
}

// SAFETY: the memory is private to these slots and moves with them from the thread that makes them to the one that serves.
unsafe impl Send for Slots {}

impl Slots {
    /// Sets memory aside for so many slots in each queue. Only what is used takes room.
    pub fn new(per_queue: &[usize]) -> io::Result<Self> {
        let count: usize = per_queue.iter().sum();
        let headers = (count * HEADER_STRIDE).next_multiple_of(PAYLOAD_BYTES);
        let bytes = headers + count * PAYLOAD_BYTES;
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping, of which nobody else knows.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the new mapping. A huge page would take 2 MiB for a slot that uses 4 KiB; where there are none, all is well.
        let _only_small_pages = unsafe { libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE) };
        let memory = memory.cast::<u8>();
        let vector = |at: usize, iov_len| libc::iovec { iov_base: memory.wrapping_add(at).cast(), iov_len };
        let queues = per_queue.iter().enumerate().flat_map(|(queue, slots)| std::iter::repeat_n(queue as u16, *slots));
        let slot = |(index, queue): (usize, u16)| Slot {
            queue,
            vectors: [
                vector(index * HEADER_STRIDE, HEADER_BYTES),
                vector(headers + index * PAYLOAD_BYTES, PAYLOAD_BYTES),
            ],
            resident: 0,
            state: State::Offered,
        };
        Ok(Slots {
            device: -1,
            memory,
            bytes,
            slots: queues.enumerate().map(slot).collect(),
            large: 0,
            unsent_answers: Vec::new(),
        })
    }

    /// Names the mount's /dev/fuse.
    pub fn attach(&mut self, device: RawFd) {
        self.device = device;
    }

    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The command that offers a slot to the kernel for the first time.
    pub fn register(&self, index: usize) -> Entry128 {
        let slot = &self.slots[index];
        let mut entry = self.command(REGISTER, slot.queue, 0, Some(slot.vectors.as_ptr() as u64));
        // SAFETY: the entry is `struct io_uring_sqe` with its command behind it, 128 bytes, and `len` is in the first 64.
        unsafe { (&raw mut entry).cast::<u8>().add(SQE_LENGTH_AT).cast::<u32>().write(IO_VECTORS) };
        entry.user_data(index as u64)
    }

    /// The command that answers the request in a slot, and offers the slot again; `bytes` of the payload go along.
    pub fn commit(&mut self, index: usize, result: Result<usize, rustix::io::Errno>) -> Entry128 {
        let bytes = result.unwrap_or(0);
        let unique = wire::header(self.header(index)).unique;
        let commit_id = u64::from_ne_bytes(self.header(index)[COMMIT_ID_AT..][..8].try_into().expect("eight bytes"));
        let header = self.header_mut(index);
        let out = wire::out_header(unique, result);
        header[..out.len()].copy_from_slice(&out);
        header[PAYLOAD_BYTES_AT..][..4].copy_from_slice(&(bytes as u32).to_ne_bytes());
        self.slots[index].state = State::Answered;
        self.unsent_answers.push(index);
        let queue = self.slots[index].queue;
        self.used(index, bytes);
        self.command(COMMIT_AND_FETCH, queue, commit_id, None).user_data(index as u64)
    }

    fn command(&self, command: u32, queue: u16, commit_id: u64, vectors: Option<u64>) -> Entry128 {
        let mut bytes = [0; 80]; // `struct fuse_uring_cmd_req`: flags, commit_id, qid
        bytes[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        bytes[16..18].copy_from_slice(&queue.to_ne_bytes());
        opcode::UringCmd80::new(types::Fd(self.device), command).cmd(bytes).addr(vectors).build()
    }

    /// Takes note that a request is in a slot, and returns its header, the structure of its opcode, and what follows.
    pub fn request(&mut self, index: usize) -> (wire::Header, wire::Call<'_>) {
        self.slots[index].state = State::Busy;
        let length = self.header(index)[PAYLOAD_BYTES_AT..][..4].try_into().expect("four bytes");
        let length = (u32::from_ne_bytes(length) as usize).min(PAYLOAD_BYTES);
        self.used(index, length);
        let header = wire::header(self.header(index));
        // SAFETY: the payload is a slot's, which the kernel leaves alone until the request is answered.
        let payload = unsafe { std::slice::from_raw_parts(self.payload(index), length) };
        (header, wire::call(header.opcode, &self.header(index)[OP_AT..], payload))
    }

    /// The first `length` bytes of a slot's payload, whose contents come from or go to the backing.
    ///
    /// # Safety
    /// The buffer is gone before the slot's request is answered.
    pub unsafe fn buffer(&mut self, index: usize, length: usize) -> Buffer {
        self.used(index, length.min(PAYLOAD_BYTES));
        // SAFETY: a payload is that long, and only this request's until it is answered, as the caller has promised.
        unsafe { Buffer::lent(self.payload(index), length.min(PAYLOAD_BYTES)) }
    }

    /// Puts the contents of an answer into a slot.
    pub fn fill(&mut self, index: usize, contents: &[u8]) {
        // SAFETY: as above; an answer is far shorter than a payload.
        unsafe { std::slice::from_raw_parts_mut(self.payload(index), contents.len()) }.copy_from_slice(contents);
    }

    fn used(&mut self, index: usize, bytes: usize) {
        let slot = &mut self.slots[index];
        let before = slot.resident;
        slot.resident = before.max(bytes);
        self.large += slot.resident.saturating_sub(RESIDENT_BYTES) - before.saturating_sub(RESIDENT_BYTES);
    }

    /// Takes note that all answers have reached the kernel. To be called before requests are looked at.
    pub fn submitted(&mut self) {
        for index in self.unsent_answers.drain(..) {
            if self.slots[index].state == State::Answered {
                self.slots[index].state = State::Offered;
            }
        }
    }

    /// Gives the memory of large payloads back when they have come to much.
    ///
    /// To be called when every request that the kernel has put into a slot has been looked at.
    pub fn trim(&mut self) {
        if self.large <= LARGE_BYTES_MAX {
            return;
        }
        let idle = |slot: &&mut Slot| slot.state == State::Offered && slot.resident > RESIDENT_BYTES;
        for slot in self.slots.iter_mut().filter(idle) {
            let payload = slot.vectors[1].iov_base.cast::<u8>().wrapping_add(RESIDENT_BYTES);
            // SAFETY: no request is in the slot, so nothing in its payload is needed; the range is within it.
            let freed = unsafe {
                libc::madvise(payload.cast(), PAYLOAD_BYTES - RESIDENT_BYTES, libc::MADV_DONTNEED_LOCKED) == 0
            };
            if freed {
                self.large -= slot.resident - RESIDENT_BYTES;
                slot.resident = RESIDENT_BYTES;
            }
        }
    }

    fn payload(&self, index: usize) -> *mut u8 {
        self.slots[index].vectors[1].iov_base.cast()
    }

    fn header(&self, index: usize) -> &[u8] {
        // SAFETY: a header is that long and initialised (new memory is zero); nobody writes to it meanwhile.
        unsafe { std::slice::from_raw_parts(self.slots[index].vectors[0].iov_base.cast(), HEADER_BYTES) }
    }

    fn header_mut(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed by one only.
        unsafe { std::slice::from_raw_parts_mut(self.slots[index].vectors[0].iov_base.cast(), HEADER_BYTES) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; whoever served it is done.
        unsafe { libc::munmap(self.memory.cast(), self.bytes) };
    }
}
