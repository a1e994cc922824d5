//! Names and identities as distinct types, so that they cannot be confused.

use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The text is not the name of a plugin; the message is for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "plugin name {0:?} is not valid: lower-case letters, digits and '-', starting and ending with a letter or digit, at most 50 \
     characters"
)]
pub struct InvalidName(String);

/// Maximum length of a plugin name: it becomes part of labels and finalizers, which are limited to 63 characters.
pub const PLUGIN_NAME_MAX: usize = 50;

/// The name of a `Plugin` resource: a DNS label (RFC 1123) of at most [`PLUGIN_NAME_MAX`] characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub struct PluginName(Arc<str>);

impl PluginName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for PluginName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for PluginName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.len() <= PLUGIN_NAME_MAX && is_dns_label(text) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidName(text.to_owned()))
        }
    }
}

/// Group, version and kind of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, derive_more::Display)]
#[display("{kind}.{version}{}{group}", if group.is_empty() { "" } else { "." })]
#[serde(from = "TypeMeta", into = "TypeMeta")]
pub struct Gvk {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// API version inside the group, for example `v1`.
    pub version: Arc<str>,
    /// Kind, in CamelCase.
    pub kind: Arc<str>,
}

/// The API groups of kube-apiserver and its aggregator whose names have a dot. Others under `k8s.io` are of custom kinds.
const BUILT_IN_GROUPS: [&str; 19] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "imagepolicy.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

impl Gvk {
    /// Creates a kind from an object's `apiVersion` and `kind`.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Whether the deletion of an object of this kind also deletes data that the object does not show.
    pub fn holds_data(&self) -> bool {
        matches!(
            (&*self.group, &*self.kind),
            ("", "Namespace" | "PersistentVolume" | "PersistentVolumeClaim")
                | ("apiextensions.k8s.io", "CustomResourceDefinition")
                | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    }

    /// Whether the API server has the kind without a CustomResourceDefinition.
    pub fn is_built_in(&self) -> bool {
        !self.group.contains('.') || BUILT_IN_GROUPS.contains(&&*self.group)
    }

    /// Returns true if this is the kind with this `apiVersion` and `kind`.
    pub fn is(&self, api_version: &str, kind: &str) -> bool {
        *self.kind == *kind
            && api_version.split_once('/').unwrap_or(("", api_version)) == (&*self.group, &*self.version)
    }

    /// `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Group and kind without the version; identifies a kind across its versions.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

/// A kind in JSON, as an object names its own.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    api_version: String,
    kind: String,
}

impl From<TypeMeta> for Gvk {
    fn from(of: TypeMeta) -> Self {
        Self::from_api_version(&of.api_version, &of.kind)
    }
}

impl From<Gvk> for TypeMeta {
    fn from(kind: Gvk) -> Self {
        Self { api_version: kind.api_version(), kind: kind.kind.to_string() }
    }
}

impl FromStr for Gvk {
    type Err = NotAKind;

    /// Parses the output of `Display`.
    fn from_str(text: &str) -> Result<Self, NotAKind> {
        let mut parts = text.splitn(3, '.');
        let (Some(kind), Some(version)) = (parts.next(), parts.next()) else { return Err(NotAKind(text.to_owned())) };
        Ok(Self { group: parts.next().unwrap_or_default().into(), version: version.into(), kind: kind.into() })
    }
}

/// The text does not have the form `Kind.version.group`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a kind and version, as in \"Deployment.v1.apps\"")]
pub struct NotAKind(String);

/// A kind in any version.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Kind, in CamelCase.
    pub kind: Arc<str>,
}

/// An object's namespace (`None` if cluster-scoped) and name, within one kind. The names of the fields are external: recordings have them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, derive_more::Display)]
#[display("{}{}{name}", namespace.as_deref().unwrap_or_default(), if namespace.is_some() { "/" } else { "" })]
pub struct ObjectKey {
    /// Namespace; `None` for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Creates a key from borrowed text.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self { namespace: namespace.map(Into::into), name: name.into() }
    }
}

