//! Generates texts that match a regular expression.

use regex_syntax::Parser;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Largest number of repetitions beyond the least number, where the pattern has no bound.
const MORE: u32 = 6;

/// A text that probably matches the pattern; `None` if the pattern cannot be parsed. Anchors and word boundaries are
/// ignored, so that the caller checks the text.
pub fn text(pattern: &str, rng: &mut fastrand::Rng) -> Option<String> {
    let parsed = Parser::new().parse(pattern).ok()?;
    let mut text = Vec::new();
    write(&parsed, rng, &mut text);
    String::from_utf8(text).ok()
}

fn write(part: &Hir, rng: &mut fastrand::Rng, text: &mut Vec<u8>) {
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.extend_from_slice(&literal.0),
        HirKind::Class(class) => text.extend_from_slice(&member(class, rng)),
        HirKind::Capture(capture) => write(&capture.sub, rng, text),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX).min(repetition.min.saturating_add(MORE));
            for _ in 0..rng.u32(repetition.min..=most.max(repetition.min)) {
                write(&repetition.sub, rng, text);
            }
        }
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, rng, text)),
        HirKind::Alternation(parts) => {
            if let Some(part) = rng.choice(parts) {
                write(part, rng, text);
            }
        }
    }
}

/// A member of a class: a printable ASCII character if there is one, because those are what users write.
fn member(class: &Class, rng: &mut fastrand::Rng) -> Vec<u8> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => {
            class.ranges().iter().map(|range| (u32::from(range.start()), u32::from(range.end()))).collect()
        }
        Class::Bytes(class) => {
            class.ranges().iter().map(|range| (u32::from(range.start()), u32::from(range.end()))).collect()
        }
    };
    let printable = ranges.iter().map(|(first, last)| ((*first).max(0x20), (*last).min(0x7e)));
    let printable: Vec<_> = printable.filter(|(first, last)| first <= last).collect();
    let ranges = if printable.is_empty() || rng.u8(..) < 8 { ranges } else { printable };
    let Some((first, last)) = rng.choice(&ranges) else { return Vec::new() };
    // The range of a class of characters has no surrogates at its ends, but may have them inside.
    let chosen = char::from_u32(rng.u32(*first..=*last)).or_else(|| char::from_u32(*first));
    chosen.map(|chosen| chosen.to_string().into_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn texts_match_the_patterns_of_kubernetes() {
        let mut rng = fastrand::Rng::with_seed(1);
        for pattern in [
            r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
            r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$",
            r"^\S+$",
            r"^[-._a-zA-Z][-._a-zA-Z0-9]*$",
            r"^/",
            "^.{3,5}$",
        ] {
            let regex = Regex::new(pattern).expect("a pattern");
            for _ in 0..50 {
                let text = text(pattern, &mut rng).expect("a text");
                assert!(regex.is_match(&text), "{pattern}: {text:?}");
            }
        }
        assert_eq!(text("(", &mut rng), None);
    }
}
