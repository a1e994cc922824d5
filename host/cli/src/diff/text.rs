//! Formats the difference of an object: removes noise, masks Secrets, and compares YAML line by line.

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use similar::TextDiff;
use windlass_core::object::names::ANNOTATION_APPLIED;
use windlass_core::value::line::printable;

use super::super::secrets::mask_pair;
use super::super::yaml;
use super::preview::{Pair, Verb};

/// Fields of the metadata that the API server changes by itself.
const NOISE: [&str; 5] = ["managedFields", "resourceVersion", "generation", "creationTimestamp", "selfLink"];

/// The name of a side that does not exist, as `diff -N` prints it.
const NOTHING: &str = "/dev/null";

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// An object before and after a change, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// File name of the object.
    pub name: String,
    /// YAML of the live object; none if it does not exist.
    pub before: Option<String>,
    /// YAML of the object after the change; none if it is deleted.
    pub after: Option<String>,
}

impl Texts {
    /// The texts of a pair, without noise, and with masked Secrets unless `shows_secrets`. None if they are equal.
    pub fn of(pair: Pair, shows_secrets: bool, shows_status: bool) -> Option<Self> {
        let Pair { verb, id, mut before, mut after } = pair;
        let keeps_status = verb == Verb::Parent && shows_status;
        if let Some(before) = &mut before {
            // A recreated object has another UID, so the present one is shown.
            quieten(before, matches!(verb, Verb::Recreate | Verb::BlockedRecreation), keeps_status);
        }
        if let Some(after) = &mut after {
            quieten(after, false, keeps_status);
        }
        if before == after {
            return None;
        }
        if !shows_secrets {
            mask_pair(before.as_mut(), after.as_mut());
        }
        let yaml = |object: Option<Value>| object.as_ref().map(yaml::document);
        let parts =
            [&*id.kind.group, &*id.kind.version, &*id.kind.kind, id.key.namespace.as_deref().unwrap_or_default()];
        let parts = parts.into_iter().chain([&*id.key.name]).filter(|part| !part.is_empty());
        let name = parts.collect::<Vec<_>>().join(".");
        Some(Self { name, before: yaml(before), after: yaml(after) })
    }

    /// The unified diff, with colours.
    pub fn unified(&self) -> String {
        let side = |folder: &str, text: &Option<String>| match text {
            Some(_) => format!("{folder}/{}", self.name),
            None => NOTHING.to_owned(),
        };
        let (before, after) = (self.before.as_deref().unwrap_or_default(), self.after.as_deref().unwrap_or_default());
        let diff = TextDiff::from_lines(before, after);
        let (old, new) = (side("live", &self.before), side("desired", &self.after));
        let unified = diff.unified_diff().context_radius(CONTEXT).header(&old, &new).to_string();
        let styled = unified.lines().enumerate().map(|(at, line)| {
            let style = style_of(line, at < 2);
            format!("{style}{}{style:#}\n", printable(line))
        });
        styled.collect()
    }
}

/// The style of a line of a unified diff; the first two lines name the sides.
fn style_of(line: &str, is_header: bool) -> Style {
    let plain = Style::new();
    if is_header {
        return plain.bold();
    }
    match line.chars().next() {
        Some('+') => AnsiColor::Green.on_default(),
        Some('-') => AnsiColor::Red.on_default(),
        Some('@') => AnsiColor::Cyan.on_default(),
        _ => plain,
    }
}

