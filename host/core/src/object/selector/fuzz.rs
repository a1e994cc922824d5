//! Fuzzes selectors with arbitrary text, from the corpus and mutated: the spelling makes no difference, and a selector
//! fits into a URL.

use windlass_fuzz::Target;

use super::*;

const OBJECTS: [&str; 4] = [
    r#"{"metadata":{"labels":{"tier":"web","n":"7","empty":"","in":"in","app.kubernetes.io/name":"shop"}}}"#,
    r#"{"metadata":{"labels":{"tier":"db","n":"-9223372036854775808","a":"b"}}}"#,
    r#"{"metadata":{"labels":null}}"#,
    r#"{"metadata":{"labels":{"tier":"\u0077eb","tier":"db"}}}"#,
];

#[test]
fn fuzz_selectors() {
    Target::new("selectors", 30_000).attack(0.2, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return false };
        let selector = match text.parse::<Selector>() {
            Ok(selector) => selector,
            Err(error) => {
                assert!(error.at <= text.chars().count() + 1 && !error.to_string().contains(char::is_control));
                return false;
            }
        };
        let canonical = selector.to_string();
        let again: Selector = canonical.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((&again, again.to_string()), (&selector, canonical.clone()));
        assert!(canonical.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{canonical}");
        // An additional term selects a subset.
        let separator = if canonical.is_empty() { "" } else { "," };
        let narrower: Selector = format!("{canonical}{separator}tier").parse().expect("a selector");
        for labels in OBJECTS.map(|object| Labels::of(object.as_bytes())) {
            let is_selected = selector.matches(&labels) && labels.get("tier").is_some();
            assert_eq!(narrower.matches(&labels), is_selected, "{canonical}");
        }
        true
    });
}
