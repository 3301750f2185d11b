//! From the kernel's `stat` to what FUSE wants to know.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::Stat;

pub fn kind_of(kind: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Kind;
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn time_of(seconds: i64, nanos: u64) -> SystemTime {
    let fraction = Duration::from_nanos(nanos);
    if seconds >= 0 {
        UNIX_EPOCH + Duration::from_secs(seconds as u64) + fraction
    } else {
        UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + fraction
    }
}

pub fn attr_of(ino: u64, stat: &Stat) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time_of(stat.st_atime, stat.st_atime_nsec),
        mtime: time_of(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time_of(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind_of(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}
