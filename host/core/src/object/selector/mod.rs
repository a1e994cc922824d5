//! Label selectors in kubectl's syntax, parsed and matched as `k8s.io/apimachinery/pkg/labels` does (`labels.Parse`).

mod from_object;
mod labels;

use std::str::FromStr;
use std::sync::Arc;

pub use self::from_object::{NotASelector, from_object};
pub use self::labels::{KeptLabels, Labels};
use crate::value::ids::is_dns_subdomain;

/// Maximum length of a plugin's label selector, in bytes: it is part of a URL, or is matched with every changed object.
pub const SELECTOR_MAX: usize = 1024;

/// A label selector: all of its terms must match. Clones share its text.
///
/// Only the canonical text is kept, because the parsed terms take up to twenty times its memory, and a parent may keep hundreds of
/// selectors. Terms are separated by commas and sorted; the values of a set are sorted and unique. Equal selectors have the same text,
/// however they were written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, derive_more::Display)]
pub struct Selector(Arc<str>);

/// One requirement on a label: its key, operator and canonical text. Terms are sorted by these, in this order.
type Term<'a> = (&'a str, Operator, String);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operator {
    Exists,
    Absent,
    /// `=`, `==` and `in`: the label exists and has one of the values.
    In,
    /// `!=` and `notin`: the label does not exist, or has none of the values.
    NotIn,
    // Comparisons are sorted by their numbers, not by the texts of these.
    Greater(i64),
    Less(i64),
}

/// Why a text is not a label selector, and at which character.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at character {at} of selector {text:?}")]
pub struct InvalidSelector {
    problem: String,
    at: usize,
    text: String,
}

impl Selector {
    /// Returns true if the selector matches an object with these labels.
    pub fn matches(&self, labels: &Labels<'_>) -> bool {
        terms(&self.0).all(|term| term_matches(term, labels))
    }

    /// A term of the selector that requires one value of a label, if there is one. An object that the selector matches has this
    /// [term](Labels::terms).
    pub fn required_term(&self) -> Option<&str> {
        terms(&self.0).find(|term| term.contains(" in (") && !term.contains(','))
    }

    /// Labels that the selector matches, unless it has comparisons.
    pub fn example(&self) -> impl Iterator<Item = (&str, &str)> {
        terms(&self.0).filter_map(|term| match term.split_once(" in (") {
            Some((key, values)) => Some((key, values.split([',', ')']).next()?)),
            None => (!term.contains(['!', ' ', '<', '>'])).then_some((term, "any")),
        })
    }

    /// Length of the text, in bytes.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// The terms of a canonical text.
fn terms(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // A comma within parentheses separates values.
        let end = match rest.find([',', '(']) {
            Some(at) if rest.get(at..).is_some_and(|from| from.starts_with('(')) => rest.find(')').map(|end| end + 1),
            end => end,
        };
        let (term, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after.strip_prefix(',').unwrap_or(after);
        Some(term)
    })
}

/// Whether labels match a term of a canonical text.
fn term_matches(term: &str, labels: &Labels<'_>) -> bool {
    if let Some(key) = term.strip_prefix('!') {
        return labels.get(key).is_none();
    }
    let Some(end) = term.find([' ', '>', '<']) else { return labels.get(term).is_some() };
    let (key, test) = term.split_at(end);
    let value = labels.get(key);
    let is_one_of = |values: &str| {
        let values = values.strip_suffix(')').unwrap_or(values);
        value.is_some_and(|value| values.split(',').any(|one| one == value))
    };
    let compares = |bound: &str, compare: fn(&i64, &i64) -> bool| {
        let number = |text: &str| text.parse::<i64>().ok();
        value.and_then(number).zip(number(bound)).is_some_and(|(value, bound)| compare(&value, &bound))
    };
    if let Some(values) = test.strip_prefix(" in (") {
        is_one_of(values)
    } else if let Some(values) = test.strip_prefix(" notin (") {
        !is_one_of(values)
    } else if let Some(bound) = test.strip_prefix('>') {
        compares(bound, i64::gt)
    } else {
        test.strip_prefix('<').is_some_and(|bound| compares(bound, i64::lt))
    }
}

impl FromStr for Selector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let mut terms = Parser { text, at: 0 }.terms()?;
        terms.sort();
        terms.dedup();
        let terms: Vec<_> = terms.into_iter().map(|(.., text)| text).collect();
        Ok(Self(terms.join(",").into()))
    }
}

/// Parses a selector from left to right.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

