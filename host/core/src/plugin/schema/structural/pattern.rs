//! Compiled patterns, bounded in size and number.
//!
//! The API server reads patterns as RE2 does, where `\d`, `\s` and `\w` are of ASCII, as in `regex_lite`. That crate has no classes
//! of Unicode (`\p{L}`): a pattern with one is left to the API server.

use std::cell::RefCell;
use std::rc::Rc;

use regex_lite::{Regex, RegexBuilder};

use crate::value::bounded::{LruCache, bounded};

/// Largest length of a pattern, in bytes.
pub(super) const PATTERN_LENGTH_MAX: usize = 4096;
/// Largest size of a compiled pattern, in bytes: some need megabytes for a few characters, and the time to match a text grows with it.
pub(super) const PATTERN_MAX: usize = 1 << 16;
/// Largest number of compiled patterns that a thread keeps: those of CRDs, and during a check those of a config.
pub(super) const PATTERNS_KEPT: usize = 128;

thread_local! {
    pub(super) static COMPILED: RefCell<LruCache<String, Option<Rc<Regex>>>> = RefCell::new(bounded(PATTERNS_KEPT));
}

/// What texts that match a pattern are called, for patterns that the SDKs and many CRDs have.
pub(super) fn noun(pattern: &str) -> Option<&'static str> {
    Some(match pattern {
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$" => {
            "a quantity like 100m, 2 or 128Mi"
        }
        "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" => "a DNS label: a-z, 0-9 and -, not beginning or ending with -",
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" => {
            "a DNS subdomain: labels of a-z, 0-9 and - with dots between them"
        }
        r"^\S+$" => "a text without whitespace",
        _ => return None,
    })
}

/// A pattern, compiled; `None` if it cannot be read or is too large. Parents are checked before each call, so that patterns are kept.
pub fn compiled(pattern: &str) -> Option<Rc<Regex>> {
    if pattern.len() > PATTERN_LENGTH_MAX {
        return None;
    }
    let compile = || RegexBuilder::new(pattern).size_limit(PATTERN_MAX).build().ok().map(Rc::new);
    COMPILED.with_borrow_mut(|all| all.get_or_insert_ref(pattern, compile).clone())
}
