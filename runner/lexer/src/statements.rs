//! How a statement that may pass begins: which kinds there are, and what follows in those that are no query.

use crate::guard::Allowed;
use crate::query::{Outcome, Query};
use crate::token::{Kind, Token};

const SHOWN: [&str; 41] = [
    "all",
    "binary",
    "character",
    "collation",
    "columns",
    "count",
    "create",
    "databases",
    "engine",
    "engines",
    "errors",
    "events",
    "extended",
    "fields",
    "full",
    "function",
    "global",
    "grants",
    "index",
    "indexes",
    "keys",
    "local",
    "master",
    "open",
    "package",
    "plugins",
    "privileges",
    "procedure",
    "processlist",
    "replica",
    "replicas",
    "schemas",
    "session",
    "slave",
    "slaves",
    "status",
    "table",
    "tables",
    "triggers",
    "variables",
    "warnings",
];
/// Settings of a session with which volbench reads, or keeps itself within bounds.
const OWN_SETTINGS: [&str; 22] = [
    "autocommit",
    "big_tables",
    "character_set_results",
    "explain_json_format_version",
    "foreign_key_checks",
    "group_concat_max_len",
    "information_schema_stats_expiry",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "lock_wait_timeout",
    "long_query_time",
    "max_execution_time",
    "max_join_size",
    "max_statement_time",
    "net_read_timeout",
    "net_write_timeout",
    "optimizer_switch",
    "query_cache_type",
    "sql_mode",
    "sql_select_limit",
    "time_zone",
    "wait_timeout",
];
const REPLAYED_SETTINGS: [&str; 3] = ["autocommit", "sql_mode", "time_zone"];
/// A client that sends UTF-8 may name these: each byte below 0x80 is a character of its own.
const CHARACTER_SETS: [&str; 9] =
    ["utf8mb4", "utf8mb3", "utf8", "latin1", "binary", "ascii", "default", "latin2", "cp1251"];
const ENGINES: [&str; 5] = ["innodb", "memory", "heap", "myisam", "aria"];

/// Check the first tokens, up to where the rules of a query apply.
pub fn check_begin(query: &mut Query) -> Outcome {
    while query.tokens.is_sign(query.tokens.peek(), b"(") {
        query.tokens.next();
    }
    let first = query.tokens.next();
    let keyword = query.tokens.keyword(first);
    match keyword.as_str() {
        "select" | "with" => Ok(()),
        _ if query.allowed == Allowed::Compared => Err("is no SELECT".into()),
        "table" | "values" => Ok(()),
        "" => Err("begins with no keyword".into()),
        _ if query.allowed == Allowed::Replay => check_replayed(query, &keyword),
        "show" => {
            query.is_show = true;
            let what = query.tokens.keyword(query.tokens.peek());
            if SHOWN.contains(&what.as_str()) {
                Ok(())
            } else {
                Err(format!("is SHOW {}", what.to_ascii_uppercase()))
            }
        }
        "explain" | "describe" | "desc" => check_explain(query),
        _ if query.allowed == Allowed::Own => check_own(query, &keyword),
        _ => Err(format!("is {}", keyword.to_ascii_uppercase())),
    }
}

fn check_explain(query: &mut Query) -> Outcome {
    loop {
        let next = query.tokens.peek();
        if query.tokens.is_sign(next, b"(") {
            query.tokens.next();
            continue;
        }
        match query.tokens.keyword(next).as_str() {
            "extended" | "partitions" | "format" | "json" | "tree" | "traditional" => {
                query.tokens.next();
            }
            "select" | "with" | "table" | "values" => return Ok(()),
            _ if query.tokens.is_sign(next, b"=") => {
                query.tokens.next();
            }
            "for" | "analyze" | "into" | "insert" | "replace" | "update" | "delete" | "" if !is_name(next) => {
                return Err("explains no query".into());
            }
            _ => return check_only(query, "explains no query", &[b"."]),
        }
    }
}

fn is_name(token: Option<Token>) -> bool {
    token.is_some_and(|token| token.kind == Kind::Name)
}

