//! The shape of a statement: without comments and values, as pt-fingerprint and the servers' digests write it.

use crate::charset::Dialect;
use crate::token::{Kind, Lexer, Token};

/// Return the statement in lower case without comments and literals, with one space where there was white space.
///
/// Lists of values become `(?+)`, of rows after VALUES the first one stays. Names in quotes stay as they are, and so
/// do comments that a server executes. Bytes that are no UTF-8 become `?`.
pub fn fingerprint(text: &[u8], dialect: Dialect) -> Vec<u8> {
    let mut shape = Shape {
        text,
        lexer: Lexer::new(text, dialect),
        out: Vec::with_capacity(256),
        list: None,
        before: Before::Other,
        depth: 0,
        rows_depth: None,
    };
    shape.write();
    let mut out = shape.out;
    trim(&mut out);
    if out.last() == Some(&b';') {
        out.pop();
        trim(&mut out);
    }
    if out.is_ascii() {
        return out;
    }
    as_utf8(&out)
}

fn trim(out: &mut Vec<u8>) {
    while out.last() == Some(&b' ') {
        out.pop();
    }
}

/// The keyword before a list, with which a list of one value is one of many.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    In,
    Values,
    Other,
}

/// A list that has had only values so far.
#[derive(Clone, Copy)]
struct List {
    start: usize,
    values: usize,
    expects_value: bool,
    before: Before,
}

struct Shape<'a> {
    text: &'a [u8],
    lexer: Lexer<'a>,
    out: Vec<u8>,
    list: Option<List>,
    before: Before,
    depth: usize,
    /// The depth at which rows of VALUES are.
    rows_depth: Option<usize>,
}

