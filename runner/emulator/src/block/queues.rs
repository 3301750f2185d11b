//! How many slots each of the kernel's queues has. The kernel has a queue for each processor that this machine may ever
//! have, and a request goes to the queue of the processor on which it is made.

use std::fs;
use std::io;

const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// A loop device has 128 requests under way, each of which may be two of FUSE; what exceeds it waits in the kernel.
const SLOTS_OF_A_QUEUE: usize = 256;
/// Of all queues together.
const SLOTS_MAX: usize = 4096;

/// Returns the number of slots of each queue, at least one: all queues must have some before any is used.
pub fn slots() -> io::Result<Vec<usize>> {
    let processors =
        |path| fs::read_to_string(path).and_then(|text| listed(&text).ok_or(io::ErrorKind::InvalidData.into()));
    Ok(shares(processors(POSSIBLE)?.len(), &processors(ONLINE)?))
}

/// Shares slots out; requests of processors whose number is beyond the queues go to the first one.
fn shares(queues: usize, online: &[usize]) -> Vec<usize> {
    let share = (SLOTS_MAX / online.len().max(1)).clamp(1, SLOTS_OF_A_QUEUE);
    let mut slots = vec![1; queues];
    for processor in online {
        slots[if *processor < queues { *processor } else { 0 }] = share;
    }
    slots
}

/// The numbers that the kernel writes as `0-3,8`.
fn listed(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        numbers.extend(first..=last);
    }
    (!numbers.is_empty()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_as_the_kernel_lists_them() {
        for (text, numbers) in
            [("0-1\n", Some(vec![0, 1])), ("0", Some(vec![0])), ("0-2,8", Some(vec![0, 1, 2, 8])), ("", None)]
        {
            assert_eq!(listed(text), numbers, "{text}");
        }
    }

    #[test]
    fn processors_that_are_there_have_the_slots_and_the_others_one_each() {
        assert_eq!(shares(4, &[0, 1]), [256, 256, 1, 1]);
        assert_eq!(shares(2, &[0, 8]), [256, 1]);
        assert_eq!(shares(64, &(0..64).collect::<Vec<_>>()), [64; 64]);
    }
}
