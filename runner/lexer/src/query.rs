//! The tokens that a reading statement may have, and those of a replay.

use crate::guard::{why_no_call, Allowed, Call, Tokens};
use crate::statements;
use crate::token::{Kind, Token};

/// Keywords with which no query reads. All are reserved in both servers, so that no column has such a name.
const FORBIDDEN: [&str; 20] = [
    "alter",
    "analyze",
    "call",
    "create",
    "delete",
    "drop",
    "grant",
    "infile",
    "into",
    "kill",
    "load",
    "lock",
    "outfile",
    "procedure",
    "purge",
    "rename",
    "revoke",
    "trigger",
    "unlock",
    "update",
];
/// Keywords that may come before a parenthesis and call nothing.
const BEFORE_PARENTHESIS: [&str; 84] = [
    "against",
    "all",
    "and",
    "any",
    "as",
    "between",
    "bigint",
    "binary",
    "bit",
    "blob",
    "by",
    "case",
    "check",
    "columns",
    "cross",
    "datetime",
    "dec",
    "decimal",
    "distinct",
    "distinctrow",
    "div",
    "double",
    "else",
    "enum",
    "escape",
    "except",
    "exists",
    "fixed",
    "float",
    "for",
    "from",
    "group",
    "having",
    "high_priority",
    "ignore",
    "in",
    "index",
    "inner",
    "int",
    "integer",
    "intersect",
    "interval",
    "is",
    "join",
    "key",
    "like",
    "limit",
    "match",
    "mod",
    "natural",
    "nchar",
    "not",
    "numeric",
    "of",
    "offset",
    "on",
    "or",
    "outer",
    "over",
    "partition",
    "real",
    "regexp",
    "rlike",
    "row",
    "select",
    "set",
    "smallint",
    "some",
    "sql_calc_found_rows",
    "straight_join",
    "table",
    "text",
    "then",
    "tinyint",
    "union",
    "unique",
    "use",
    "using",
    "varbinary",
    "varchar",
    "when",
    "where",
    "with",
    "xor",
];
const HINTS: [&str; 47] = [
    "bka",
    "bnl",
    "derived_condition_pushdown",
    "dupsweedout",
    "firstmatch",
    "group_index",
    "hash_join",
    "index",
    "index_merge",
    "intoexists",
    "join_fixed_order",
    "join_index",
    "join_order",
    "join_prefix",
    "join_suffix",
    "loosescan",
    "materialization",
    "max_execution_time",
    "merge",
    "mrr",
    "no_bka",
    "no_bnl",
    "no_derived_condition_pushdown",
    "no_group_index",
    "no_hash_join",
    "no_icp",
    "no_index",
    "no_index_merge",
    "no_join_index",
    "no_merge",
    "no_mrr",
    "no_order_index",
    "no_range_optimization",
    "no_rowid_filter",
    "no_semijoin",
    "no_skip_scan",
    "no_split_materialized",
    "order_index",
    "qb_name",
    "rowid_filter",
    "semijoin",
    "skip_scan",
    "split_materialized",
    "subquery",
    "no_firstmatch",
    "no_loosescan",
    "no_materialization",
];
/// Schemas of the server itself: a replay changes nothing in them.
const OF_SERVER: [&str; 4] = ["mysql", "sys", "performance_schema", "information_schema"];
const FILLED: [&str; 4] = ["nextval", "currval", "lastval", "setval"];

pub type Outcome = Result<(), String>;

pub struct Query<'t, 'a> {
    pub tokens: &'t mut Tokens<'a>,
    pub allowed: Allowed,
    /// The statement is SHOW, whose keywords are none of a query.
    pub is_show: bool,
    /// It may change data, in a replay.
    pub may_write: bool,
}

impl<'t, 'a> Query<'t, 'a> {
    pub fn new(tokens: &'t mut Tokens<'a>, allowed: Allowed) -> Self {
        Query { tokens, allowed, is_show: false, may_write: allowed == Allowed::Replay }
    }

    /// Return why the statement is not allowed.
    pub fn check(&mut self) -> Outcome {
        statements::check_begin(self)?;
        self.check_rest()
    }

    /// Check all tokens from here on as those of a query.
    pub fn check_rest(&mut self) -> Outcome {
        while let Some(token) = self.tokens.next() {
            self.check_token(token)?;
        }
        Ok(())
    }

    pub fn check_token(&mut self, token: Token) -> Outcome {
        match token.kind {
            Kind::Sign => self.check_sign(token),
            Kind::Hint => self.check_hint(token),
            Kind::Word | Kind::Name => self.check_name(token),
            _ => Ok(()),
        }
    }

    fn check_sign(&mut self, token: Token) -> Outcome {
        match self.tokens.piece(token) {
            b":=" if !self.may_write => Err("sets a variable".into()),
            b";" if self.tokens.peek().is_some() => Err("has more than one statement".into()),
            b"{" if self.may_write => Err("has a brace".into()),
            _ => Ok(()),
        }
    }

