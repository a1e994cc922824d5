//! Compiled patterns, bounded in size and number.
//!
//! The API server reads patterns as RE2 does. `regex_lite` does so too, for most of them: its classes `\d` and `\w` are of ASCII. A pattern
//! that it may read in another way is left to the API server.

use std::cell::RefCell;
use std::rc::Rc;

use regex_lite::{Regex, RegexBuilder};

use crate::value::bounded::{LruCache, bounded};

/// Largest length of a pattern, in bytes.
pub(super) const PATTERN_LENGTH_MAX: usize = 4096;
/// Largest sizes of a compiled pattern, in bytes: some need megabytes for a few characters, and the time to match a text grows with it.
const SIZES: [usize; 3] = [1 << 12, 1 << 14, 1 << 16];
/// Bytes of one state of a compiled pattern, about: for each character of a text, each state may be looked at.
const STATE: usize = 40;
/// Largest number of compiled patterns that a thread keeps: those of CRDs, and during a check those of a config.
pub(super) const PATTERNS_KEPT: usize = 128;

/// A compiled pattern.
pub struct Pattern {
    regex: Regex,
    /// The number of states, at most.
    states: usize,
}

impl Pattern {
    /// Whether a text matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// How much work it is at most to match this text.
    pub(super) fn cost(&self, text: &str) -> usize {
        self.states.saturating_mul(text.len())
    }
}

thread_local! {
    pub(super) static COMPILED: RefCell<LruCache<String, Option<Rc<Pattern>>>> = RefCell::new(bounded(PATTERNS_KEPT));
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

/// A pattern, compiled; `None` if it is too large, or not certain to mean what it means to the API server. Parents are checked before each
/// call, so that patterns are kept.
pub fn compiled(pattern: &str) -> Option<Rc<Pattern>> {
    if pattern.len() > PATTERN_LENGTH_MAX {
        return None;
    }
    COMPILED.with_borrow_mut(|all| all.get_or_insert_ref(pattern, || compile(pattern).map(Rc::new)).clone())
}

fn compile(pattern: &str) -> Option<Pattern> {
    let pattern = translated(pattern)?;
    SIZES.into_iter().find_map(|size| {
        let regex = RegexBuilder::new(&pattern).size_limit(size).build().ok()?;
        Some(Pattern { regex, states: size / STATE })
    })
}

/// A pattern of RE2 as `regex_lite` reads it, without groups that capture: their memory grows with the square of the pattern.
fn translated(pattern: &str) -> Option<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut is_in_class = false;
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next()? {
                // `regex_lite` also counts the vertical tab as space.
                's' if is_in_class => out.push_str(r"\t\n\f\r "),
                's' => out.push_str(r"[\t\n\f\r ]"),
                'S' if !is_in_class => out.push_str(r"[^\t\n\f\r ]"),
                // Boundaries of words, and what RE2 alone knows.
                'S' | '<' | '>' | 'Q' | 'p' | 'P' | 'C' => return None,
                'b' if chars.peek() == Some(&'{') => return None,
                escaped => out.extend(['\\', escaped]),
            },
            '[' if !is_in_class => {
                is_in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // The first bracket or hyphen is a character of the class.
                match chars.peek() {
                    Some(']') => out.extend(['\\', chars.next()?]),
                    Some('-') => {
                        out.extend(['\\', chars.next()?]);
                        if chars.peek() == Some(&'-') {
                            return None;
                        }
                    }
                    _ => {}
                }
            }
            // A class inside a class, or an operation on classes.
            '[' => return None,
            ']' => {
                is_in_class = false;
                out.push(']');
            }
            '&' | '~' | '-' if is_in_class && chars.peek() == Some(&char) => return None,
            '(' if !is_in_class => {
                out.push_str("(?:");
                if chars.next_if_eq(&'?').is_some() {
                    chars.next_if_eq(&'P');
                    match chars.next()? {
                        ':' => {}
                        '<' => chars.by_ref().find(|char| *char == '>').map(drop)?,
                        // Flags: folding differs beyond ASCII.
                        _ => return None,
                    }
                }
            }
            char => out.push(char),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_the_api_server() {
        for (pattern, text, is_match) in [
            (r"^\S+$", "a\u{b}b", true),
            (r"^\S+$", "a\u{a0}b", true),
            (r"^\S+$", "a b", false),
            (r"^[\s-]+$", "\t-", true),
            (r"^\d$", "\u{661}", false),
            (r"^\w+$", "\u{e4}", false),
            ("^(?:a|(b))(?P<x>c)(?<y>d)$", "bcd", true),
            ("^[]a]+$", "]a", true),
            ("^[^]a]+$", "]", false),
            ("^[-a]+$", "-a", true),
            (r"^[a\]\[-]+$", "][-", true),
            (r"^\(a\)$", "(a)", true),
            ("a", "bab", true),
            ("^a$", "a\n", false),
        ] {
            let compiled = compiled(pattern).unwrap_or_else(|| panic!("{pattern}"));
            assert_eq!(compiled.is_match(text), is_match, "{pattern} {text:?}");
        }
        for pattern in
            [r"^\<a\>$", "(?i)^k$", "[--9]", r"^\p{L}$", r"\Qa\E", "[[:alpha:]]", "[a&&b]", r"[\S]", r"\b{start}a"]
        {
            assert!(compiled(pattern).is_none(), "{pattern} is left to the API server");
        }
    }

    #[test]
    fn pattern_with_many_groups_needs_no_memory_for_what_they_match() {
        let groups = "()".repeat(2000);
        assert_eq!(translated(&groups).expect("a pattern"), "(?:)".repeat(2000));
    }
}