/// Removes what no user asked for and no plugin decides.
fn quieten(object: &mut Value, keeps_uid: bool, keeps_status: bool) {
    let Some(fields) = object.as_object_mut() else { return };
    if !keeps_status {
        fields.remove("status");
    }
    let Some(meta) = fields.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in NOISE {
        meta.remove(field);
    }
    if !keeps_uid {
        meta.remove("uid");
    }
    if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION_APPLIED);
        if annotations.is_empty() {
            meta.remove("annotations");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;
    use serde_json::json;
    use windlass_core::object::child::ChildId;
    use windlass_core::value::ids::{Gvk, ObjectKey};

    use super::*;

    fn pair(verb: Verb, before: Option<Value>, after: Option<Value>) -> Pair {
        let kind = Arc::new(Gvk::from_api_version("apps/v1", "Deployment"));
        Pair { verb, id: ChildId { kind, key: ObjectKey::new(Some("shop"), "web") }, before, after }
    }

    fn object(version: &str, image: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "uid": "u", "resourceVersion": version, "generation": version.len(),
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [version],
                "annotations": {ANNOTATION_APPLIED: version},
            },
            "spec": {"image": image},
            "status": {"observed": version},
        })
    }

    /// The diff without colours.
    fn shown(pair: Pair) -> Option<String> {
        let texts = Texts::of(pair, false, false)?;
        Some(anstream::adapter::strip_str(&texts.unified()).to_string())
    }

    #[test]
    fn fields_that_the_api_server_changes_by_itself_are_no_difference() {
        assert_eq!(shown(pair(Verb::Update, Some(object("1", "a")), Some(object("22", "a")))), None);
    }

    #[test]
    fn change_is_shown_with_its_object_and_its_context() {
        expect![[r"
            --- live/apps.v1.Deployment.shop.web
            +++ desired/apps.v1.Deployment.shop.web
            @@ -3,4 +3,4 @@
             metadata:
               name: web
             spec:
            -  image: a
            +  image: b
        "]]
        .assert_eq(&shown(pair(Verb::Update, Some(object("1", "a")), Some(object("2", "b")))).unwrap_or_default());
    }

    #[test]
    fn created_and_deleted_objects_are_compared_with_nothing() {
        let created = shown(pair(Verb::Create, None, Some(object("1", "a")))).unwrap_or_default();
        assert!(
            created.starts_with("--- /dev/null\n+++ desired/apps.v1.Deployment.shop.web\n@@ -0,0 +1,6 @@\n+apiVersion"),
            "{created}"
        );
        let deleted = shown(pair(Verb::Delete, Some(object("1", "a")), None)).unwrap_or_default();
        assert!(deleted.contains("\n+++ /dev/null\n") && deleted.ends_with("-  image: a\n"), "{deleted}");
    }

    #[test]
    fn recreated_object_differs_by_its_uid_even_if_nothing_else_differs() {
        let mut after = object("1", "a");
        after["metadata"].as_object_mut().expect("metadata").remove("uid");
        let shown = shown(pair(Verb::Recreate, Some(object("1", "a")), Some(after))).unwrap_or_default();
        assert!(shown.contains("\n-  uid: u\n"), "{shown}");
    }

    #[test]
    fn status_is_shown_only_for_the_parent_and_on_request() {
        let of = |verb, shows_status| {
            let pair = pair(verb, Some(object("1", "a")), Some(object("2", "a")));
            Texts::of(pair, false, shows_status).is_some()
        };
        assert!(of(Verb::Parent, true) && !of(Verb::Parent, false) && !of(Verb::Update, true));
    }

    #[test]
    fn changed_secret_is_a_difference_that_shows_no_value() {
        let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": value}});
        let shown = shown(pair(Verb::Update, Some(secret("b2xk")), Some(secret("bmV3")))).unwrap_or_default();
        assert!(shown.contains("*** (before)") && shown.contains("*** (after)"), "{shown}");
        assert!(!shown.contains("b2xk") && !shown.contains("bmV3"), "{shown}");
        let open = Texts::of(pair(Verb::Update, Some(secret("b2xk")), Some(secret("bmV3"))), true, false);
        let open = open.map(|texts| texts.unified()).unwrap_or_default();
        assert!(open.contains("b2xk") && open.contains("bmV3"), "{open}");
    }

    #[test]
    fn values_cannot_control_the_terminal() {
        let odd = object("1", "a\u{1b}[2Jb\u{9b}c\u{202e}d");
        let shown = shown(pair(Verb::Create, None, Some(odd))).unwrap_or_default();
        assert!(shown.ends_with("+  image: \"a\\e[2Jb\\x9Bc\\u202ed\"\n"), "{shown:?}");
    }
}
