//! Whether a statement reads and does nothing else, under every reading that a server may have of it.
//!
//! No grammar: a statement passes when each of its tokens is one that a reading statement may have. What is not known
//! does not pass.

use crate::charset::{Charset, Dialect};
use crate::lists::{acts, builtin, Builtin};
use crate::query::Query;
use crate::token::{doubt, Kind, Lexer, Token};

/// What a statement may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// A query of somebody else.
    Query,
    /// A query, or a statement with which volbench sets up a session that reads.
    Own,
    /// A query that two servers are sent, to compare their rows: SELECT or WITH.
    Compared,
    /// What a replay sends to a candidate that is thrown away: data may change, nothing else.
    Replay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Answer {
    Passes = 0,
    /// It does, or may do, what is not allowed.
    Acts = 1,
    /// Servers, versions or sessions read it differently.
    Ambiguous = 2,
    /// It is an error of syntax: nothing tells what was meant.
    Fails = 3,
    /// It is no UTF-8.
    NoText = 4,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub answer: Answer,
    pub reason: String,
}

impl Verdict {
    pub fn new(answer: Answer, reason: impl Into<String>) -> Self {
        Verdict { answer, reason: reason.into() }
    }
}

/// Return the verdict on a statement of a client that sends UTF-8, whatever the sql_mode of the session.
///
/// A replay may send bytes that are no UTF-8 in literals. Its sessions may have named an 8-bit character set, of which
/// some have a byte of white space above 0x7f.
pub fn judge(text: &[u8], allowed: Allowed) -> Verdict {
    let is_utf8 = std::str::from_utf8(text).is_ok();
    if !is_utf8 && allowed != Allowed::Replay {
        return Verdict::new(Answer::NoText, "is no UTF-8");
    }
    let plain = judge_reading(text, allowed, Dialect::default());
    if plain.verdict.answer != Answer::Passes {
        return plain.verdict;
    }
    let has_escape = text.windows(2).any(|pair| pair[0] == b'\\' && matches!(pair[1], b'\'' | b'"'));
    for (no_escapes, is_latin1) in [(false, false), (true, false), (false, true), (true, true)] {
        if (no_escapes && !has_escape) || (is_latin1 && is_utf8) {
            continue;
        }
        let charset = if is_latin1 { Charset::Latin1 } else { Charset::Utf8 };
        let mut has_double_quotes = plain.has_double_quotes;
        for ansi_quotes in [false, true] {
            if (ansi_quotes && !has_double_quotes) || !(ansi_quotes || no_escapes || is_latin1) {
                continue;
            }
            let other = judge_reading(text, allowed, Dialect { ansi_quotes, no_escapes, charset });
            has_double_quotes |= other.has_double_quotes;
            let is_same = other.verdict.answer == Answer::Passes && other.bounds == plain.bounds;
            if !is_same && other.verdict.answer != Answer::Fails {
                let session = other_session(ansi_quotes, no_escapes, is_latin1);
                return Verdict::new(Answer::Ambiguous, format!("means something else {session}"));
            }
        }
    }
    plain.verdict
}

fn other_session(ansi_quotes: bool, no_escapes: bool, is_latin1: bool) -> &'static str {
    match (is_latin1, no_escapes, ansi_quotes) {
        (true, ..) => "to a client with another character set",
        (_, true, _) => "under sql_mode NO_BACKSLASH_ESCAPES",
        _ => "under sql_mode ANSI_QUOTES",
    }
}

struct Reading {
    verdict: Verdict,
    /// A hash of where the tokens begin and end.
    bounds: u64,
    /// A text is in double quotes: ANSI_QUOTES makes a difference.
    has_double_quotes: bool,
}

fn judge_reading(text: &[u8], allowed: Allowed, dialect: Dialect) -> Reading {
    let mut tokens = Tokens::new(text, dialect);
    let acts = Query::new(&mut tokens, allowed).check();
    while tokens.next().is_some() {} // the doubts of all of the text
    let doubts = tokens.lexer.doubts;
    let verdict = match acts {
        Err(reason) => Verdict::new(Answer::Acts, reason),
        Ok(()) if doubts & doubt::DIFFERENT != 0 => Verdict::new(Answer::Ambiguous, doubtful(doubts)),
        Ok(()) if doubts != 0 => Verdict::new(Answer::Fails, "has a literal or a comment that does not end"),
        Ok(()) => Verdict::new(Answer::Passes, ""),
    };
    Reading { verdict, bounds: tokens.bounds, has_double_quotes: tokens.has_double_quotes }
}