/// The UID of an object; a later object of the same name has another UID.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug, derive_more::Display)]
#[debug("{self}")]
pub struct Uid(UidText);

/// The text of a UID. The API server uses UUIDs; 16 inline bytes take a third of the text's memory.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
enum UidText {
    #[display("{}", Uuid::from_bytes_ref(_0).hyphenated())]
    Uuid([u8; 16]),
    /// Any text that is not a UUID in canonical form.
    Other(Arc<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let uuid = Uuid::try_parse(text).ok().filter(|uuid| {
            let mut buffer = Uuid::encode_buffer();
            *uuid.hyphenated().encode_lower(&mut buffer) == *text
        });
        Self(match uuid {
            Some(uuid) => UidText::Uuid(uuid.into_bytes()),
            None => UidText::Other(text.into()),
        })
    }
}

/// Returns true if some kind accepts this name, and the name is one segment of a URL's path (RFC 3986, without percent
/// encoding) and one word in a log. RBAC kinds accept more names (`apimachinery`'s `ValidatePathSegmentName`), for example
/// with spaces; the host does not.
pub fn is_object_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && !matches!(text, "." | "..")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte))
}

/// Returns true for a DNS label that Kubernetes accepts as a name (RFC 1123: at most 63 characters).
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_label_of_any_length(text)
}

/// Returns true for a DNS subdomain that Kubernetes accepts for most names (RFC 1123: labels joined by dots, at most
/// 253 characters in total; as in `apimachinery`'s validation, the single labels are not limited to 63 characters).
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_of_any_length)
}

fn is_label_of_any_length(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| edge(*byte))
        && bytes.last().is_some_and(|byte| edge(*byte))
        && bytes.iter().all(|byte| edge(*byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_name_is_a_dns_label_of_at_most_fifty_characters() {
        assert!("echo".parse::<PluginName>().is_ok());
        assert!("a".repeat(50).parse::<PluginName>().is_ok());
        for bad in ["", "Echo", "-echo", "echo-", "e.cho", "é", &"a".repeat(51)] {
            let error = bad.parse::<PluginName>().expect_err(bad).to_string();
            assert!(error.contains("at most 50 characters"), "{error}");
        }
    }

    #[test]
    fn a_kind_of_the_core_group_has_a_bare_api_version() {
        let pod = Gvk::from_api_version("v1", "Pod");
        assert_eq!((&*pod.group, pod.api_version().as_str(), pod.to_string().as_str()), ("", "v1", "Pod.v1"));
        let deployment = Gvk::from_api_version("apps/v1", "Deployment");
        assert_eq!((&*deployment.group, deployment.api_version().as_str()), ("apps", "apps/v1"));
        assert_eq!(deployment.to_string(), "Deployment.v1.apps");
        let network = Gvk::from_api_version("networking.k8s.io/v1", "NetworkPolicy");
        for kind in [pod, deployment, network] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("Pod".parse::<Gvk>().is_err());
    }

    #[test]
    fn uid_is_printed_exactly_as_it_was_read() {
        for text in [
            "7f2d9a10-4f2e-4a21-9d11-0123456789ab",
            "7F2D9A10-4f2e-4a21-9d11-0123456789ab",
            "7f2d9a104f2e4a219d110123456789ab",
            "{7f2d9a10-4f2e-4a21-9d11-0123456789ab}",
            "uid-of-parent",
            "",
        ] {
            assert_eq!(Uid::from(text).to_string(), text);
        }
        assert_ne!(
            Uid::from("7F2D9A10-4f2e-4a21-9d11-0123456789ab"),
            Uid::from("7f2d9a10-4f2e-4a21-9d11-0123456789ab")
        );
    }

    #[test]
    fn names_are_checked_as_the_api_server_does() {
        assert!(is_dns_subdomain("a.b-c.d0"));
        for bad in ["", ".", "a..b", "a.", "A", "a_b", &"a".repeat(254)] {
            assert!(!is_dns_subdomain(bad), "{bad}");
        }
        assert!(is_dns_label(&"a".repeat(63)) && !is_dns_label(&"a".repeat(64)));
    }
}