/// The tokens of the syntax. `in` and `notin` are recognized by position only, because they are valid label keys too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
enum Token<'a> {
    /// A word: a label key, a label value, `in` or `notin`.
    #[display("{_0:?}")]
    Word(&'a str),
    /// One of [`SIGNS`].
    #[display("{_0:?}")]
    Sign(&'a str),
    #[display("the end")]
    End,
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "<", ">", "(", ")", ","];

impl<'a> Parser<'a> {
    fn terms(&mut self) -> Result<Vec<Term<'a>>, InvalidSelector> {
        let mut terms = Vec::new();
        if self.peek() == Token::End {
            return Ok(terms);
        }
        loop {
            terms.push(self.term()?);
            match self.peek() {
                Token::End => return Ok(terms),
                Token::Sign(",") => self.take(),
                found => return Err(self.unexpected(found, "',' or the end")),
            };
        }
    }

    fn term(&mut self) -> Result<Term<'a>, InvalidSelector> {
        let absent = self.peek() == Token::Sign("!");
        if absent {
            self.take();
        }
        let key = match self.peek() {
            Token::Word(key) if is_label_key(key) => key,
            Token::Word(key) => return Err(self.error(format!("{key:?} is no label key"))),
            found => return Err(self.unexpected(found, "a label key")),
        };
        self.take();
        let (operator, text) = match self.peek() {
            Token::End | Token::Sign(",") if absent => (Operator::Absent, format!("!{key}")),
            found if absent => return Err(self.unexpected(found, "',' or the end")),
            Token::End | Token::Sign(",") => (Operator::Exists, key.to_owned()),
            Token::Sign("=" | "==") => (Operator::In, format!("{key} in ({})", self.operand()?)),
            Token::Sign("!=") => (Operator::NotIn, format!("{key} notin ({})", self.operand()?)),
            Token::Sign(sign @ (">" | "<")) => {
                let bound = self.number()?;
                let operator = if sign == ">" { Operator::Greater(bound) } else { Operator::Less(bound) };
                (operator, format!("{key}{sign}{bound}"))
            }
            Token::Word("in") => (Operator::In, format!("{key} in ({})", self.set()?)),
            Token::Word("notin") => (Operator::NotIn, format!("{key} notin ({})", self.set()?)),
            found => return Err(self.unexpected(found, "an operator (=, ==, !=, in, notin, >, <)")),
        };
        Ok((key, operator, text))
    }

    /// The value after an operator; a missing value is the empty value.
    fn operand(&mut self) -> Result<&'a str, InvalidSelector> {
        self.take();
        self.value(&[Token::End, Token::Sign(",")])
    }

    fn number(&mut self) -> Result<i64, InvalidSelector> {
        let value = self.operand()?;
        value.parse().map_err(|_| self.error(format!("{value:?} is no whole number")))
    }

    /// The values of `(a,b)`, sorted; a missing value is the empty value.
    fn set(&mut self) -> Result<String, InvalidSelector> {
        self.take();
        match self.peek() {
            Token::Sign("(") => self.take(),
            found => return Err(self.unexpected(found, "'('")),
        };
        let mut values = Vec::new();
        loop {
            values.push(self.value(&[Token::Sign(","), Token::Sign(")")])?);
            match self.peek() {
                Token::Sign(",") => self.take(),
                Token::Sign(")") => break,
                found => return Err(self.unexpected(found, "',' or ')'")),
            };
        }
        self.take();
        values.sort_unstable();
        values.dedup();
        Ok(values.join(","))
    }

    /// A label value, or the empty value before one of these tokens.
    fn value(&mut self, before: &[Token<'_>]) -> Result<&'a str, InvalidSelector> {
        match self.peek() {
            Token::Word(value) if is_label_value(value) => {
                self.take();
                Ok(value)
            }
            Token::Word(value) => Err(self.error(format!("{value:?} is no label value"))),
            token if before.contains(&token) => Ok(""),
            found => Err(self.unexpected(found, "a label value")),
        }
    }

    fn peek(&mut self) -> Token<'a> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let rest = rest.trim_start_matches(is_space);
        self.at = self.text.len() - rest.len();
        if rest.is_empty() {
            return Token::End;
        }
        if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            return Token::Sign(sign);
        }
        let end = rest.find(|c: char| is_space(c) || "=!()<>,".contains(c)).unwrap_or(rest.len());
        Token::Word(rest.get(..end).unwrap_or_default())
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        if let Token::Word(text) | Token::Sign(text) = token {
            self.at += text.len();
        }
        token
    }

    fn unexpected(&self, found: Token<'_>, wanted: &str) -> InvalidSelector {
        self.error(format!("found {found} instead of {wanted}"))
    }

    fn error(&self, problem: String) -> InvalidSelector {
        let at = self.text.get(..self.at).unwrap_or_default().chars().count() + 1;
        InvalidSelector { problem, at, text: self.text.to_owned() }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// `name` or `prefix/name` (`validation.IsQualifiedName`).
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && !name.is_empty() && is_label_value(name),
        None => !text.is_empty() && is_label_value(text),
    }
}

