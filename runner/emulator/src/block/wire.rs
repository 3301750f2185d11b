//! Messages of FUSE, as far as a mount with one file needs them. Their layouts are those of linux/fuse.h, in the
//! machine's byte order.

use rustix::io::Errno;

use super::{IMAGE, IMAGE_INODE, ROOT_INODE};
use crate::buffer::ALIGNMENT;

const FOREVER_S: u64 = 86_400;
const DIRECTORY_MODE: u32 = 0o040_700;
const FILE_MODE: u32 = 0o100_600;
const DIRECT_IO: u32 = 1; // FOPEN_DIRECT_IO
const PARALLEL_DIRECT_WRITES: u32 = 1 << 6; // FOPEN_PARALLEL_DIRECT_WRITES
const SIZE_GIVEN: u32 = 1 << 3; // FATTR_SIZE
const BLOCK_BYTES: u64 = 512;

/// What every request begins with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    pub opcode: u32,
    pub unique: u64,
    pub inode: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Call<'a> {
    Lookup {
        name: &'a [u8],
    },
    Attributes,
    SetAttributes {
        size: Option<u64>,
    },
    Open,
    OpenDirectory,
    ReadDirectory {
        offset: u64,
    },
    FileSystem,
    /// What needs no more than to be acknowledged: closing the image is no operation of the volume.
    Acknowledge,
    Read {
        offset: u64,
        bytes: u32,
    },
    Write {
        offset: u64,
        bytes: u32,
    },
    Sync,
    Allocate {
        offset: u64,
        length: u64,
        mode: u32,
    },
    Unknown,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Reads `struct fuse_in_header`.
pub fn header(bytes: &[u8]) -> Header {
    Header { opcode: u32_at(bytes, 4), unique: u64_at(bytes, 8), inode: u64_at(bytes, 16) }
}

/// Reads what a request asks for, from the structure of its opcode and, for names, what follows it.
pub fn call<'a>(opcode: u32, op: &[u8], payload: &'a [u8]) -> Call<'a> {
    match opcode {
        1 => Call::Lookup { name: payload.split(|byte| *byte == 0).next().unwrap_or(payload) },
        3 => Call::Attributes,
        4 => Call::SetAttributes { size: (u32_at(op, 0) & SIZE_GIVEN != 0).then(|| u64_at(op, 16)) },
        14 => Call::Open,
        15 => Call::Read { offset: u64_at(op, 8), bytes: u32_at(op, 16) },
        16 => Call::Write { offset: u64_at(op, 8), bytes: u32_at(op, 16) },
        17 => Call::FileSystem,
        18 | 25 | 29 | 38 => Call::Acknowledge, // RELEASE, FLUSH, RELEASEDIR, DESTROY
        20 => Call::Sync,
        27 => Call::OpenDirectory,
        28 => Call::ReadDirectory { offset: u64_at(op, 8) },
        43 => Call::Allocate { offset: u64_at(op, 8), length: u64_at(op, 16), mode: u32_at(op, 24) },
        _ => Call::Unknown,
    }
}

/// The answer to a call about an inode that is no operation of the volume, whose size is given.
pub fn describe(call: Call, inode: u64, size: u64) -> Result<Vec<u8>, Errno> {
    match call {
        Call::Lookup { name } if name == IMAGE.as_bytes() => Ok(entry(size)),
        Call::Lookup { .. } => Err(Errno::NOENT),
        Call::SetAttributes { size: Some(other) } if other != size => Err(Errno::PERM),
        Call::Attributes | Call::SetAttributes { .. } => {
            let validity = [&FOREVER_S.to_ne_bytes()[..], &[0; 8]].concat();
            Ok([validity, attributes(inode, size)].concat())
        }
        Call::Open => Ok(opened(DIRECT_IO | PARALLEL_DIRECT_WRITES)),
        Call::OpenDirectory => Ok(opened(0)),
        Call::ReadDirectory { offset } => Ok(directory(inode, offset)),
        Call::FileSystem => Ok(file_system()),
        Call::Acknowledge => Ok(Vec::new()),
        Call::Unknown | Call::Read { .. } | Call::Write { .. } | Call::Sync | Call::Allocate { .. } => {
            Err(Errno::NOSYS)
        }
    }
}

/// `struct fuse_write_out`.
pub fn written(bytes: u32) -> [u8; 8] {
    let mut answer = [0; 8];
    answer[..4].copy_from_slice(&bytes.to_ne_bytes());
    answer
}

/// `struct fuse_out_header`.
pub fn out_header(unique: u64, result: Result<usize, Errno>) -> [u8; 16] {
    const BYTES: usize = 16;
    let (length, error) = match result {
        Ok(bytes) => (BYTES + bytes, 0),
        Err(error) => (BYTES, -error.raw_os_error()),
    };
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(&(length as u32).to_ne_bytes());
    bytes[4..8].copy_from_slice(&error.to_ne_bytes());
    bytes[8..].copy_from_slice(&unique.to_ne_bytes());
    bytes
}

