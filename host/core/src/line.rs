//! Makes one line of foreign text, for a log or a condition's message.

use std::borrow::Cow;

/// Replaces line breaks and tabs by spaces, and escapes other control characters, so that text from a guest stays on one
/// line: a guest must not be able to write lines of its own, such as forged audit lines, into the host's log. Each
/// character is replaced by itself: masking finds a part of a text by the part's own line.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let plain = |c: char| match c {
        '\n' | '\r' | '\t' => " ".to_owned(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    Cow::Owned(text.chars().map(plain).collect())
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
}
