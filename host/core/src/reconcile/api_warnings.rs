//! What the API server warns about, in `Warning` headers. There it tells what it accepts and yet advises against
//! ([KEP-1693](https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/1693-warnings)): a Pod that its namespace's
//! Pod security standard would refuse, a deprecated version, what an admission webhook or policy warns about.

use std::iter::Peekable;
use std::str::Chars;

use crate::object::child::ChildId;

/// The code of the API server's warnings; others are those of proxies, about their caches.
const MISCELLANEOUS: &str = "299";

/// Maximum number of texts of one reconcile. Further ones are dropped.
const TEXTS: usize = 5;

/// The warnings about children of one reconcile: each text once, with the children that it is about.
#[derive(Debug, Default)]
pub struct ApiWarnings(Vec<(Box<str>, Vec<ChildId>)>);

impl ApiWarnings {
    /// Adds a text about a child.
    pub fn add(&mut self, child: &ChildId, text: Box<str>) {
        if let Some((_, children)) = self.0.iter_mut().find(|(known, _)| *known == text) {
            children.push(child.clone());
        } else if self.0.len() < TEXTS {
            self.0.push((text, vec![child.clone()]));
        }
    }

    /// The texts with their children, sorted by text, because writes end in any order.
    pub fn sorted(&self) -> Vec<(&str, &[ChildId])> {
        let mut all: Vec<_> = self.0.iter().map(|(text, children)| (&**text, &**children)).collect();
        all.sort_unstable_by_key(|(text, _)| *text);
        all
    }
}

/// The texts of a header's warnings: `299 - "text"`, separated by commas (RFC 7234, 5.5). What follows an error is ignored.
pub fn parse(header: &str) -> Vec<Box<str>> {
    let (mut rest, mut texts) = (header.chars().peekable(), Vec::new());
    while let Some((code, text)) = warning(&mut rest) {
        if code == MISCELLANEOUS {
            texts.push(text.into());
        }
        // An HTTP date may follow the text.
        if rest.by_ref().find(|c| *c == ',' || *c == '"') == Some('"') {
            rest.by_ref().find(|c| *c == '"');
            rest.by_ref().find(|c| *c == ',');
        }
    }
    texts
}

/// The next warning's code and text.
fn warning(rest: &mut Peekable<Chars<'_>>) -> Option<(String, String)> {
    let mut word = || {
        while rest.next_if(char::is_ascii_whitespace).is_some() {}
        std::iter::from_fn(|| rest.next_if(|c| !matches!(c, ' ' | '"' | ','))).collect::<String>()
    };
    let (code, agent) = (word(), word());
    let is_quoted = !agent.is_empty() && rest.next() == Some(' ') && rest.next() == Some('"');
    is_quoted.then(|| quoted(rest)).flatten().map(|text| (code, text))
}

/// The rest of a quoted string; none if it does not end.
fn quoted(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut text = String::new();
    loop {
        match rest.next()? {
            '"' => return Some(text),
            '\\' => text.push(rest.next()?),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r20_texts_of_the_api_servers_warnings_are_parsed() {
        for (header, texts) in [
            (r#"299 - "a""#, &["a"][..]),
            (r#"299 - "would violate \"restricted\", by a \\""#, &[r#"would violate "restricted", by a \"#]),
            (r#"299 - "a", 299 proxy:1 "b, c""#, &["a", "b, c"]),
            (r#"299 - "a" "Wed, 21 Oct 2015 07:28:00 GMT", 299 - "b""#, &["a", "b"]),
            (r#"110 cache "Response is Stale", 299 - "a""#, &["a"]),
            (r#"299 - "a", 299 - "cut"#, &["a"]),
            ("299", &[]),
            (r#"299 "a""#, &[]),
            ("", &[]),
        ] {
            assert_eq!(parse(header).iter().map(|text| &**text).collect::<Vec<_>>(), texts, "{header}");
        }
    }
}