/// `struct fuse_attr`.
fn attributes(inode: u64, size: u64) -> Vec<u8> {
    let (size, mode) = if inode == ROOT_INODE { (0, DIRECTORY_MODE) } else { (size, FILE_MODE) };
    let long = [inode, size, size / BLOCK_BYTES, 0, 0, 0];
    let (times_ns, links, owner, device) = ([0; 3], 1, [0; 2], 0);
    let short = [&times_ns[..], &[mode, links], &owner, &[device, ALIGNMENT as u32, 0]].concat();
    long.iter()
        .flat_map(|value| value.to_ne_bytes())
        .chain(short.iter().flat_map(|value| value.to_ne_bytes()))
        .collect()
}

/// `struct fuse_entry_out` of the image.
fn entry(size: u64) -> Vec<u8> {
    let (generation, nanoseconds) = (0, 0);
    let head = [IMAGE_INODE, generation, FOREVER_S, FOREVER_S, nanoseconds];
    head.iter().flat_map(|value: &u64| value.to_ne_bytes()).chain(attributes(IMAGE_INODE, size)).collect()
}

/// `struct fuse_open_out`.
fn opened(flags: u32) -> Vec<u8> {
    let handle = 0u64;
    [&handle.to_ne_bytes()[..], &flags.to_ne_bytes(), &[0; 4]].concat()
}

/// `struct fuse_statfs_out`: nothing but the sizes that a caller may divide by.
fn file_system() -> Vec<u8> {
    let (block_bytes, name_bytes_max) = (512u32, 255u32);
    [&[0; 40][..], &block_bytes.to_ne_bytes(), &name_bytes_max.to_ne_bytes(), &[0; 32]].concat()
}

/// `struct fuse_dirent`, padded to eight bytes, of each entry from `offset` on.
fn directory(inode: u64, offset: u64) -> Vec<u8> {
    let (directory, file) = (DIRECTORY_MODE >> 12, FILE_MODE >> 12);
    let entries = [(inode, directory, "."), (inode, directory, ".."), (IMAGE_INODE, file, IMAGE)];
    let mut bytes = Vec::new();
    for (index, (inode, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
        bytes.extend(inode.to_ne_bytes());
        bytes.extend((index as u64 + 1).to_ne_bytes());
        bytes.extend((name.len() as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(name.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 30;

    fn length(call: Call) -> usize {
        describe(call, IMAGE_INODE, SIZE).unwrap().len()
    }

    #[test]
    fn answers_have_the_sizes_of_their_structures() {
        assert_eq!(length(Call::Lookup { name: b"disk.img" }), 128);
        assert_eq!(length(Call::Attributes), 104);
        assert_eq!(length(Call::Open), 16);
        assert_eq!(length(Call::FileSystem), 80);
        assert_eq!(length(Call::ReadDirectory { offset: 0 }), 32 + 32 + 32);
        assert_eq!(length(Call::ReadDirectory { offset: 3 }), 0);
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let error = |call| describe(call, IMAGE_INODE, SIZE).unwrap_err();
        assert_eq!(error(Call::Lookup { name: b"other" }), Errno::NOENT);
        assert_eq!(error(Call::SetAttributes { size: Some(SIZE + 1) }), Errno::PERM);
        assert_eq!(error(Call::Unknown), Errno::NOSYS);
        assert!(describe(Call::SetAttributes { size: Some(SIZE) }, IMAGE_INODE, SIZE).is_ok());
    }

    #[test]
    fn requests_are_read_from_where_linux_puts_them() {
        let mut op = [0u8; 128];
        op[8..16].copy_from_slice(&8192u64.to_ne_bytes());
        op[16..20].copy_from_slice(&4096u32.to_ne_bytes());
        assert_eq!(call(15, &op, &[]), Call::Read { offset: 8192, bytes: 4096 });
        assert_eq!(call(16, &op, &[]), Call::Write { offset: 8192, bytes: 4096 });
        assert_eq!(call(1, &op, b"disk.img\0"), Call::Lookup { name: b"disk.img" });
        assert_eq!(call(4, &op, &[]), Call::SetAttributes { size: None });
        op[0..4].copy_from_slice(&SIZE_GIVEN.to_ne_bytes());
        assert_eq!(call(4, &op, &[]), Call::SetAttributes { size: Some(4096) });
        assert_eq!(call(99, &op, &[]), Call::Unknown);
    }

    #[test]
    fn an_error_goes_out_negative_and_without_contents() {
        let bytes = out_header(7, Err(Errno::IO));
        assert_eq!((u32_at(&bytes, 0), u32_at(&bytes, 4) as i32, u64_at(&bytes, 8)), (16, -5, 7));
        assert_eq!(u32_at(&out_header(7, Ok(4096)), 0), 4112);
    }
}