/// At most 63 characters: letters and digits, with `-`, `_` and `.` in between (`validation.IsValidLabelValue`).
pub fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &str) -> bool {
        let json = format!(r#"{{"spec":{{"labels":{{"a":"no"}}}},"metadata":{{"name":"x","labels":{labels}}}}}"#);
        selector.parse::<Selector>().expect(selector).matches(&Labels::of(json.as_bytes()))
    }

    #[test]
    fn related_a_selector_matches_as_kubectl_does() {
        let labels = r#"{"tier":"web","app.kubernetes.io/name":"shop","in":"x","empty":"","n":"7"}"#;
        for yes in [
            "",
            " ",
            "tier",
            "tier=web",
            "tier==web",
            "tier = web , n",
            "tier!=db",
            "other!=db",
            "!other",
            "! other",
            "tier in (web,db)",
            "tier in(web)",
            "tier in ( db , web )",
            "tier notin (db)",
            "other notin (db)",
            "app.kubernetes.io/name=shop,!other",
            "in",
            "in=x",
            "in in (x)",
            "in notin (in,notin)",
            "empty=",
            "empty in ()",
            "empty in (,)",
            "empty in (a,)",
            "empty==,tier",
            "n>6",
            "n < 8",
        ] {
            assert!(matches(yes, labels), "{yes:?}");
        }
        for no in [
            "other",
            "tier=db",
            "other=",
            "!tier",
            "tier!=web",
            "tier in (db)",
            "tier in ()",
            "other in (web)",
            "tier notin (web,db)",
            "tier,other",
            "n>7",
            "n<7",
            "tier>1",
            "other>1",
            "empty!=",
        ] {
            assert!(!matches(no, labels), "{no:?}");
        }
    }

    #[test]
    fn related_selector_that_kubectl_rejects_is_rejected_with_the_position() {
        let error = |text: &str| text.parse::<Selector>().expect_err(text).to_string();
        for (bad, place) in [
            (",", 1),
            ("a,", 3),
            ("a,,b", 3),
            ("=x", 1),
            ("a=b=c", 4),
            ("a b", 3),
            ("a in", 5),
            ("a in b", 6),
            ("a in (b", 8),
            ("a in (b c)", 9),
            ("a in (b=c)", 8),
            ("a notin", 8),
            ("!a=b", 3),
            ("!", 2),
            ("a=!b", 3),
            ("a=(b)", 3),
            ("a!", 2),
            ("a > b", 6),
            ("-a", 1),
            ("a/b/c", 1),
            ("A.b/c", 1),
            ("é", 1),
            ("a=é", 3),
            ("a=b_", 3),
            ("x=y,é", 5),
        ] {
            assert!(error(bad).contains(&format!("at character {place} of selector {bad:?}")), "{}", error(bad));
        }
        assert!(error(&format!("a={}", "x".repeat(64))).contains("is no label value"));
        assert_eq!(
            error("a b"),
            r#"found "b" instead of an operator (=, ==, !=, in, notin, >, <) at character 3 of selector "a b""#
        );
    }

    #[test]
    fn related_selectors_are_equal_whatever_their_spelling_and_order() {
        let canonical = |text: &str| text.parse::<Selector>().expect(text);
        assert_eq!(canonical("b , a = 1"), canonical("a==1,b,b"));
        assert_eq!(canonical("a in (y,x,y)"), canonical("a in (x, y)"));
        for text in ["a in (1),b in (x,y),c notin (,z),d,!e,f>3,g<4", ""] {
            assert_eq!(canonical(text).to_string(), text);
            assert_eq!(canonical(&canonical(text).to_string()), canonical(text));
        }
        assert_ne!(canonical("a"), canonical("!a"));
        // Selectors are parts of requests and of hashes, so the order is always the same: comparisons are sorted by number.
        let sorted = "a,!a,a in (b),a in (b,c),a notin (b),a>9,a>10,a<9,a<10,b";
        let mut terms: Vec<_> = terms(sorted).collect();
        terms.reverse();
        assert_eq!(canonical(&terms.join(",")).to_string(), sorted);
    }

    #[test]
    fn related_selector_keeps_no_more_than_its_text() {
        let keys: Vec<_> = ('a'..='z').flat_map(|one| ('a'..='m').map(move |two| format!("!{one}{two}"))).collect();
        let text = keys.join(",");
        assert!(text.len() > SELECTOR_MAX);
        assert_eq!(text.parse::<Selector>().expect("a selector").size(), text.len());
    }

    #[test]
    fn related_object_that_a_selector_matches_has_its_required_term() {
        let required = |text: &str| text.parse::<Selector>().expect(text).required_term().map(str::to_owned);
        for (selector, term) in [
            ("tier=web", Some("tier in (web)")),
            ("a,b in (x,y),c=,d=1", Some("c in ()")),
            ("in in (x)", Some("in in (x)")),
            ("a in (x,y)", None),
            ("a!=x", None),
            ("a notin (x)", None),
            ("a,!b,c>1", None),
            ("", None),
        ] {
            assert_eq!(required(selector).as_deref(), term, "{selector}");
        }
        let labels = Labels::of(br#"{"metadata":{"labels":{"tier":"web","c":""}}}"#);
        assert_eq!(labels.terms().collect::<Vec<_>>(), ["c in ()", "tier in (web)"]);
    }
}
