//! Escapes text of others, so that it can neither add lines nor control the terminal on which it is shown.
//!
//! Text of others is everything that the host did not write itself: names and messages of components, registries, recordings, the
//! API server and its webhooks. Three kinds of characters are escaped:
//!
//! - control characters (C0, DEL, C1): a terminal obeys them, and newlines would forge lines of the host's log (in a text of one line,
//!   line breaks and tabs become spaces);
//! - line and paragraph separators, which some viewers show as newlines;
//! - characters that are not seen: those that change the direction of the text after them, so that it is read in another order than
//!   it has, and those without a glyph, so that two different texts look the same: all that Unicode calls default-ignorable. The
//!   selectors of variants of a glyph are among them: a text can be read without them.
//!
//! The joiners U+200C and U+200D are not escaped: several scripts and emoji need them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character is escaped: see the module.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Makes one line of a text: replaces line breaks and tabs by spaces, and escapes what else is not printed. A guest must not be able to
/// write lines of its own, such as forged audit lines, into the host's log. Each character is replaced by itself: masking finds a part of
/// a text by the part's own line.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let is_break = |c: char| matches!(c, '\n' | '\r' | '\t');
    escape(text, is_unprintable, |c, out| if is_break(c) { out.push(' ') } else { out.extend(c.escape_default()) })
}

/// Escapes a text whose newlines are the host's own: everything that [`one_line`] escapes, except newlines and tabs.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_unprintable(c) && !matches!(c, '\n' | '\t'), |c, out| out.extend(c.escape_default()))
}

/// Escapes a JSON document, whose value stays the same: such characters can only be in its strings, where `\uXXXX` stands for each.
pub fn json(document: &str) -> Cow<'_, str> {
    escape(document, |c| is_unprintable(c) && c != '\n', in_json)
}

/// Appends `\uXXXX`, twice for a character beyond the first 65536.
pub(crate) fn in_json(c: char, out: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a String cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

/// A text in which some characters are replaced by what `replace` appends for them.
pub(crate) fn escape(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    replace: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            replace(c, &mut out);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_cannot_forge_a_log_line_of_the_host() {
        assert_eq!(one_line("plain, and wörds"), "plain, and wörds");
        assert_eq!(
            one_line("bad\n2026 INFO windlass::audit: write\x1b[0m"),
            r"bad 2026 INFO windlass::audit: write\u{1b}[0m"
        );
    }

    #[test]
    fn characters_that_are_not_seen_are_escaped_and_those_that_scripts_need_are_not() {
        let controls = "\0\u{7}\u{1b}\u{7f}\u{85}\u{9b}\u{61c}\u{200e}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";
        let ignorable = "\u{ad}\u{34f}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180b}\u{180d}\u{180e}\u{180f}\u{200b}\u{2060}\u{3164}\u{feff}\u{ffa0}";
        let selectors = "\u{fe00}\u{fe0f}\u{e0041}\u{e0100}\u{e01ef}";
        for unseen in [controls, ignorable, selectors].concat().chars() {
            let text = format!("a{unseen}b");
            assert_eq!(one_line(&text), format!("a{}b", unseen.escape_default()));
            assert_eq!(printable(&text), format!("a{}b", unseen.escape_default()));
        }
        for seen in ["naïve", "العربية", "עברית", "می\u{200c}خواهم", "👩\u{200d}🚀", "日本語", "→ … ✓"]
        {
            assert_eq!((&*one_line(seen), &*printable(seen)), (seen, seen));
        }
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({"a\u{202e}": ["\u{9b}2J\n\u{7f}", "\u{e0041}", "plain"]});
        let text = serde_json::to_string_pretty(&value).expect("JSON");
        let escaped = json(&text);
        assert!(!escaped.contains(|c| is_unprintable(c) && c != '\n'), "{escaped:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).expect("JSON"), value);
    }

    #[test]
    fn lines_of_a_printable_text_stay() {
        assert_eq!(printable("a\n\tb\x1b[2J"), "a\n\tb\\u{1b}[2J");
    }
}