impl Shape<'_> {
    fn write(&mut self) {
        let mut end = 0;
        while let Some(token) = self.lexer.next() {
            let is_spaced = token.start > end || token.kind == Kind::Comment || token.kind == Kind::Hint;
            end = token.end;
            if is_spaced && !self.out.is_empty() && self.out.last() != Some(&b' ') {
                self.out.push(b' ');
            }
            self.write_token(token);
            if token.kind == Kind::Sign && self.text[token.start] == b')' && self.rows_depth == Some(self.depth) {
                self.rows_depth = None;
                end = self.skip_rows().unwrap_or(end);
            }
        }
    }

    fn write_token(&mut self, token: Token) {
        let piece = &self.text[token.start..token.end];
        match token.kind {
            Kind::Comment | Kind::Hint => {}
            Kind::Number | Kind::Bits | Kind::Dollar | Kind::Text => self.write_value(token, piece),
            Kind::Sign if piece == b"(" => {
                let before = std::mem::replace(&mut self.before, Before::Other);
                self.list = Some(List { start: self.out.len(), values: 0, expects_value: true, before });
                self.out.push(b'(');
                if before == Before::Values {
                    self.rows_depth = Some(self.depth);
                }
                self.depth += 1;
                if let (Some(list), Some((values, end))) = (&mut self.list, plain_numbers(self.text, token.end)) {
                    list.values = values;
                    list.expects_value = false;
                    self.lexer.at = end;
                }
            }
            Kind::Sign if piece == b")" => self.close_list(),
            Kind::Sign if piece == b"," => {
                self.out.push(b',');
                match &mut self.list {
                    Some(list) if !list.expects_value => list.expects_value = true,
                    _ => self.list = None,
                }
            }
            Kind::Sign if piece == b"-" => self.out.push(b'-'),
            Kind::Open => {
                self.list = None;
                let digits = piece.iter().filter(|byte| byte.is_ascii_digit()).count();
                self.write_lower(&piece[..piece.len() - digits]);
                if digits > 0 {
                    self.out.push(b'?');
                }
            }
            Kind::Name => {
                self.list = None;
                self.before = Before::Other;
                self.out.extend_from_slice(piece);
            }
            _ => {
                self.list = None;
                self.before = match token.kind {
                    Kind::Word if token.after_point => Before::Other,
                    Kind::Word if piece.eq_ignore_ascii_case(b"in") => Before::In,
                    Kind::Word if piece.eq_ignore_ascii_case(b"values") || piece.eq_ignore_ascii_case(b"value") => {
                        Before::Values
                    }
                    _ => Before::Other,
                };
                self.write_lower(piece);
            }
        }
    }

    fn write_value(&mut self, token: Token, piece: &[u8]) {
        if token.kind == Kind::Number && self.is_signed(token.start) {
            self.out.pop();
        }
        if token.kind == Kind::Text && matches!(piece[0], b'n' | b'N') {
            self.out.push(b'n');
        }
        self.out.push(b'?');
        match &mut self.list {
            Some(list) if list.expects_value => {
                list.values += 1;
                list.expects_value = false;
            }
            _ => self.list = None,
        }
        self.before = Before::Other;
    }

    /// Whether a minus directly before a number is its sign: after a name or a number it is an operator.
    fn is_signed(&self, start: usize) -> bool {
        if start == 0 || self.text[start - 1] != b'-' || self.out.last() != Some(&b'-') {
            return false;
        }
        start == 1
            || !matches!(self.text[start - 2], b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'`' | b'.' | 0x80..)
    }

    fn close_list(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.before = Before::Other;
        if let Some(list) = self.list.take() {
            let is_list = list.values > 1 || (list.values == 1 && list.before != Before::Other);
            if is_list && !list.expects_value {
                self.out.truncate(list.start);
                self.out.extend_from_slice(b"(?+)");
                return;
            }
        }
        while self.out.last() == Some(&b' ') && self.out.len() > 1 && self.out[self.out.len() - 2] == b'(' {
            self.out.pop();
        }
        self.out.push(b')');
    }

    /// Go past the rows after the first of VALUES; return the end of the last.
    fn skip_rows(&mut self) -> Option<usize> {
        let mut end = None;
        loop {
            let mut ahead = self.lexer;
            let (Some(comma), Some(open)) = (next_plain(&mut ahead), next_plain(&mut ahead)) else {
                return end;
            };
            if &self.text[comma.start..comma.end] != b"," || &self.text[open.start..open.end] != b"(" {
                return end;
            }
            let mut depth = 1_usize;
            let mut last = open;
            while depth > 0 {
                let Some(token) = ahead.next() else {
                    self.lexer = ahead; // a row that was cut off
                    return Some(self.text.len());
                };
                if token.kind == Kind::Sign {
                    match self.text[token.start] {
                        b'(' => depth += 1,
                        b')' => depth -= 1,
                        _ => {}
                    }
                }
                last = token;
            }
            self.lexer = ahead;
            end = Some(last.end);
        }
    }

    fn write_lower(&mut self, piece: &[u8]) {
        if piece.is_ascii() {
            self.out.extend(piece.iter().map(u8::to_ascii_lowercase));
        } else if let Ok(text) = std::str::from_utf8(piece) {
            self.out.extend_from_slice(text.to_lowercase().as_bytes());
        } else {
            self.out.extend(piece.iter().map(u8::to_ascii_lowercase));
        }
    }
}

/// How many numbers of digits only, two at least, are alone in a list that begins at `at`, and where its `)` is.
///
/// They are lists that programs write, of hundreds of keys: no token of them is looked at.
fn plain_numbers(text: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    let mut values = 0;
    loop {
        while byte(at) == b' ' {
            at += 1;
        }
        let start = at;
        while byte(at).is_ascii_digit() {
            at += 1;
        }
        if at == start {
            return None;
        }
        values += 1;
        while byte(at) == b' ' {
            at += 1;
        }
        match byte(at) {
            b',' => at += 1,
            b')' if values > 1 => return Some((values, at)),
            _ => return None,
        }
    }
}

fn next_plain(lexer: &mut Lexer) -> Option<Token> {
    lexer.find(|token| !matches!(token.kind, Kind::Comment | Kind::Hint))
}

/// Return the text with a question mark for each byte that is no part of UTF-8.
fn as_utf8(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        match std::str::from_utf8(rest) {
            Ok(text) => {
                out.extend_from_slice(text.as_bytes());
                break;
            }
            Err(error) => {
                let valid = error.valid_up_to();
                let wrong = error.error_len().unwrap_or(rest.len() - valid);
                out.extend_from_slice(&rest[..valid]);
                out.extend(std::iter::repeat(b'?').take(wrong));
                rest = &rest[valid + wrong..];
            }
        }
    }
    out
}