/// Check that names, and these signs, are all that follows.
fn check_only(query: &mut Query, reason: &str, signs: &[&[u8]]) -> Outcome {
    const RESERVED: [&str; 7] = ["for", "analyze", "into", "insert", "replace", "update", "delete"];
    while let Some(token) = query.tokens.next() {
        let is_known = match token.kind {
            Kind::Name => true,
            Kind::Word => !RESERVED.contains(&query.tokens.keyword(Some(token)).as_str()),
            Kind::Sign => signs.contains(&query.tokens.piece(token)) || is_last_semicolon(query, token),
            _ => false,
        };
        if !is_known {
            return Err(reason.into());
        }
    }
    Ok(())
}

fn is_last_semicolon(query: &Query, token: Token) -> bool {
    query.tokens.piece(token) == b";" && query.tokens.peek().is_none()
}

/// Check that the rest is one of these keywords after the other.
fn check_keywords(query: &mut Query, allowed: &[&str]) -> Outcome {
    while let Some(token) = query.tokens.next() {
        let keyword = query.tokens.keyword(Some(token));
        if !allowed.contains(&keyword.as_str()) && !is_last_semicolon(query, token) {
            return Err("has more than a statement of its kind needs".into());
        }
    }
    Ok(())
}

fn check_own(query: &mut Query, keyword: &str) -> Outcome {
    match keyword {
        "use" => check_only(query, "is more than USE", &[]),
        "rollback" => check_keywords(query, &[]),
        "start" => check_keywords(query, &["transaction", "with", "consistent", "snapshot", "read", "only"]),
        "set" => check_settings(query, &OWN_SETTINGS, &["read", "only"]),
        _ => Err(format!("is {}", keyword.to_ascii_uppercase())),
    }
}

fn check_replayed(query: &mut Query, keyword: &str) -> Outcome {
    let next = query.tokens.keyword(query.tokens.peek());
    match keyword {
        "insert" | "replace" => {
            pass_target(query, &["low_priority", "delayed", "high_priority", "ignore", "into"])?;
            pass_columns(query);
            Ok(())
        }
        "call" => pass_target(query, &[]),
        "update" | "delete" | "do" => Ok(()),
        "begin" => check_keywords(query, &["work"]),
        "start" => check_keywords(query, &["transaction", "with", "consistent", "snapshot", "read", "only", "write"]),
        "commit" | "rollback" | "savepoint" => check_only(query, "is no control of transactions", &[]),
        "release" if next == "savepoint" => check_only(query, "is no control of transactions", &[]),
        "set" => check_settings(query, &REPLAYED_SETTINGS, &["read", "only", "write"]),
        "create" | "drop" if next == "temporary" => check_temporary(query, keyword == "create"),
        _ => Err(format!("is {}", keyword.to_ascii_uppercase())),
    }
}

/// Go past the name of a table or routine that the statement changes or calls.
fn pass_target(query: &mut Query, modifiers: &[&str]) -> Outcome {
    loop {
        let Some(token) = query.tokens.next() else { return Err("names nothing".into()) };
        if modifiers.contains(&query.tokens.keyword(Some(token)).as_str()) {
            continue;
        }
        if !matches!(token.kind, Kind::Word | Kind::Name) {
            return Err("names nothing".into());
        }
        if query.tokens.is_sign(query.tokens.peek(), b".") {
            let schema = query.tokens.name(token);
            if ["mysql", "sys", "performance_schema", "information_schema"].contains(&schema.as_str()) {
                return Err("uses a schema of the server itself".into());
            }
            query.tokens.next();
            query.tokens.next();
        }
        return Ok(());
    }
}

/// Go past names of columns in parentheses.
fn pass_columns(query: &mut Query) {
    let is_column = |kind| matches!(kind, Kind::Word | Kind::Name);
    if query.tokens.is_sign(query.tokens.peek(), b"(") {
        query.tokens.next();
        while query
            .tokens
            .peek()
            .is_some_and(|token| is_column(token.kind) && query.tokens.keyword(Some(token)) != "select")
        {
            let mut ahead = query.tokens.ahead();
            ahead.next();
            if !matches!(ahead.next(), Some(sign) if matches!(query.tokens.piece(sign), b"," | b")" | b".")) {
                return;
            }
            query.tokens.next();
            query.tokens.next();
        }
    }
}

