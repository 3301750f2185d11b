//! Lists of names that the guard decides by, each sorted once.

use std::sync::OnceLock;

/// How a name may be called so that all servers call the built-in function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Builtin {
    /// With or without white space before the parenthesis.
    Everywhere,
    /// With the parenthesis at once.
    Adjacent,
    /// On some servers only.
    Somewhere,
}

/// What is known of a function's name; None for one that is not known to only compute.
pub fn builtin(name: &str) -> Option<Builtin> {
    static FUNCTIONS: OnceLock<Vec<(&'static str, Builtin)>> = OnceLock::new();
    let functions = FUNCTIONS.get_or_init(|| {
        let lines = include_str!("functions.txt").lines().filter(|line| !line.starts_with('#'));
        let mut names: Vec<_> = lines.flat_map(str::split_whitespace).map(marked).collect();
        names.sort_unstable();
        names
    });
    functions.binary_search_by(|(known, _)| (*known).cmp(name)).ok().map(|at| functions[at].1)
}

fn marked(name: &'static str) -> (&'static str, Builtin) {
    let kind = match name.as_bytes().last() {
        Some(b'!') => Builtin::Adjacent,
        Some(b'?') => Builtin::Somewhere,
        _ => Builtin::Everywhere,
    };
    (name.trim_end_matches(['!', '?']), kind)
}

/// Beginnings and names of functions that wait, lock, read files, run programs or change what others see.
const ACTING: [&str; 31] = [
    "asynchronous_connection_failover_",
    "audit_",
    "benchmark",
    "encrypt",
    "get_lock",
    "group_replication_",
    "http_",
    "is_free_lock",
    "is_used_lock",
    "kdf",
    "keyring_",
    "lib_mysqludf_",
    "load_file",
    "master_gtid_wait",
    "master_pos_wait",
    "mysql_firewall_",
    "mysql_query_attribute_",
    "option_tracker_",
    "query_rewrite_",
    "release_all_locks",
    "release_lock",
    "service_",
    "sleep",
    "source_pos_wait",
    "spider_",
    "sys_",
    "uuid_short",
    "version_tokens_",
    "wait_for_executed_gtid_set",
    "wait_until_sql_thread_after_gtids",
    "wsrep_",
];

/// Whether a name is known to be of a function that does more than compute: of a server, or of a common library.
pub fn acts(name: &str) -> bool {
    ACTING.iter().any(|begin| name.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || begin.ends_with('_')))
}
