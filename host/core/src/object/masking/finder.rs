//! Finds the values of Secrets, and other texts to replace, in a text: all of them in one pass.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use aho_corasick::{AhoCorasick, MatchKind};

/// Length of the part of a text by which it is found, in bytes; the rest is compared afterwards.
const PATTERN_MAX: usize = 128;
/// The character that the host writes where it cuts a message.
const CUT: char = '…';
/// Minimum length of the part of a text that is replaced beside [`CUT`], in bytes.
const CUT_MIN: usize = 4;
/// Largest number of [`CUT`]s in a message after which ends of texts are looked for: each search reads all texts, and a plugin may write
/// as many as it likes. The host cuts a message a few times at most.
const CUTS_MAX: usize = 8;

/// Finds the texts to replace.
pub(super) struct Finder {
    automaton: AhoCorasick,
    /// For each pattern, the texts that begin with it, and their replacements. Long values may have the same beginning.
    texts: Vec<Vec<(String, String)>>,
}

impl Finder {
    /// A finder of these texts, each with its replacement.
    pub fn new(texts: &BTreeMap<String, String>) -> Option<Self> {
        let mut by_beginning = BTreeMap::<&str, Vec<_>>::new();
        for (text, masked) in texts {
            by_beginning.entry(beginning(text)).or_default().push((text.clone(), masked.clone()));
        }
        // The longest of those that begin at the same place: another one may be its beginning.
        let automaton =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(by_beginning.keys()).ok()?;
        Some(Self { automaton, texts: by_beginning.into_values().collect() })
    }

    /// Replaces the texts in another text; with `cut`, also the beginning of one of these texts before `…`. `part` is the part of a
    /// replacement that stands for a beginning of this length.
    pub fn replace_all(&self, text: &str, cut: Option<&BTreeMap<String, String>>, part: Part) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut rest = text;
        loop {
            let found = self.automaton.find(rest);
            let next = found.map_or(rest.len()..rest.len(), |found| found.range());
            if let Some((cut, replacement)) = cut.and_then(|texts| first_cut(texts, rest, &next, part)) {
                masked.push_str(rest.get(..cut.start).unwrap_or_default());
                masked.push_str(replacement);
                rest = rest.get(cut.end..).unwrap_or_default();
                continue;
            }
            let Some(found) = found else { break };
            let (before, after) = rest.split_at(found.start());
            masked.push_str(before);
            let texts = self.texts.get(found.pattern().as_usize()).map(Vec::as_slice).unwrap_or_default();
            let matching = texts.iter().map(|(text, masked)| (common(text, after), text, masked));
            match matching.max_by_key(|(length, ..)| *length) {
                Some((length, text, replacement)) => {
                    let is_whole = length == text.len();
                    masked.push_str(part(replacement, if is_whole { replacement.len() } else { length }));
                    rest = after.get(length..).unwrap_or_default();
                }
                None => return "?".repeat(text.len()),
            }
        }
        masked.push_str(rest);
        masked
    }
}

/// The first place before `…` where a text has the beginning of one of these texts, and its replacement. The whole text at `next` comes
/// first, unless the beginning covers it.
fn first_cut<'a>(
    texts: &'a BTreeMap<String, String>,
    text: &str,
    next: &Range<usize>,
    part_of: Part,
) -> Option<(Range<usize>, &'a str)> {
    let mut ends = text.match_indices(CUT).map(|(end, _)| end).take_while(|end| *end < next.start + PATTERN_MAX);
    ends.find_map(|end| {
        // A longer beginning has a pattern, and is found by it.
        let from = text.floor_char_boundary(end.saturating_sub(PATTERN_MAX));
        let starts = text.get(from..end)?.char_indices().map(|(at, _)| from + at);
        let mut starts = starts
            .take_while(|start| start + CUT_MIN <= end)
            .filter(|start| *start < next.start || *start == next.start && end >= next.end);
        // The longest one.
        starts.find_map(|start| {
            let part = text.get(start..end)?;
            let (whole, masked) = texts.range::<str, _>((Bound::Included(part), Bound::Unbounded)).next()?;
            whole.starts_with(part).then(|| (start..end, part_of(masked, part.len())))
        })
    })
}

/// Replaces the end of one of these texts after each `…`, where the host has cut its beginning, and any part of it between two of them. What
/// follows [`CUTS_MAX`] of them is hidden.
pub(super) fn without_ends(text: &str, texts: &BTreeMap<String, String>, part: Part) -> String {
    let mut pieces = text.splitn(CUTS_MAX + 1, CUT).peekable();
    let mut masked = pieces.next().unwrap_or_default().to_owned();
    while let Some(piece) = pieces.next() {
        masked.push(CUT);
        if piece.contains(CUT) {
            masked.push_str(&"?".repeat(piece.len()));
            break;
        }
        let (length, replacement) = longest_end(texts, piece, pieces.peek().is_some()).unwrap_or_default();
        masked.push_str(part(replacement, length));
        masked.push_str(piece.get(length..).unwrap_or_default());
    }
    masked
}

/// The length of the longest end of one of these texts with which a piece begins, and its replacement. A piece that is cut may be any part
/// of a text.
fn longest_end<'a>(texts: &'a BTreeMap<String, String>, piece: &str, is_cut: bool) -> Option<(usize, &'a str)> {
    if piece.len() < CUT_MIN {
        return None;
    }
    if let Some((_, masked)) = texts.iter().find(|(text, _)| is_cut && text.contains(piece)) {
        return Some((piece.len(), masked));
    }
    let ends = texts.iter().filter_map(|(text, masked)| {
        let least = text.ceil_char_boundary(text.len().saturating_sub(piece.len()));
        let mut ends = text.get(least..)?.char_indices().filter_map(|(start, _)| text.get(least + start..));
        let end = ends.find(|end| piece.starts_with(end)).filter(|end| end.len() >= CUT_MIN)?;
        Some((end.len(), &**masked))
    });
    ends.max_by_key(|(length, _)| *length)
}

/// The part of a text by which it is found.
pub(super) fn beginning(text: &str) -> &str {
    first(text, text.floor_char_boundary(PATTERN_MAX))
}

/// The part of a replacement that stands for a beginning of this length.
pub(super) type Part = for<'a> fn(&'a str, usize) -> &'a str;

/// The whole text.
pub(super) fn whole(text: &str, _: usize) -> &str {
    text
}

/// The first bytes of a text; the whole text if it has fewer, or other characters.
pub(super) fn first(text: &str, length: usize) -> &str {
    text.get(..length).unwrap_or(text)
}

/// The last bytes of a text; the whole text if it has fewer, or other characters.
pub(super) fn last(text: &str, length: usize) -> &str {
    text.len().checked_sub(length).and_then(|start| text.get(start..)).unwrap_or(text)
}

/// Length of the common beginning of two texts, in bytes.
fn common(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(char, _)| char.len_utf8()).sum()
}
