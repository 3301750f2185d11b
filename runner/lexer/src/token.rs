//! Tokens of a statement, as the lexers of MySQL and MariaDB divide it (`lex_one_token` in their `sql/sql_lex.cc`).
//!
//! The lexer allocates nothing and never goes back, so that its time is linear and its memory constant.

use crate::charset::{Charset, Dialect};
use crate::scan::{comment_end, find_either, looks_like_space, IDENTIFIER};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// An operator or another single character.
    Sign = 0,
    /// A keyword or a name without quotes.
    Word = 1,
    /// A name in backquotes, or in double quotes under ANSI_QUOTES.
    Name = 2,
    /// With its quotes, and the N of a national string.
    Text = 3,
    Number = 4,
    /// `0x1f`, `x'1f'`, `0b1`, `b'1'`.
    Bits = 5,
    Comment = 6,
    /// A comment of the optimizer, where MySQL takes one.
    Hint = 7,
    /// `/*!`, with its version: a server may read on after it as if it were not there.
    Open = 8,
    /// `*/` of such a comment.
    Close = 9,
    /// `@x`, `@@x`.
    Variable = 10,
    /// `$tag$ text $tag$`, a text to MySQL from 9.0 on, names to all others.
    Dollar = 11,
}

/// What makes servers, versions or sessions divide a text differently, or not at all; bits of `Lexer::doubts`.
pub mod doubt {
    /// A comment that not every server executes.
    pub const VERSION: u32 = 1;
    /// A comment within an executed one.
    pub const NESTED: u32 = 2;
    pub const DOLLAR: u32 = 4;
    /// A byte 0 outside of a string, with which a server ends the statement.
    pub const ZERO: u32 = 8;
    /// A character that looks like white space, or a control character, outside of quotes.
    pub const SPACE: u32 = 16;
    /// A hint with quotes, where its end is not the comment's for all.
    pub const HINT: u32 = 32;
    /// A string, name or comment that does not end: an error of syntax.
    pub const OPEN: u32 = 64;
    /// `x'0g'` or a backslash outside of quotes: an error of syntax.
    pub const FAULT: u32 = 128;

    /// Those with which a statement is read differently; the others are errors of syntax everywhere.
    pub const DIFFERENT: u32 = VERSION | NESTED | DOLLAR | ZERO | SPACE | HINT;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
    /// It does not end within the text.
    pub open: bool,
    /// A name directly after a point, which is no keyword.
    pub after_point: bool,
}

/// The oldest versions that anybody runs are MySQL 5.7 and MariaDB 10: both execute a comment below this number.
const EXECUTED_BY_ALL_BELOW: u32 = 50_700;

