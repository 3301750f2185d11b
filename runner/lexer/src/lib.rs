//! The SQL lexer of volbench as a C library: MySQL's and MariaDB's tokens, fingerprints, a guard of statements.
//!
//! Each function takes a text and its length. Text is returned in a buffer of the caller: the answer is its length,
//! and when that is more than the buffer has, the caller comes again with a larger one. A fault is -1, never a panic.

pub mod charset;
pub mod classes;
pub mod fingerprint;
pub mod guard;
mod lists;
mod query;
mod scan;
mod statements;
pub mod token;

use charset::{Charset, Dialect};
use classes::Classes;
use guard::Allowed;
use std::panic::catch_unwind;
use token::{Kind, Lexer};

/// Changes with each change of a function below, so that a library of another version is not used.
const ABI: u32 = 3;
const FAULT: i64 = -1;

#[no_mangle]
pub extern "C" fn volbench_lexer_abi() -> u32 {
    ABI
}

/// Bits of a dialect: 1 ANSI_QUOTES, 2 NO_BACKSLASH_ESCAPES, from 4 on the character set.
fn dialect_of(bits: u32) -> Dialect {
    let charset = match bits >> 2 {
        1 => Charset::Latin1,
        2 => Charset::Gbk,
        3 => Charset::Gb18030,
        4 => Charset::Sjis,
        5 => Charset::Big5,
        _ => Charset::Utf8,
    };
    Dialect { ansi_quotes: bits & 1 != 0, no_escapes: bits & 2 != 0, charset }
}

/// # Safety
/// `text` has `length` bytes that nobody changes.
unsafe fn slice<'a>(text: *const u8, length: usize) -> &'a [u8] {
    if text.is_null() || length == 0 {
        return &[];
    }
    std::slice::from_raw_parts(text, length)
}

/// # Safety
/// `out` has room for `capacity` bytes.
unsafe fn give(bytes: &[u8], out: *mut u8, capacity: usize) -> i64 {
    if bytes.len() <= capacity && !bytes.is_empty() {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out, bytes.len());
    }
    bytes.len() as i64
}

/// # Safety
/// `text` has `length` bytes, `out` room for `capacity`.
#[no_mangle]
pub unsafe extern "C" fn volbench_fingerprint(
    text: *const u8,
    length: usize,
    dialect: u32,
    out: *mut u8,
    capacity: usize,
) -> i64 {
    let text = slice(text, length);
    catch_unwind(|| fingerprint::fingerprint(text, dialect_of(dialect)))
        .map_or(FAULT, |shape| give(&shape, out, capacity))
}

/// Write the reason of a verdict; the answer is in the byte at `answer`. `allowed`: 0 query, 1 own, 2 replay, 3 compared.
///
/// # Safety
/// `text` has `length` bytes, `out` room for `capacity`, `answer` for one.
#[no_mangle]
pub unsafe extern "C" fn volbench_judge(
    text: *const u8,
    length: usize,
    allowed: u32,
    answer: *mut u8,
    out: *mut u8,
    capacity: usize,
) -> i64 {
    let text = slice(text, length);
    let allowed = match allowed {
        1 => Allowed::Own,
        2 => Allowed::Replay,
        3 => Allowed::Compared,
        _ => Allowed::Query,
    };
    let judged = catch_unwind(|| guard::judge(text, allowed));
    judged.map_or(FAULT, |verdict| {
        *answer = verdict.answer as u8;
        give(verdict.reason.as_bytes(), out, capacity)
    })
}

/// A token of `volbench_tokens`: 24 bytes.
#[repr(C)]
pub struct Span {
    start: u64,
    end: u64,
    kind: u32,
    /// 1: does not end; 2: a name after a point.
    flags: u32,
}

