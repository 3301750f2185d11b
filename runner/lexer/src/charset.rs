//! How a session reads text: which bytes are one character, and what ends a name or a string.

/// How a session reads text: its sql_mode, and the character set of its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// `"x"` is a name (ANSI_QUOTES).
    pub ansi_quotes: bool,
    /// A backslash in a string is a character (NO_BACKSLASH_ESCAPES).
    pub no_escapes: bool,
    pub charset: Charset,
}

/// Character sets that change where a token ends; in all others no byte of a character below 0x80 follows another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    #[default]
    Utf8,
    /// 0xa0 is white space.
    Latin1,
    Gbk,
    Gb18030,
    Sjis,
    Big5,
}

impl Charset {
    /// The length of the character at the begin of `bytes`: 1 where it is a byte or no character.
    pub(crate) fn length(self, bytes: &[u8]) -> usize {
        let (first, second) = (bytes[0], bytes.get(1).copied().unwrap_or(0));
        if first < 0x80 {
            return 1;
        }
        let gbk_second = matches!(second, 0x40..=0x7e | 0x80..=0xfe);
        match self {
            Charset::Utf8 | Charset::Latin1 => 1,
            Charset::Gbk if matches!(first, 0x81..=0xfe) && gbk_second => 2,
            Charset::Gb18030 if matches!(first, 0x81..=0xfe) && gbk_second => 2,
            Charset::Gb18030
                if matches!(first, 0x81..=0xfe)
                    && second.is_ascii_digit()
                    && matches!(bytes.get(2), Some(0x81..=0xfe))
                    && matches!(bytes.get(3), Some(b'0'..=b'9')) =>
            {
                4
            }
            Charset::Sjis
                if matches!(first, 0x81..=0x9f | 0xe0..=0xfc) && matches!(second, 0x40..=0x7e | 0x80..=0xfc) =>
            {
                2
            }
            Charset::Big5 if matches!(first, 0xa1..=0xf9) && matches!(second, 0x40..=0x7e | 0xa1..=0xfe) => 2,
            _ => 1,
        }
    }

    pub(crate) fn is_space(self, byte: u8) -> bool {
        matches!(byte, 9..=13 | b' ') || (byte == 0xa0 && self == Charset::Latin1)
    }
}
