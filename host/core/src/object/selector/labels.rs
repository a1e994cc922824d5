//! The labels of one object: read from its JSON, or kept beside it.

use std::borrow::Cow;
use std::sync::Arc;

/// Maximum size of labels that are kept beside an object, in bytes. Labels that are larger are read from the object each time.
const KEPT_MAX: usize = 4096;

/// The labels of one object, sorted by key.
#[derive(Debug, Default, Hash)]
pub struct Labels<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Labels<'a> {
    /// Labels in any order. Of two labels with the same key, the first one counts.
    pub(crate) fn sorted(mut labels: Vec<(Cow<'a, str>, Cow<'a, str>)>) -> Self {
        labels.sort_by(|(one, _), (other, _)| one.cmp(other));
        labels.dedup_by(|(later, _), (first, _)| later == first);
        Self(labels)
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(own, _)| (**own).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| &**value)
    }

    /// For each label, the term of a selector that requires its value (see [`Selector::required_term`](super::Selector::required_term)).
    pub fn terms(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(key, value)| format!("{key} in ({value})"))
    }

    /// The labels as they are kept; `None` if they are too large, or contain a NUL, which no label of Kubernetes does.
    pub(crate) fn kept(&self) -> Option<KeptLabels> {
        let size: usize = self.0.iter().map(|(key, value)| key.len() + value.len() + 2).sum();
        let texts = || self.0.iter().flat_map(|(key, value)| [&**key, &**value]);
        if size > KEPT_MAX || texts().any(|text| text.contains('\0')) {
            return None;
        }
        let mut kept = String::with_capacity(size);
        texts().for_each(|text| kept.extend([text, "\0"]));
        Some(KeptLabels(kept.into()))
    }
}

/// Labels in a single allocation, which objects with equal labels can share: keys, sorted, and values in turn, each terminated by NUL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptLabels(pub Arc<str>);

impl KeptLabels {
    /// The labels.
    pub fn labels(&self) -> Labels<'_> {
        let mut parts = self.0.split('\0');
        let pairs = std::iter::from_fn(|| Some((parts.next()?.into(), parts.next()?.into())));
        Labels(pairs.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use crate::value::ids::Gvk;

    #[test]
    fn related_missing_or_malformed_labels_are_read_as_none() {
        for json in ["{}", r#"{"metadata":{}}"#, r#"{"metadata":{"labels":null}}"#, r#"{"metadata":{"labels":7}}"#, "x"]
        {
            assert!(Labels::of(json.as_bytes()).get("a").is_none(), "{json}");
        }
        let escaped = br#"{"metadata":{"labels":{"a":"\u0062"}}}"#;
        assert_eq!(Labels::of(escaped).get("a"), Some("b"));
    }

    #[test]
    fn related_first_of_two_labels_with_one_key_counts_whether_labels_are_kept_or_read_again() {
        let kind = Arc::new(Gvk { group: "".into(), version: "v1".into(), kind: "ConfigMap".into() });
        for key in ["a", "windlass.dev/a"] {
            let labels = format!(r#"{{"{key}":"first","b":"2","{key}":"last"}}"#);
            let text = format!(r#"{{"metadata":{{"name":"x","uid":"u","resourceVersion":"1","labels":{labels}}}}}"#);
            let object = Object::from_api(&kind, &text).expect("an object");
            let kept = object.labels.as_ref().expect("kept labels");
            assert_eq!(kept.labels().get(key), Some("first"));
            assert_eq!(Labels::of(&object.json.bytes()).get(key), Some("first"));
        }
    }

    #[test]
    fn related_kept_labels_are_those_of_the_object() {
        for text in
            [r#"{"tier":"web","app":"x","empty":""}"#, r#"{"a":"1","b":"2","a":"3"}"#, r#"{"b":"\u0061"}"#, "{}"]
        {
            let json = format!(r#"{{"metadata":{{"labels":{text}}}}}"#);
            let labels = Labels::of(json.as_bytes());
            let kept = labels.kept().expect("small");
            for key in ["tier", "app", "empty", "a", "b", ""] {
                assert_eq!(kept.labels().get(key), labels.get(key), "{text} {key}");
            }
        }
        let many: Vec<_> = (0..KEPT_MAX).map(|n| (Cow::from(n.to_string()), Cow::from("x"))).collect();
        assert_eq!(Labels::sorted(many).kept(), None);
        assert_eq!(Labels::sorted(vec![("a".into(), "b\0c".into())]).kept(), None);
    }
}