/// Divides a statement; an iterator of tokens without white space.
#[derive(Clone, Copy)]
pub struct Lexer<'a> {
    pub text: &'a [u8],
    pub at: usize,
    dialect: Dialect,
    executed: bool,
    after_point: bool,
    /// The place is directly after a name without quotes: a point there is no begin of a number.
    after_word: bool,
    hint_may_follow: bool,
    /// A `$tag$` has no end: nobody looks for those of others, which would take quadratic time.
    dollar_open: bool,
    pub doubts: u32,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a [u8], dialect: Dialect) -> Self {
        Lexer {
            text,
            at: 0,
            dialect,
            executed: false,
            after_point: false,
            after_word: false,
            hint_may_follow: false,
            dollar_open: false,
            doubts: 0,
        }
    }

    /// A lexer at a place where another one of this text was.
    pub fn resumed(text: &'a [u8], dialect: Dialect, at: usize, state: u64, doubts: u32) -> Self {
        Lexer {
            at: at.min(text.len()),
            executed: state & 1 != 0,
            after_point: state & 2 != 0,
            hint_may_follow: state & 4 != 0,
            dollar_open: state & 8 != 0,
            after_word: state & 16 != 0,
            doubts,
            ..Lexer::new(text, dialect)
        }
    }

    /// What `resumed` needs beside the place.
    pub fn state(&self) -> u64 {
        u64::from(self.executed)
            | u64::from(self.after_point) << 1
            | u64::from(self.hint_may_follow) << 2
            | u64::from(self.dollar_open) << 3
            | u64::from(self.after_word) << 4
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn skip_space(&mut self) {
        let charset = self.dialect.charset;
        while self.at < self.text.len() && charset.is_space(self.text[self.at]) {
            self.at += 1;
            self.after_point = false;
            self.after_word = false;
        }
    }

    /// Go past numbers of digits only that are each followed by a comma: they are no more than values of a list.
    ///
    /// For who looks neither at values nor at commas, after an opening parenthesis or a comma.
    pub fn pass_numbers(&mut self) {
        loop {
            let mut at = self.at;
            while self.byte(at) == b' ' {
                at += 1;
            }
            let end = self.digits_end(at);
            if end == at || self.byte(end) != b',' {
                return;
            }
            self.at = end + 1;
        }
    }

    fn identifier_end(&self, mut at: usize) -> usize {
        let charset = self.dialect.charset;
        if matches!(charset, Charset::Utf8) {
            while at < self.text.len() && IDENTIFIER[self.text[at] as usize] {
                at += 1;
            }
            return at;
        }
        while at < self.text.len() && IDENTIFIER[self.text[at] as usize] && !charset.is_space(self.text[at]) {
            at += charset.length(&self.text[at..]);
        }
        at.min(self.text.len())
    }

    fn digits_end(&self, mut at: usize) -> usize {
        while self.byte(at).is_ascii_digit() {
            at += 1;
        }
        at
    }

    /// The end of a string or quoted name that begins at `at` with its quote, and whether it has none.
    fn quoted_end(&self, at: usize, escapes: bool) -> (usize, bool) {
        let (text, quote, charset) = (self.text, self.text[at], self.dialect.charset);
        let is_bytewise = matches!(charset, Charset::Utf8 | Charset::Latin1);
        let escape = if escapes { b'\\' } else { quote };
        let mut at = at + 1;
        while at < text.len() {
            if is_bytewise {
                at = find_either(text, at, quote, escape);
                if at == text.len() {
                    break;
                }
            }
            let byte = text[at];
            if byte == quote {
                if self.byte(at + 1) != quote || at + 1 >= text.len() {
                    return (at + 1, false);
                }
                at += 2;
            } else if byte == b'\\' && escapes {
                at += 2;
            } else {
                at += charset.length(&text[at..]);
            }
        }
        (text.len(), true)
    }

    fn token(&mut self, kind: Kind, start: usize, end: usize) -> Token {
        let end = end.min(self.text.len());
        if matches!(kind, Kind::Word | Kind::Variable) && looks_like_space(&self.text[start..end]) {
            self.doubts |= doubt::SPACE;
        }
        let token = Token { kind, start, end, open: false, after_point: self.after_point };
        self.at = end;
        self.after_point = false;
        self.after_word = matches!(kind, Kind::Word | Kind::Variable);
        if kind != Kind::Comment && kind != Kind::Hint {
            self.hint_may_follow = false;
        }
        token
    }

    fn text_token(&mut self, kind: Kind, start: usize, quote_at: usize, escapes: bool) -> Token {
        let (end, open) = self.quoted_end(quote_at, escapes);
        if open {
            self.doubts |= doubt::OPEN;
        }
        if kind == Kind::Name && self.text[quote_at..end].contains(&0) {
            self.doubts |= doubt::ZERO;
        }
        Token { open, ..self.token(kind, start, end) }
    }

    fn bits_in_quotes(&mut self, start: usize, is_hex: bool) -> Token {
        let (end, open) = self.quoted_end(start + 1, false);
        let digits = &self.text[start + 2..end - usize::from(!open)];
        let is_bits =
            digits.iter().all(|digit| if is_hex { digit.is_ascii_hexdigit() } else { matches!(digit, b'0' | b'1') });
        if open || !is_bits || (is_hex && digits.len() % 2 == 1) {
            self.doubts |= doubt::FAULT;
        }
        Token { open, ..self.token(Kind::Bits, start, end) }
    }

    fn line_comment(&mut self, start: usize) -> Token {
        let rest = &self.text[start..];
        let length = rest.iter().position(|byte| matches!(byte, b'\n' | 0)).unwrap_or(rest.len());
        self.token(Kind::Comment, start, start + length)
    }

    fn long_comment(&mut self, start: usize) -> Token {
        let third = self.byte(start + 2);
        let is_maria = third == b'M' && self.byte(start + 3) == b'!';
        if self.executed {
            self.doubts |= doubt::NESTED;
        }
        if (third == b'!' || is_maria) && !self.executed {
            return self.executed_comment(start, is_maria);
        }
        let (end, open) = comment_end(self.text, start + 2);
        if open {
            self.doubts |= doubt::OPEN;
        }
        let is_hint = third == b'+' && self.hint_may_follow;
        if is_hint && self.text[start..end].iter().any(|byte| matches!(byte, b'\'' | b'"' | b'`' | b'\\' | 0)) {
            self.doubts |= doubt::HINT;
        }
        Token { open, ..self.token(if is_hint { Kind::Hint } else { Kind::Comment }, start, end) }
    }

    fn executed_comment(&mut self, start: usize, is_maria: bool) -> Token {
        let begin = start + 3 + usize::from(is_maria);
        let digits = (begin..begin + 6).take_while(|&at| self.byte(at).is_ascii_digit()).count();
        let number = self.text[begin..begin + digits].iter().fold(0, |sum, &digit| sum * 10 + u32::from(digit - b'0'));
        let is_for_all = match digits {
            5 => number < EXECUTED_BY_ALL_BELOW,
            6 => false, // five digits and one of the text to some
            _ => true,
        };
        if is_maria || !is_for_all {
            self.doubts |= doubt::VERSION;
        }
        self.executed = true;
        let length = if digits >= 5 { digits } else { 0 };
        self.token(Kind::Open, start, begin + length)
    }

    fn number(&mut self, start: usize) -> Token {
        if self.byte(start) == b'0' && matches!(self.byte(start + 1), b'x' | b'b') {
            let is_hex = self.byte(start + 1) == b'x';
            let rest = &self.text[start + 2..];
            let is_digit = |byte: &u8| if is_hex { byte.is_ascii_hexdigit() } else { matches!(byte, b'0' | b'1') };
            let end = start + 2 + rest.iter().take_while(|byte| is_digit(byte)).count();
            if end > start + 2 && !IDENTIFIER[self.byte(end) as usize] {
                return self.token(Kind::Bits, start, end);
            }
            let end = self.identifier_end(end);
            return self.token(Kind::Word, start, end);
        }
        let end = self.digits_end(start);
        let next = self.byte(end);
        if next == b'.' {
            return self.real(start, end + 1);
        }
        if end >= self.text.len() || !IDENTIFIER[next as usize] {
            return self.token(Kind::Number, start, end);
        }
        if matches!(next, b'e' | b'E') {
            let signed = end + 1 + usize::from(matches!(self.byte(end + 1), b'+' | b'-'));
            if self.byte(signed).is_ascii_digit() {
                let end = self.digits_end(signed);
                return self.token(Kind::Number, start, end);
            }
        }
        let end = self.identifier_end(end);
        self.token(Kind::Word, start, end)
    }

    /// A number from the first byte after its point on.
    fn real(&mut self, start: usize, after_point: usize) -> Token {
        let mut end = self.digits_end(after_point);
        if matches!(self.byte(end), b'e' | b'E') {
            let signed = end + 1 + usize::from(matches!(self.byte(end + 1), b'+' | b'-'));
            if self.byte(signed).is_ascii_digit() {
                end = self.digits_end(signed);
            } else {
                self.doubts |= doubt::FAULT;
            }
        }
        self.token(Kind::Number, start, end)
    }

    fn dollar(&mut self, start: usize) -> Option<Token> {
        if self.dollar_open {
            return None;
        }
        let tag_end = start
            + 1
            + self.text[start + 1..].iter().take_while(|&&byte| byte != b'$' && IDENTIFIER[byte as usize]).count();
        if self.byte(tag_end) != b'$' {
            return None;
        }
        self.doubts |= doubt::DOLLAR;
        let tag = &self.text[start..=tag_end];
        let body = &self.text[tag_end + 1..];
        let Some(end) = body.windows(tag.len()).position(|part| part == tag) else {
            self.dollar_open = true;
            return None;
        };
        let end = tag_end + 1 + end + tag.len();
        Some(self.token(Kind::Dollar, start, end))
    }

    fn variable(&mut self, start: usize) -> Token {
        let mut end = start + 1;
        let is_system = self.byte(end) == b'@';
        if is_system {
            end = self.identifier_end(end + 1);
        } else {
            while matches!(self.byte(end), b'.' | b'_' | b'$' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | 0x80..) {
                end += 1;
            }
        }
        let kind = if end == start + 1 || (is_system && end == start + 2) { Kind::Sign } else { Kind::Variable };
        self.token(kind, start, end)
    }

    fn word(&mut self, start: usize) -> Token {
        let charset = self.dialect.charset;
        let end = self.identifier_end(start + charset.length(&self.text[start..]).max(1)).max(start + 1);
        let text = &self.text[start..end.min(self.text.len())];
        let takes_hint = !self.after_point
            && [&b"select"[..], b"insert", b"replace", b"update", b"delete"]
                .iter()
                .any(|verb| text.eq_ignore_ascii_case(verb));
        let token = self.token(Kind::Word, start, end);
        self.hint_may_follow = takes_hint;
        token
    }

    fn sign(&mut self, start: usize) -> Token {
        let (first, second) = (self.text[start], self.byte(start + 1));
        match first {
            0 => self.doubts |= doubt::ZERO,
            b'\\' if second != b'N' => self.doubts |= doubt::FAULT,
            b'*' if second == b'/' && self.byte(start + 2) != b'*' => self.doubts |= doubt::FAULT,
            1..=8 | 14..=31 | 127 => self.doubts |= doubt::SPACE,
            _ => {}
        }
        let is_pair = matches!(
            (first, second),
            (b'\\', b'N')
                | (b':', b'=')
                | (b'&', b'&')
                | (b'|', b'|')
                | (b'<', b'=' | b'>' | b'<')
                | (b'>', b'=' | b'>')
                | (b'!', b'=')
                | (b'-', b'>')
        );
        let token = self.token(Kind::Sign, start, start + 1 + usize::from(is_pair));
        self.after_point = first == b'.' && IDENTIFIER[second as usize];
        token
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        self.skip_space();
        let start = self.at;
        if start >= self.text.len() {
            if self.executed {
                self.doubts |= doubt::OPEN;
            }
            return None;
        }
        let (first, second) = (self.text[start], self.byte(start + 1));
        if self.after_point && IDENTIFIER[first as usize] {
            let end = self.identifier_end(start).max(start + 1);
            return Some(self.token(Kind::Word, start, end));
        }
        let escapes = !self.dialect.no_escapes;
        Some(match first {
            b'\'' => self.text_token(Kind::Text, start, start, escapes),
            b'"' if self.dialect.ansi_quotes => self.text_token(Kind::Name, start, start, false),
            b'"' => self.text_token(Kind::Text, start, start, escapes),
            b'`' => self.text_token(Kind::Name, start, start, false),
            b'n' | b'N' if second == b'\'' => self.text_token(Kind::Text, start, start + 1, escapes),
            b'x' | b'X' if second == b'\'' => self.bits_in_quotes(start, true),
            b'b' | b'B' if second == b'\'' => self.bits_in_quotes(start, false),
            b'0'..=b'9' => self.number(start),
            b'.' if second.is_ascii_digit() && !self.after_word => self.real(start, start + 1),
            b'#' => self.line_comment(start),
            b'-' if second == b'-' && matches!(self.byte(start + 2), 0..=32 | 127) => self.line_comment(start),
            b'/' if second == b'*' => self.long_comment(start),
            b'*' if second == b'/' && self.executed => {
                self.executed = false;
                self.token(Kind::Close, start, start + 2)
            }
            b'@' => self.variable(start),
            b'$' => match self.dollar(start) {
                Some(token) => token,
                None => self.word(start),
            },
            byte if IDENTIFIER[byte as usize] => self.word(start),
            _ => self.sign(start),
        })
    }
}