fn doubtful(doubts: u32) -> &'static str {
    match doubts & doubt::DIFFERENT {
        bits if bits & doubt::VERSION != 0 => "has a comment that some servers execute",
        bits if bits & doubt::NESTED != 0 => "has a comment within an executed comment",
        bits if bits & doubt::DOLLAR != 0 => "has $$, which begins a text for some servers",
        bits if bits & doubt::ZERO != 0 => "has a byte 0 outside of a literal",
        bits if bits & doubt::HINT != 0 => "has a hint with quotes",
        _ => "has a character outside of literals that looks like white space and is none",
    }
}

/// The tokens without comments, each with the two before it.
pub struct Tokens<'a> {
    pub text: &'a [u8],
    pub lexer: Lexer<'a>,
    pub bounds: u64,
    has_double_quotes: bool,
    pub previous: Option<Token>,
    current: Option<Token>,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a [u8], dialect: Dialect) -> Self {
        Tokens {
            text,
            lexer: Lexer::new(text, dialect),
            bounds: 0,
            has_double_quotes: false,
            previous: None,
            current: None,
        }
    }

    pub fn next(&mut self) -> Option<Token> {
        loop {
            let token = self.lexer.next()?;
            let bound = (token.start as u64) << 32 ^ token.end as u64 ^ u64::from(token.kind == Kind::Comment) << 63;
            self.bounds = (self.bounds ^ bound).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            self.has_double_quotes |= token.kind == Kind::Text && self.text[token.start] == b'"';
            if self.text[token.start] == b',' {
                self.lexer.pass_numbers(); // not after a parenthesis, with which a statement may begin
            }
            if !matches!(token.kind, Kind::Comment | Kind::Open | Kind::Close) {
                self.previous = self.current.replace(token);
                return Some(token);
            }
        }
    }

    /// The next token, which stays the next.
    pub fn peek(&self) -> Option<Token> {
        self.ahead().next()
    }

    /// The tokens that follow, without going on.
    pub fn ahead(&self) -> impl Iterator<Item = Token> + 'a {
        self.lexer.filter(|token| !matches!(token.kind, Kind::Comment | Kind::Open | Kind::Close | Kind::Hint))
    }

    pub fn piece(&self, token: Token) -> &'a [u8] {
        &self.text[token.start..token.end]
    }

    pub fn is_sign(&self, token: Option<Token>, sign: &[u8]) -> bool {
        token.is_some_and(|token| token.kind == Kind::Sign && self.piece(token) == sign)
    }

    /// The keyword in lower case; empty for all that is none.
    pub fn keyword(&self, token: Option<Token>) -> String {
        match token {
            Some(token) if token.kind == Kind::Word && !token.after_point && token.end - token.start <= 32 => {
                String::from_utf8_lossy(self.piece(token)).to_ascii_lowercase()
            }
            _ => String::new(),
        }
    }

    /// A name without its quotes, in lower case.
    pub fn name(&self, token: Token) -> String {
        let piece = self.piece(token);
        let bare = if token.kind == Kind::Name { &piece[1..piece.len().max(2) - 1] } else { piece };
        String::from_utf8_lossy(&bare[..bare.len().min(64)]).to_ascii_lowercase()
    }
}

/// How a function is called.
#[derive(Clone, Copy)]
pub struct Call {
    pub is_quoted: bool,
    pub is_spaced: bool,
}

/// Why a function may not be called; None for one that only computes, and in a replay for a stored one.
pub fn why_no_call(name: &str, call: Call, allowed: Allowed) -> Option<String> {
    let is_acting = acts(name);
    match builtin(name) {
        _ if allowed == Allowed::Replay && !is_acting => None,
        None if is_acting => Some(format!("calls {name}(), which does more than compute")),
        None => Some(format!("calls {name}(), which is not known to only compute")),
        _ if call.is_quoted => Some(format!("calls `{name}`(): with quotes it may be a stored function")),
        Some(Builtin::Adjacent) if call.is_spaced => {
            Some(format!("calls {name} (): with white space it may be a stored function"))
        }
        // What volbench itself asks of accounts and checksums; a server without it answers with an error.
        Some(Builtin::Somewhere) if allowed == Allowed::Own && matches!(name, "md5" | "sha1") => None,
        Some(Builtin::Somewhere) => {
            Some(format!("calls {name}(), which may be a stored function, since not all servers have it built in"))
        }
        _ => None,
    }
}
