//! Looks for bytes: where a comment or a string ends, and what is part of a name.

/// Bytes of a name without quotes.
pub(crate) const IDENTIFIER: [bool; 256] = identifier_bytes();

const fn identifier_bytes() -> [bool; 256] {
    let mut bytes = [false; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        bytes[at] = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80;
        at += 1;
    }
    bytes
}

/// The end of a comment whose text begins at `at`, and whether it has none.
pub(crate) fn comment_end(text: &[u8], at: usize) -> (usize, bool) {
    let mut star = find_either(text, at, b'*', b'*');
    while star < text.len() {
        if text.get(star + 1) == Some(&b'/') {
            return (star + 2, false);
        }
        star = find_either(text, star + 1, b'*', b'*');
    }
    (text.len(), true)
}

/// The first place of either byte from `at` on; the length without one. Eight bytes are looked at at once.
pub(crate) fn find_either(text: &[u8], at: usize, first: u8, second: u8) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let (firsts, seconds) = (ONES * u64::from(first), ONES * u64::from(second));
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH != 0;
    let mut at = at;
    while let Some(Ok(bytes)) = text.get(at..at + 8).map(<[u8; 8]>::try_from) {
        let word = u64::from_ne_bytes(bytes);
        if has_zero(word ^ firsts) || has_zero(word ^ seconds) {
            break;
        }
        at += 8;
    }
    let rest = &text[at.min(text.len())..];
    at + rest.iter().position(|&byte| byte == first || byte == second).unwrap_or(rest.len())
}

/// Whether a text that is not ASCII has one of Unicode's spaces, which a server takes for part of a name.
pub(crate) fn looks_like_space(text: &[u8]) -> bool {
    let unusual = |character: char| {
        character.is_whitespace()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{80}'..='\u{9f}' | '\u{180e}')
    };
    !text.is_ascii() && String::from_utf8_lossy(text).chars().any(unusual)
}
