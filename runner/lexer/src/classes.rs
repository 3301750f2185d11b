//! Numbers of shapes, for many statements in one call.

use crate::charset::Dialect;
use crate::fingerprint::fingerprint;
use crate::guard::{judge, Allowed, Answer};
use crate::token::{Kind, Lexer};
use std::collections::HashMap;

/// Of a statement that was not fingerprinted, since it is none that a comparison sends.
pub const NO_CLASS: u32 = u32::MAX;

/// The shapes so far, numbered in the order of their first statement.
#[derive(Default)]
pub struct Classes {
    numbers: HashMap<Vec<u8>, u32>,
    pub shapes: Vec<Vec<u8>>,
}

impl Classes {
    /// Return the number of a statement's shape, and the guard's answer.
    pub fn number(&mut self, text: &[u8]) -> (u32, u8) {
        if std::str::from_utf8(text).is_err() {
            return (NO_CLASS, Answer::NoText as u8);
        }
        if !may_read(text) {
            return (NO_CLASS, Answer::Acts as u8);
        }
        let verdict = judge(text, Allowed::Compared);
        if verdict.answer != Answer::Passes {
            return (NO_CLASS, verdict.answer as u8);
        }
        let shape = fingerprint(text, Dialect::default());
        if let Some(&number) = self.numbers.get(&shape) {
            return (number, Answer::Passes as u8);
        }
        let number = self.shapes.len() as u32;
        self.shapes.push(shape.clone());
        self.numbers.insert(shape, number);
        (number, Answer::Passes as u8)
    }
}

/// Whether the first keyword is one of a query; most statements that write are seen by it at once.
fn may_read(text: &[u8]) -> bool {
    let mut tokens = Lexer::new(text, Dialect::default());
    let first = tokens.find(|token| {
        !matches!(token.kind, Kind::Comment | Kind::Open | Kind::Close) && &text[token.start..token.end] != b"("
    });
    first.is_some_and(|token| {
        let piece = &text[token.start..token.end];
        token.kind != Kind::Word || piece.eq_ignore_ascii_case(b"select") || piece.eq_ignore_ascii_case(b"with")
    })
}