    fn check_hint(&mut self, token: Token) -> Outcome {
        let piece = self.tokens.piece(token);
        let inside = String::from_utf8_lossy(&piece[3..piece.len().max(5) - 2]).to_ascii_lowercase();
        let mut depth = 0_i32;
        for part in inside.split_inclusive(|character: char| !(character.is_ascii_alphanumeric() || character == '_')) {
            let name =
                part.trim_end_matches(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
            if depth == 0 && !name.is_empty() && !HINTS.contains(&name) {
                return Err(format!("has the hint {name}"));
            }
            depth += i32::from(part.ends_with('(')) - i32::from(part.ends_with(')'));
        }
        Ok(())
    }

    fn check_name(&mut self, token: Token) -> Outcome {
        let keyword = self.tokens.keyword(Some(token));
        let next = self.tokens.peek();
        if !keyword.is_empty() {
            self.check_keyword(&keyword, next)?;
        }
        let follows_point = self.tokens.is_sign(self.tokens.previous, b".");
        if follows_point && FILLED.contains(&self.tokens.name(token).as_str()) {
            return Err("uses a sequence".into());
        }
        if self.may_write && self.tokens.is_sign(next, b".") && OF_SERVER.contains(&self.tokens.name(token).as_str()) {
            return Err("uses a schema of the server itself".into());
        }
        if self.tokens.is_sign(next, b"(") {
            let is_spaced = next.is_some_and(|parenthesis| parenthesis.start > token.end);
            return self.check_call(token, &keyword, is_spaced, follows_point);
        }
        Ok(())
    }

    fn check_keyword(&mut self, keyword: &str, next: Option<Token>) -> Outcome {
        let is_shown = self.is_show && matches!(keyword, "create" | "procedure" | "trigger");
        if !is_shown && !self.may_write && FORBIDDEN.contains(&keyword) {
            return Err(format!("has {}", keyword.to_ascii_uppercase()));
        }
        if self.may_write && matches!(keyword, "outfile" | "dumpfile" | "infile" | "load" | "procedure") {
            return Err(format!("has {}", keyword.to_ascii_uppercase()));
        }
        let next_keyword = self.tokens.keyword(next);
        match keyword {
            "for" if matches!(next_keyword.as_str(), "update" | "share") && !self.may_write => Err("locks rows".into()),
            "value" if next_keyword == "for" => Err("uses a sequence".into()),
            "set"
                if !self.may_write
                    && !matches!(self.tokens.keyword(self.tokens.previous).as_str(), "character" | "char") =>
            {
                Err("has SET".into())
            }
            "insert" | "replace" if !self.may_write && !self.tokens.is_sign(next, b"(") => {
                Err(format!("has {}", keyword.to_ascii_uppercase()))
            }
            _ => Ok(()),
        }
    }

    fn check_call(&mut self, token: Token, keyword: &str, is_spaced: bool, follows_point: bool) -> Outcome {
        if self.calls_nothing(keyword) {
            return Ok(());
        }
        if !follows_point && self.names_columns() {
            return Ok(());
        }
        let name = self.tokens.name(token);
        if follows_point {
            return Err(format!("calls {name}() of a schema"));
        }
        if keyword == "last_insert_id" {
            let mut ahead = self.tokens.ahead();
            let (_, argument) = (ahead.next(), ahead.next());
            let is_empty = self.tokens.is_sign(argument, b")");
            return if is_empty || self.may_write { Ok(()) } else { Err("sets LAST_INSERT_ID".into()) };
        }
        let is_table = matches!(self.tokens.keyword(self.tokens.previous).as_str(), "from" | "join");
        if keyword == "json_table" && is_table {
            return Ok(()); // no function is called there
        }
        let call = Call { is_quoted: token.kind == Kind::Name, is_spaced };
        why_no_call(&name, call, self.allowed).map_or(Ok(()), Err)
    }

    /// Whether a keyword before a parenthesis is one, and no name of a function in an older server.
    fn calls_nothing(&self, keyword: &str) -> bool {
        if BEFORE_PARENTHESIS.binary_search(&keyword).is_err() {
            return false;
        }
        let previous = self.tokens.previous;
        match keyword {
            "over" | "against" => self.tokens.is_sign(previous, b")"),
            "except" | "intersect" | "escape" => self.follows_operand(),
            "columns" => previous.is_some_and(|token| token.kind == Kind::Text),
            "of" => matches!(self.tokens.keyword(previous).as_str(), "member" | "as"),
            _ => true,
        }
    }

    fn follows_operand(&self) -> bool {
        match self.tokens.previous {
            Some(token) if token.kind == Kind::Sign => self.tokens.piece(token) == b")",
            Some(token) => {
                token.kind != Kind::Word
                    || BEFORE_PARENTHESIS.binary_search(&self.tokens.keyword(Some(token)).as_str()).is_err()
            }
            None => false,
        }
    }

    /// Whether the parenthesis after this name has names of columns: of a table expression, or of a derived table.
    fn names_columns(&self) -> bool {
        let mut ahead = self.tokens.ahead();
        ahead.next();
        let is_list = loop {
            let (name, sign) = (ahead.next(), ahead.next());
            if !name.is_some_and(|token| matches!(token.kind, Kind::Word | Kind::Name)) {
                break false;
            }
            if !self.tokens.is_sign(sign, b",") {
                break self.tokens.is_sign(sign, b")");
            }
        };
        if !is_list {
            return false;
        }
        let before = self.tokens.keyword(self.tokens.previous);
        if before == "as" || self.tokens.is_sign(self.tokens.previous, b")") {
            return true;
        }
        if self.may_write && matches!(before.as_str(), "index" | "key" | "unique" | "constraint") {
            return true;
        }
        let (next, after) = (ahead.next(), ahead.next());
        self.tokens.keyword(next) == "as" && self.tokens.is_sign(after, b"(")
    }
}