/// A place within a text, where the next call goes on: `Lexer` is plain data.
///
/// # Safety
/// `text` has `length` bytes, `spans` room for `capacity` spans, `state` for `volbench_state_size()` bytes.
#[no_mangle]
pub unsafe extern "C" fn volbench_tokens(
    text: *const u8,
    length: usize,
    dialect: u32,
    place: *mut u64,
    spans: *mut Span,
    capacity: usize,
) -> i64 {
    let text = slice(text, length);
    let place = std::slice::from_raw_parts_mut(place, 3);
    let spans = std::slice::from_raw_parts_mut(spans, capacity);
    let written = catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut lexer = Lexer::resumed(text, dialect_of(dialect), place[0] as usize, place[1], place[2] as u32);
        let mut count = 0;
        while count < spans.len() {
            let Some(token) = lexer.next() else { break };
            let flags = u32::from(token.open) | u32::from(token.after_point) << 1;
            spans[count] = Span { start: token.start as u64, end: token.end as u64, kind: token.kind as u32, flags };
            count += 1;
        }
        place[0] = lexer.at as u64;
        place[1] = lexer.state();
        place[2] = u64::from(lexer.doubts);
        count
    }));
    written.map_or(FAULT, |count| count as i64)
}

/// Return whether no string, quoted name or comment is open at the end.
///
/// # Safety
/// `text` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn volbench_is_closed(text: *const u8, length: usize, dialect: u32) -> i64 {
    let text = slice(text, length);
    catch_unwind(|| {
        let mut lexer = Lexer::new(text, dialect_of(dialect));
        let mut is_open = false;
        while let Some(token) = lexer.next() {
            is_open |= token.open && token.kind != Kind::Bits;
            if matches!(text[token.start], b'(' | b',') {
                lexer.pass_numbers();
            }
        }
        i64::from(!is_open)
    })
    .unwrap_or(FAULT)
}

/// The beginning of an empty set of classes, to be freed with `volbench_classes_free`.
#[no_mangle]
pub extern "C" fn volbench_classes_new() -> *mut Classes {
    Box::into_raw(Box::default())
}

/// # Safety
/// `classes` is of `volbench_classes_new`, and is not used again.
#[no_mangle]
pub unsafe extern "C" fn volbench_classes_free(classes: *mut Classes) {
    drop(Box::from_raw(classes));
}

/// Write a number of a shape and an answer for each of `count` statements; return how many shapes there are.
///
/// # Safety
/// `classes` is of `volbench_classes_new`; the statements follow each other in `text`, each up to its `ends`;
/// `numbers` and `answers` have room for `count`.
#[no_mangle]
pub unsafe extern "C" fn volbench_classes_add(
    classes: *mut Classes,
    text: *const u8,
    length: usize,
    ends: *const u64,
    count: usize,
    numbers: *mut u32,
    answers: *mut u8,
) -> i64 {
    if count == 0 {
        return (*classes).shapes.len() as i64;
    }
    let text = slice(text, length);
    let ends = std::slice::from_raw_parts(ends, count);
    let numbers = std::slice::from_raw_parts_mut(numbers, count);
    let answers = std::slice::from_raw_parts_mut(answers, count);
    let classes = std::panic::AssertUnwindSafe(&mut *classes);
    let added = catch_unwind(std::panic::AssertUnwindSafe(move || {
        let classes = classes;
        let mut begin = 0;
        for at in 0..count {
            let end = (ends[at] as usize).clamp(begin, text.len());
            (numbers[at], answers[at]) = classes.0.number(&text[begin..end]);
            begin = end;
        }
        classes.0.shapes.len()
    }));
    added.map_or(FAULT, |shapes| shapes as i64)
}

/// Write the shapes from a number on, each after its length in four bytes, the least significant first.
///
/// # Safety
/// `classes` is of `volbench_classes_new`, `out` has room for `capacity`.
#[no_mangle]
pub unsafe extern "C" fn volbench_classes_shapes(
    classes: *mut Classes,
    first: u32,
    out: *mut u8,
    capacity: usize,
) -> i64 {
    let classes = &*classes;
    let mut text = Vec::new();
    for shape in classes.shapes.iter().skip(first as usize) {
        text.extend_from_slice(&(shape.len() as u32).to_le_bytes());
        text.extend_from_slice(shape);
    }
    give(&text, out, capacity)
}
