//! What a volume is asked to do.

use serde::{Deserialize, Serialize};

/// A point in time: nanoseconds since the daemon's own zero.
pub type Nanos = u64;

/// Nanoseconds in a second, as the factor between rates and times.
pub const SECOND_NS: f64 = 1e9;

/// The kinds of operation that have a latency and a counter of their own.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(usize)]
pub enum Op {
    Read,
    Write,
    Flush,
    Lookup,
    Getattr,
    Setattr,
    Open,
    Close,
    Create,
    Unlink,
    Rename,
    Readdir,
    Other,
}

/// Which weight of a limit an operation pays.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    Read,
    Write,
    Flush,
    /// Asks for names or attributes.
    Metadata,
    /// Changes names or attributes.
    Change,
}

impl Op {
    pub const ALL: [Op; 13] = [
        Op::Read,
        Op::Write,
        Op::Flush,
        Op::Lookup,
        Op::Getattr,
        Op::Setattr,
        Op::Open,
        Op::Close,
        Op::Create,
        Op::Unlink,
        Op::Rename,
        Op::Readdir,
        Op::Other,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Lookup => "lookup",
            Op::Getattr => "getattr",
            Op::Setattr => "setattr",
            Op::Open => "open",
            Op::Close => "close",
            Op::Create => "create",
            Op::Unlink => "unlink",
            Op::Rename => "rename",
            Op::Readdir => "readdir",
            Op::Other => "other",
        }
    }

    pub fn class(self) -> Class {
        match self {
            Op::Read => Class::Read,
            Op::Write => Class::Write,
            Op::Flush => Class::Flush,
            Op::Setattr | Op::Create | Op::Unlink | Op::Rename => Class::Change,
            _ => Class::Metadata,
        }
    }

    /// Reads and writes carry bytes and are what vendors count as I/Os.
    pub fn is_data(self) -> bool {
        matches!(self, Op::Read | Op::Write)
    }
}

/// One operation. `stream` tells files apart (0 for a block device): only within a stream can I/Os be sequential.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    pub op: Op,
    pub stream: u64,
    pub offset: u64,
    pub bytes: u64,
}

impl Request {
    pub fn metadata(op: Op) -> Self {
        Request { op, stream: 0, offset: 0, bytes: 0 }
    }
}

/// Where a request stands in a run of sequential requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Bytes of the run before this request; 0 when the request starts a new run.
    pub before: u64,
}

/// Recognises sequential runs, one per direction, as a volume's merging does.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    last: [Option<(u64, u64, u64)>; 2], // stream, end offset, bytes so far
}

impl Runs {
    pub fn follow(&mut self, request: &Request) -> Run {
        let slot = &mut self.last[usize::from(request.op == Op::Write)];
        let before = match *slot {
            Some((stream, end, bytes)) if stream == request.stream && end == request.offset => bytes,
            _ => 0,
        };
        *slot = Some((request.stream, request.offset + request.bytes, before + request.bytes));
        Run { before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: u64, offset: u64, bytes: u64) -> Request {
        Request { op: Op::Read, stream, offset, bytes }
    }

    #[test]
    fn a_run_grows_while_offsets_touch_and_breaks_elsewhere() {
        let mut runs = Runs::default();
        assert_eq!(runs.follow(&read(0, 0, 4096)).before, 0);
        assert_eq!(runs.follow(&read(0, 4096, 4096)).before, 4096);
        assert_eq!(runs.follow(&read(0, 65536, 4096)).before, 0);
        assert_eq!(runs.follow(&read(1, 69632, 4096)).before, 0);
    }

    #[test]
    fn writes_do_not_break_a_run_of_reads() {
        let mut runs = Runs::default();
        runs.follow(&read(0, 0, 4096));
        runs.follow(&Request { op: Op::Write, ..read(0, 1 << 20, 512) });
        assert_eq!(runs.follow(&read(0, 4096, 4096)).before, 4096);
    }

    #[test]
    fn every_operation_is_listed_once_at_its_index() {
        for (index, op) in Op::ALL.iter().enumerate() {
            assert_eq!(*op as usize, index);
        }
    }
}
