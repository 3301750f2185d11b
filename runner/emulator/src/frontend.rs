//! What both frontends have in common: errors, the talk at the mount, replies without contents.

use std::io;
use std::sync::Arc;

use fuser::{InitFlags, KernelConfig, ReplyEmpty};
use rustix::io::Errno;

use crate::engine::Engine;
use crate::model::request::Request;

/// A loop device sends a request each, up to its queue depth and more: never make it wait for a free slot.
const BACKGROUND_MAX: u16 = 1024;
pub const WRITE_BYTES_MAX: u32 = 1 << 20;

pub fn reply_errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

pub fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Asks the kernel for what a frontend wants; `without` is what a user should know where it cannot be had.
pub fn negotiate(config: &mut KernelConfig, wanted: &[InitFlags], without: &str) {
    for flag in wanted {
        if config.add_capabilities(*flag).is_err() {
            eprintln!("the kernel lacks {flag:?}: {without}");
        }
    }
    let _previous = config.set_max_background(BACKGROUND_MAX);
    let _previous = config.set_congestion_threshold(BACKGROUND_MAX);
    let _previous = config.set_max_write(WRITE_BYTES_MAX);
    // Then a write is the largest message; where less is read ahead already, that stays.
    let _previous = config.set_max_readahead(WRITE_BYTES_MAX);
}

/// Performs what is answered by success or an error alone.
pub fn perform_empty(
    engine: &Arc<Engine>,
    request: &Request,
    work: impl FnOnce() -> Result<(), Errno>,
    reply: ReplyEmpty,
) {
    engine.perform(request, work, move |result| match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(reply_errno(error)),
    });
}
