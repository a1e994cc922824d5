//! What a plugin says of itself → whether it can be. Behind this its names may stand in paths, conditions and log lines.

use crate::contract::{Descriptor, Parent};
use crate::ids::{Gvk, is_dns_label, is_dns_subdomain};

/// Kinds that a plugin may own, and may read: each costs questions to the API server and a watch.
const KINDS_MAX: usize = 100;
/// Longest version, in bytes.
const VERSION_MAX: usize = 128;
/// Longest label selector, in bytes: it is part of a URL.
const SELECTOR_MAX: usize = 1024;
/// What a message shows of a name that is none.
const SHOWN: usize = 100;

/// Checks what a plugin says of itself, as far as that needs no cluster.
///
/// # Errors
/// What cannot be, in words for the component's author.
pub fn check(descriptor: &Descriptor) -> Result<(), String> {
    let Descriptor { version, parent, children, related, .. } = descriptor;
    if version.len() > VERSION_MAX || version.contains(char::is_control) {
        return Err(format!("the version {} is longer than {VERSION_MAX} bytes or not plain text", shown(version)));
    }
    for (what, count) in [("child", children.len()), ("related", related.len())] {
        if count > KINDS_MAX {
            return Err(format!("{count} {what} kinds, more than the limit of {KINDS_MAX}"));
        }
    }
    let parent = match parent {
        // Its definition is judged by who installs it.
        Parent::Custom(_) => None,
        Parent::Existing { selector: Some(selector), .. } if selector.len() > SELECTOR_MAX => {
            return Err(format!("the selector {} is longer than {SELECTOR_MAX} bytes", shown(selector)));
        }
        Parent::Existing { kind, .. } => Some(kind),
    };
    let mut kinds = parent.into_iter().chain(children.iter().map(|rule| &rule.kind)).chain(related);
    match kinds.find(|kind| !is_kind(kind)) {
        Some(kind) => Err(format!("{} names no kind of Kubernetes", shown(&kind.to_string()))),
        None => Ok(()),
    }
}

/// Whether a kind can be one: group, version and name as the API server takes them in a definition.
fn is_kind(kind: &Gvk) -> bool {
    (kind.group.is_empty() || is_dns_subdomain(&kind.group))
        && is_dns_label(&kind.version)
        && is_dns_label(&kind.kind.to_ascii_lowercase())
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(SHOWN).collect::<String>())
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{ChildRule, UpdateStrategy};

    fn descriptor() -> Descriptor {
        Descriptor {
            name: String::new(),
            version: "1.0.0+build".to_owned(),
            description: String::new(),
            parent: Parent::Existing { kind: Gvk::from_api_version("v1", "Namespace"), selector: None },
            children: Vec::new(),
            related: vec![Gvk::from_api_version("apps/v1", "Deployment")],
            finalizes: false,
            resync: None,
            config_schema: None,
            metrics: Vec::new(),
        }
    }

    fn child(api_version: &str, kind: &str) -> ChildRule {
        ChildRule { kind: Gvk::from_api_version(api_version, kind), update: UpdateStrategy::Apply }
    }

    fn refused(change: impl FnOnce(&mut Descriptor)) -> String {
        let mut descriptor = descriptor();
        change(&mut descriptor);
        check(&descriptor).expect_err("refused")
    }

    #[test]
    fn what_the_api_server_could_serve_is_a_kind() {
        let children = vec![child("v1", "Pod"), child("my-operator.dev/v1alpha1", "Odd-Kind2")];
        assert_eq!(check(&Descriptor { children, ..descriptor() }), Ok(()));
    }

    #[test]
    fn names_that_would_lead_elsewhere_in_a_path_or_a_log_are_refused() {
        for (api_version, kind) in [
            ("../../api/v1", "Pod"),
            ("apps/v1/namespaces/a/secrets", "Pod"),
            ("apps/v1?watch=1", "Pod"),
            ("apps/", "Pod"),
            ("", "Pod"),
            ("/v1", "Pod/status"),
            ("v1", ""),
            ("v1", "Pod\n2026-01-01T00:00:00Z INFO"),
            ("v1", &"K".repeat(64)),
        ] {
            let message = refused(|descriptor| descriptor.children.push(child(api_version, kind)));
            assert!(message.contains("names no kind") && !message.contains('\n'), "{message}");
        }
        let related = refused(|descriptor| descriptor.related.push(Gvk::from_api_version("v1", "..")));
        assert_eq!(related, r#""...v1" names no kind of Kubernetes"#);
        let parent = Parent::Existing { kind: Gvk::from_api_version("v1", "a b"), selector: None };
        assert_eq!(refused(|descriptor| descriptor.parent = parent), r#""a b.v1" names no kind of Kubernetes"#);
    }

    #[test]
    fn what_a_condition_could_not_hold_is_refused_and_shown_in_part() {
        let many = refused(|descriptor| descriptor.children = vec![child("v1", "Pod"); 100_000]);
        assert_eq!(many, "100000 child kinds, more than the limit of 100");
        for text in ["1.0\n".to_owned(), "9".repeat(1_000_000)] {
            let message = refused(|descriptor| descriptor.version = text);
            assert!(message.contains("the version") && message.len() < 200, "{message}");
        }
        let selector = Some("a".repeat(1_000_000));
        let kind = Gvk::from_api_version("v1", "Namespace");
        let message = refused(|descriptor| descriptor.parent = Parent::Existing { kind, selector });
        assert!(message.contains("the selector") && message.len() < 200, "{message}");
    }
}
