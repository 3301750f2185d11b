//! Serves a disk's requests that come over io_uring.
//!
//! One thread does it all: it takes requests, begins their transfers, waits for what is due next, and answers. Answers
//! and new requests go with one system call, many at a time, and no other thread is wake_event in between.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::squeue::Entry128;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use rustix::io::Errno;

use super::Disk;
use super::slots::Slots;
use super::wire::{self, Call, Header};
use crate::buffer::ALIGNMENT;
use crate::engine::transfer::Transfer;
use crate::engine::{Admitted, Engine, LEISURE};
use crate::model::request::{Nanos, Op, Request};

pub type Ring = IoUring<Entry128, cqueue::Entry>;

/// Looked up what is due after so many completions.
const COMPLETIONS_AT_ONCE: usize = 16;
/// Contents of answers that the kernel copies before more operations are said to be complete.
const ANSWERS_AT_ONCE_BYTES: usize = 256 << 10;

/// What a completion is of: a slot's request, a slot's transfer, or one of two descriptors.
const TRANSFER: u64 = 1 << 32;
const WAKE: u64 = 1 << 33;
const ENDED: u64 = 1 << 34;

/// What an operation does, and what its answer carries.
#[derive(Clone, Copy)]
enum Work {
    Read { offset: u64, length: usize },
    Write { offset: u64, length: usize },
    Flush,
    Allocate { offset: u64, length: u64, mode: u32 },
}

/// An operation in a slot.
struct Operation {
    admitted: Admitted,
    work: Work,
    result: Result<(), Errno>,
    worked: Nanos,
    transfer: Option<Arc<Transfer>>,
}

impl Operation {
    fn is_done(&self) -> bool {
        self.transfer.as_ref().is_none_or(|transfer| transfer.is_done())
    }
}

pub struct Server {
    ring: Ring,
    slots: Slots,
    wake_event: Arc<OwnedFd>,
    engine: Arc<Engine>,
    disk: Arc<Disk>,
    operations: Vec<Option<Operation>>,
    /// Due time, order of arrival, slot.
    waiting: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    sequence: u64,
    /// Slots whose time has come before the end of their transfer.
    overdue: Vec<usize>,
    /// Whether the ring tells when a transfer ends.
    end_watched: bool,
    /// Everything that waits has to complete, whenever it is due.
    drain_requested: bool,
    /// Of answers that the kernel has not copied yet.
    unsent_bytes: usize,
    /// Slots that the mount still knows.
    offered_slots: usize,
}

impl Server {
    pub fn new(ring: Ring, slots: Slots, wake_event: Arc<OwnedFd>, engine: Arc<Engine>, disk: Arc<Disk>) -> Self {
        Server {
            operations: (0..slots.count()).map(|_| None).collect(),
            offered_slots: slots.count(),
            ring,
            slots,
            wake_event,
            engine,
            disk,
            waiting: BinaryHeap::new(),
            sequence: 0,
            overdue: Vec::new(),
            end_watched: false,
            drain_requested: false,
            unsent_bytes: 0,
        }
    }

    /// Offers all slots to the kernel. Fails if it refuses one.
    pub fn offer(&mut self) -> io::Result<()> {
        for slot in 0..self.slots.count() {
            let entry = self.slots.register(slot);
            self.push(entry)?;
        }
        self.watch(self.wake_event.as_raw_fd(), WAKE)?;
        self.ring.submit()?;
        self.receive_all()
    }

    /// Serves until the mount is gone.
    pub fn run(&mut self) -> io::Result<()> {
        while self.offered_slots > 0 {
            self.complete_due()?;
            self.enter()?;
            if self.ring.submission().is_empty() {
                self.slots.submitted();
            }
            self.receive_all()?;
            self.slots.trim();
        }
        Ok(())
    }

    fn push(&mut self, entry: Entry128) -> io::Result<()> {
        // SAFETY: what the entry points to lives in `self`, or in descriptors that the process keeps.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    fn watch(&mut self, descriptor: i32, what: u64) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(descriptor), libc::POLLIN as u32).build().user_data(what);
        self.push(entry.into())
    }