fn check_temporary(query: &mut Query, is_create: bool) -> Outcome {
    query.tokens.next();
    if query.tokens.keyword(query.tokens.peek()) != "table" {
        return Err("is no temporary table".into());
    }
    query.tokens.next();
    if !is_create {
        return check_only(query, "is more than DROP", &[b",", b"."]);
    }
    pass_target(query, &["if", "not", "exists"])?;
    while let Some(token) = query.tokens.next() {
        let keyword = query.tokens.keyword(Some(token));
        match keyword.as_str() {
            "directory" | "connection" | "tablespace" | "file_name" => {
                return Err(format!("has {}", keyword.to_ascii_uppercase()))
            }
            "engine" => {
                let engine = query.tokens.next().filter(|token| query.tokens.piece(*token) != b"=");
                let engine = engine.or_else(|| query.tokens.next());
                if !engine.is_some_and(|engine| ENGINES.contains(&query.tokens.name(engine).as_str())) {
                    return Err("uses another engine".into());
                }
            }
            _ => query.check_token(token)?,
        }
    }
    Ok(())
}

/// Check the assignments of SET, each of a setting that is known; `access`: what TRANSACTION may be.
fn check_settings(query: &mut Query, settings: &[&str], access: &[&str]) -> Outcome {
    loop {
        let Some(mut token) = query.tokens.next() else { return Err("sets nothing".into()) };
        if matches!(query.tokens.keyword(Some(token)).as_str(), "session" | "local") {
            token = query.tokens.next().ok_or("sets nothing")?;
        }
        let mut name = query.tokens.name(token);
        if token.kind == Kind::Variable && name.starts_with("@@") {
            if matches!(name.as_str(), "@@session" | "@@local") && query.tokens.is_sign(query.tokens.peek(), b".") {
                query.tokens.next();
                name = query.tokens.next().map_or(String::new(), |token| query.tokens.name(token));
            } else {
                name = name[2..].into();
            }
        } else if token.kind == Kind::Variable && query.allowed == Allowed::Replay {
            name.clear(); // a variable of the session's user
        }
        match name.as_str() {
            "names" => return check_names(query),
            "transaction" => {
                let words = ["isolation", "level", "repeatable", "committed", "uncommitted", "serializable"];
                return check_keywords(query, &[&words[..], access].concat());
            }
            "" if token.kind == Kind::Variable => {}
            known if settings.contains(&known) => {}
            other => return Err(format!("sets {other}")),
        }
        if !pass_value(query, &name)? {
            return Ok(());
        }
    }
}

/// Check a value; return whether another assignment follows.
fn pass_value(query: &mut Query, setting: &str) -> Result<bool, String> {
    let mut depth = 0_i32;
    let assignment = query.tokens.next();
    if !query.tokens.is_sign(assignment, b"=") && !query.tokens.is_sign(assignment, b":=") {
        return Err("sets something unknown".into());
    }
    while let Some(token) = query.tokens.next() {
        match query.tokens.piece(token) {
            b"(" => depth += 1,
            b")" => depth -= 1,
            b"," if depth == 0 => return Ok(true),
            piece if setting == "sql_mode" && changes_syntax(piece) => {
                return Err("sets a sql_mode of another server".into())
            }
            _ => query.check_token(token)?,
        }
        if query.allowed == Allowed::Own && !matches!(token.kind, Kind::Number | Kind::Text | Kind::Word | Kind::Sign) {
            return Err("sets something unknown".into());
        }
    }
    Ok(false)
}

fn changes_syntax(piece: &[u8]) -> bool {
    let text = String::from_utf8_lossy(piece).to_ascii_lowercase();
    ["oracle", "mssql", "db2", "maxdb", "postgresql"].iter().any(|mode| text.contains(mode))
}

fn check_names(query: &mut Query) -> Outcome {
    let name = query.tokens.next().map_or(String::new(), |token| {
        let name = query.tokens.name(token);
        name.trim_matches(|character| matches!(character, '\'' | '"')).to_string()
    });
    if !CHARACTER_SETS.contains(&name.as_str()) {
        return Err(format!("sets the character set {name}"));
    }
    while let Some(token) = query.tokens.next() {
        if !matches!(token.kind, Kind::Word | Kind::Text | Kind::Name) && !is_last_semicolon(query, token) {
            return Err("sets more than NAMES".into());
        }
    }
    Ok(())
}
