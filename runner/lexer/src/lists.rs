//! Lists of names that the guard decides by, each sorted once.

use std::sync::OnceLock;

/// Whether a built-in function only computes; `strict`: only unquoted and with its parenthesis at once.
pub fn builtin(name: &str) -> Option<bool> {
    static FUNCTIONS: OnceLock<Vec<(&'static str, bool)>> = OnceLock::new();
    let functions = FUNCTIONS.get_or_init(|| {
        let lines = include_str!("functions.txt").lines().filter(|line| !line.starts_with('#'));
        let mut names: Vec<_> = lines
            .flat_map(str::split_whitespace)
            .map(|name| (name.trim_end_matches('!'), name.ends_with('!')))
            .collect();
        names.sort_unstable();
        names
    });
    functions.binary_search_by(|(known, _)| (*known).cmp(name)).ok().map(|at| functions[at].1)
}