    /// Hands over what was pushed, and waits for a completion or for what is due next.
    fn enter(&mut self) -> io::Result<()> {
        if !self.overdue.is_empty() && !self.end_watched {
            if let Some(ended) = self.engine.transfers().map(|transfers| transfers.ended().as_raw_fd()) {
                self.watch(ended, ENDED)?;
                self.end_watched = true;
            }
        }
        self.unsent_bytes = 0;
        // Waiting for requests is no I/O: it must not show as the machine's iowait.
        let flags = EnterFlags::NO_IOWAIT;
        let entered = match self.waiting.peek() {
            None => self.ring.submitter().submit_with_args_and_flags(1, &SubmitArgs::new(), flags),
            Some(Reverse((due, ..))) => {
                let until = self.engine.monotonic(*due);
                let until = Timespec::new().sec(until.as_secs()).nsec(until.subsec_nanos());
                let arguments = SubmitArgs::new().timespec(&until);
                self.ring.submitter().submit_with_args_and_flags(1, &arguments, flags | EnterFlags::ABS_TIMER)
            }
        };
        match entered.map_err(|error| (error.raw_os_error().unwrap_or(0), error)) {
            Err((number, error)) if ![libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN].contains(&number) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn receive_all(&mut self) -> io::Result<()> {
        loop {
            let next: Vec<_> = self
                .ring
                .completion()
                .take(COMPLETIONS_AT_ONCE)
                .map(|completion| (completion.user_data(), completion.result()))
                .collect();
            if next.is_empty() {
                return Ok(());
            }
            for (what, result) in next {
                self.receive(what, result)?;
            }
            self.complete_due()?;
        }
    }

    fn receive(&mut self, what: u64, result: i32) -> io::Result<()> {
        let slot = (what & (TRANSFER - 1)) as usize;
        match what & !(TRANSFER - 1) {
            WAKE => {
                let _nothing_new = rustix::io::read(&*self.wake_event, &mut [0; 8]);
                self.drain_requested = true;
                self.watch(self.wake_event.as_raw_fd(), WAKE)
            }
            ENDED => {
                self.end_watched = false;
                Ok(())
            }
            TRANSFER => {
                self.moved(slot, result);
                Ok(())
            }
            _ if result == 0 => self.arrive(slot),
            _ => {
                self.offered_slots -= 1;
                // The mount is gone, or its end came between an answer and its request (ENOENT).
                let gone = [libc::ENOTCONN, libc::ECONNABORTED, libc::ECANCELED, libc::ENOENT];
                if gone.contains(&-result) { Ok(()) } else { Err(io::Error::from_raw_os_error(-result)) }
            }
        }
    }

    /// A request is in a slot.
    fn arrive(&mut self, slot: usize) -> io::Result<()> {
        let size = self.disk.size();
        let (Header { inode, .. }, call) = self.slots.request(slot);
        let (request, work) = match call {
            Call::Read { offset, bytes } => {
                let length = self.disk.readable(offset, bytes.into());
                (asked(Op::Read, offset, bytes), Work::Read { offset, length })
            }
            Call::Write { offset, bytes } => {
                (asked(Op::Write, offset, bytes), Work::Write { offset, length: bytes as usize })
            }
            Call::Sync => (Request::metadata(Op::Flush), Work::Flush),
            Call::Allocate { offset, length, mode } => {
                (Request::metadata(Op::Other), Work::Allocate { offset, length, mode })
            }
            _ => {
                let answer = wire::describe(call, inode, size);
                return self.commit(slot, answer.as_deref().map_err(|error| *error));
            }
        };
        self.operate(slot, &request, work)
    }

    /// Does or begins the work of an operation, and lets it wait for its time.
    fn operate(&mut self, slot: usize, request: &Request, work: Work) -> io::Result<()> {
        let Some(admitted) = self.engine.begin(request) else { return self.commit(slot, Err(Errno::IO)) };
        let mut operation = Operation { admitted, work, result: Ok(()), worked: 0, transfer: None };
        if admitted.fails {
            operation.result = Err(Errno::IO);
        } else if let Some(entry) = self.transfer_by_ring(slot, &admitted, work) {
            self.operations[slot] = Some(operation);
            return self.push(entry);
        } else {
            let leisure = admitted.due - admitted.arrived >= LEISURE;
            operation.result = self.work(slot, work, leisure).map(|transfer| operation.transfer = transfer);
        }
        operation.worked = self.engine.now();
        self.operations[slot] = Some(operation);
        self.wait(slot, admitted.due);
        Ok(())
    }

    /// The command for a transfer that the ring makes; None where it goes on without the ring, or must be waited for.
    ///
    /// Who waits for the ring is wake_event when the transfer ends. So what is due only after most disks are done goes by
    /// AIO, which wakes nobody.
    fn transfer_by_ring(&mut self, slot: usize, admitted: &Admitted, work: Work) -> Option<Entry128> {
        let aio = admitted.due - admitted.arrived >= LEISURE && self.engine.transfers().is_some();
        let by_aio = |offset: u64, length: usize| aio && (offset | length as u64) % ALIGNMENT as u64 == 0;
        self.engine.work(|| Ok(())).ok()?; // a volume that is gone begins nothing
        let entry = match work {
            Work::Read { offset, length } | Work::Write { offset, length } => {
                let file = Fd(self.disk.direct_file(offset, length).filter(|_| !by_aio(offset, length))?.as_raw_fd());
                // SAFETY: the slot is answered when the ring has told the transfer's end; the buffer is gone here already.
                let memory = unsafe { self.slots.buffer(slot, length) }.as_mut_slice().as_mut_ptr();
                match work {
                    Work::Read { .. } => opcode::Read::new(file, memory, length as u32).offset(offset).build(),
                    _ => opcode::Write::new(file, memory, length as u32).offset(offset).build(),
                }
            }
            Work::Allocate { offset, length, mode } => {
                let file = Fd(self.disk.buffered_file().as_raw_fd());
                opcode::Fallocate::new(file, length).offset(offset).mode(mode as i32).build()
            }
            Work::Flush => return None,
        };
        Some(entry.user_data(TRANSFER | slot as u64).into())
    }

    /// Does work here, or begins a transfer by AIO if there is time for it.
    fn work(&mut self, slot: usize, work: Work, leisure: bool) -> Result<Option<Arc<Transfer>>, Errno> {
        let (engine, disk) = (&self.engine, &self.disk);
        let transfers = engine.transfers().filter(|_| leisure);
        // SAFETY, of both buffers: an operation is answered when its transfer has ended, and its buffer goes before that.
        match work {
            Work::Read { offset, length } => {
                let buffer = unsafe { self.slots.buffer(slot, length) };
                engine.work(|| disk.read(transfers, offset, buffer)).map(Some)
            }
            Work::Write { offset, length } => {
                let buffer = unsafe { self.slots.buffer(slot, length) };
                engine.work(|| disk.write(transfers, engine.now(), engine.now(), offset, buffer)).map(Some)
            }
            Work::Flush => engine.work(|| disk.flush()).map(|()| None),
            Work::Allocate { offset, length, mode } => {
                engine.work(|| disk.fallocate(mode, offset, length)).map(|()| None)
            }
        }
    }

    fn wait(&mut self, slot: usize, due: Nanos) {
        self.sequence += 1;
        self.waiting.push(Reverse((due, self.sequence, slot)));
    }

    /// The ring has made a slot's transfer; what it could not do whole is done here.
    fn moved(&mut self, slot: usize, result: i32) {
        let Some(Operation { work, admitted, .. }) = self.operations[slot].as_ref() else { return };
        let (work, due) = (*work, admitted.due);
        let wanted = match work {
            Work::Read { length, .. } | Work::Write { length, .. } => length as i32,
            Work::Flush | Work::Allocate { .. } => 0,
        };
        let result = match result {
            moved if moved == wanted => Ok(()),
            error if error < 0 && -error != libc::EINVAL && -error != libc::EINTR => {
                Err(Errno::from_raw_os_error(-error))
            }
            _ => self.work(slot, work, false).map(|_| ()),
        };
        let worked = self.engine.now();
        if let Some(operation) = self.operations[slot].as_mut() {
            (operation.result, operation.worked) = (result, worked);
        }
        self.wait(slot, due);
    }

    /// Answers what is due and done; what is due only is overdue.
    fn complete_due(&mut self) -> io::Result<()> {
        let now = self.engine.now();
        let rushed = std::mem::take(&mut self.drain_requested) || self.engine.is_rushed();
        let seen = if self.overdue.is_empty() { 0 } else { now }; // at the first look, an end was in time
        let mut due = std::mem::take(&mut self.overdue);
        while let Some(Reverse((time, _, slot))) = self.waiting.peek().copied() {
            if time > now && !rushed {
                break;
            }
            self.waiting.pop();
            due.push(slot);
        }
        if let (Some(transfers), false) = (self.engine.transfers(), due.iter().all(|slot| self.is_done(*slot))) {
            transfers.reap(seen);
            if !due.iter().all(|slot| self.is_done(*slot)) {
                transfers.rearm(); // what is overdue then waits for an end that comes later than this
                transfers.reap(seen);
            }
        }
        for slot in due {
            if self.is_done(slot) {
                self.answer(slot)?;
            } else {
                self.overdue.push(slot);
            }
        }
        Ok(())
    }

    fn is_done(&self, slot: usize) -> bool {
        self.operations[slot].as_ref().is_none_or(Operation::is_done)
    }

    fn answer(&mut self, slot: usize) -> io::Result<()> {
        let Some(operation) = self.operations[slot].take() else { return Ok(()) };
        let Operation { admitted, work, result, worked, transfer } = operation;
        let result = transfer.as_ref().map_or(Ok(()), |transfer| transfer.result()).and(result);
        let worked = transfer.map_or(worked, |transfer| worked.max(transfer.seen()));
        let result = self.engine.finish(&admitted, worked, result);
        match (work, result) {
            (Work::Read { length, .. }, Ok(())) => {
                let entry = self.slots.commit(slot, Ok(length));
                self.push(entry)?;
                self.unsent_bytes += length;
                if self.unsent_bytes > ANSWERS_AT_ONCE_BYTES {
                    self.unsent_bytes = 0;
                    self.ring.submit()?;
                }
                Ok(())
            }
            (Work::Write { length, .. }, Ok(())) => self.commit(slot, Ok(&wire::written(length as u32))),
            (_, result) => self.commit(slot, result.map(|()| &[][..])),
        }
    }

    /// Answers the request in a slot.
    fn commit(&mut self, slot: usize, result: Result<&[u8], Errno>) -> io::Result<()> {
        let result = result.map(|contents| {
            self.slots.fill(slot, contents);
            contents.len()
        });
        let entry = self.slots.commit(slot, result);
        self.push(entry)
    }
}

fn asked(op: Op, offset: u64, bytes: u32) -> Request {
    Request { op, stream: 0, offset, bytes: bytes.into() }
}
