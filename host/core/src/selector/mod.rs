//! Label selectors in kubectl's syntax, parsed and matched as `k8s.io/apimachinery/pkg/labels` does (`labels.Parse`).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::ids::is_dns_subdomain;

/// Maximum length of a plugin's label selector, in bytes: it is part of a URL, or is matched with every changed object.
pub const SELECTOR_MAX: usize = 1024;

/// A label selector: all of its terms must match. Clones share the terms.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector(Arc<[Term]>);

/// One requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Term {
    key: Box<str>,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Test {
    Exists,
    Absent,
    /// `=`, `==` and `in`: the label exists and has one of the values, which are sorted and unique.
    In(Box<[Box<str>]>),
    /// `!=` and `notin`: the label does not exist, or has none of the values.
    NotIn(Box<[Box<str>]>),
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
        self.0.iter().all(|term| term.matches(labels.get(&term.key)))
    }
}

impl Term {
    fn matches(&self, value: Option<&str>) -> bool {
        let is_one_of = |values: &[Box<str>]| value.is_some_and(|value| values.iter().any(|one| **one == *value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => is_one_of(values),
            Test::NotIn(values) => !is_one_of(values),
            Test::Greater(bound) => number().is_some_and(|number| number > *bound),
            Test::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// The canonical form: equal selectors have the same text, however they were written.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Term { key, test }) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::Exists => f.write_str(key),
                Test::Absent => write!(f, "!{key}"),
                Test::In(values) => write!(f, "{key} in ({})", values.join(",")),
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
                Test::Greater(bound) => write!(f, "{key}>{bound}"),
                Test::Less(bound) => write!(f, "{key}<{bound}"),
            }?;
        }
        Ok(())
    }
}

impl FromStr for Selector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let mut terms = Parser { text, at: 0 }.terms()?;
        terms.sort();
        terms.dedup();
        Ok(Self(terms.into()))
    }
}

/// Parses a selector from left to right.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

/// The tokens of the syntax. `in` and `notin` are recognized by position only, because they are valid label keys too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// A word: a label key, a label value, `in` or `notin`.
    Word(&'a str),
    /// One of [`SIGNS`].
    Sign(&'a str),
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(text) | Self::Sign(text) => write!(f, "{text:?}"),
            Self::End => f.write_str("the end"),
        }
    }
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "<", ">", "(", ")", ","];

impl<'a> Parser<'a> {
    fn terms(&mut self) -> Result<Vec<Term>, InvalidSelector> {
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

    fn term(&mut self) -> Result<Term, InvalidSelector> {
        let absent = self.peek() == Token::Sign("!");
        if absent {
            self.take();
        }
        let key: Box<str> = match self.peek() {
            Token::Word(key) if is_label_key(key) => key.into(),
            Token::Word(key) => return Err(self.error(format!("{key:?} is no label key"))),
            found => return Err(self.unexpected(found, "a label key")),
        };
        self.take();
        let test = match self.peek() {
            Token::End | Token::Sign(",") if absent => Test::Absent,
            found if absent => return Err(self.unexpected(found, "',' or the end")),
            Token::End | Token::Sign(",") => Test::Exists,
            Token::Sign("=" | "==") => Test::In([self.operand()?].into()),
            Token::Sign("!=") => Test::NotIn([self.operand()?].into()),
            Token::Sign(">") => Test::Greater(self.number()?),
            Token::Sign("<") => Test::Less(self.number()?),
            Token::Word("in") => Test::In(self.set()?),
            Token::Word("notin") => Test::NotIn(self.set()?),
            found => return Err(self.unexpected(found, "an operator (=, ==, !=, in, notin, >, <)")),
        };
        Ok(Term { key, test })
    }

    /// The value after an operator; a missing value is the empty value.
    fn operand(&mut self) -> Result<Box<str>, InvalidSelector> {
        self.take();
        self.value(&[Token::End, Token::Sign(",")])
    }

    fn number(&mut self) -> Result<i64, InvalidSelector> {
        let value = self.operand()?;
        value.parse().map_err(|_| self.error(format!("{value:?} is no whole number")))
    }

    /// `(a,b)`, sorted; a missing value is the empty value.
    fn set(&mut self) -> Result<Box<[Box<str>]>, InvalidSelector> {
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
        values.sort();
        values.dedup();
        Ok(values.into())
    }

    /// A label value, or the empty value before one of these tokens.
    fn value(&mut self, before: &[Token<'_>]) -> Result<Box<str>, InvalidSelector> {
        match self.peek() {
            Token::Word(value) if is_label_value(value) => {
                self.take();
                Ok(value.into())
            }
            Token::Word(value) => Err(self.error(format!("{value:?} is no label value"))),
            token if before.contains(&token) => Ok(Box::default()),
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
fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && !name.is_empty() && is_label_value(name),
        None => !text.is_empty() && is_label_value(text),
    }
}

/// At most 63 characters: letters and digits, with `-`, `_` and `.` in between (`validation.IsValidLabelValue`).
fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// The labels of one object, parsed from its JSON; nothing else is kept.
#[derive(Debug, Default)]
pub struct Labels<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Labels<'a> {
    /// Parses the labels in an object's JSON; empty if the object has none, or if the JSON is invalid.
    pub fn of(json: &'a [u8]) -> Self {
        serde_json::from_slice::<Labelled<'a>>(json).ok().and_then(|object| object.metadata.labels).unwrap_or_default()
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, value)| &**value)
    }
}

#[derive(Deserialize)]
struct Labelled<'a> {
    #[serde(borrow)]
    metadata: LabelledMetadata<'a>,
}

#[derive(Deserialize)]
struct LabelledMetadata<'a> {
    #[serde(borrow, default)]
    labels: Option<Labels<'a>>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Labels<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Labels<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut labels = Vec::with_capacity(map.size_hint().unwrap_or_default());
                while let Some((Text(key), Text(value))) = map.next_entry()? {
                    labels.push((key, value));
                }
                Ok(Labels(labels))
            }
        }
        deserializer.deserialize_map(Entries)
    }
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
    }

    #[test]
    fn related_missing_or_malformed_labels_are_read_as_none() {
        for json in ["{}", r#"{"metadata":{}}"#, r#"{"metadata":{"labels":null}}"#, r#"{"metadata":{"labels":7}}"#, "x"]
        {
            assert!(Labels::of(json.as_bytes()).get("a").is_none(), "{json}");
        }
        let escaped = br#"{"metadata":{"labels":{"a":"\u0062"}}}"#;
        assert_eq!(Labels::of(escaped).get("a"), Some("b"));
    }
}
