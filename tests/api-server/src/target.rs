//! What a request is about: its path and its query.

use std::collections::BTreeMap;

/// The collection or object that a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// API group; empty for the core group.
    pub group: String,
    /// Version of the group.
    pub version: String,
    /// Plural name of the kind; empty for the discovery of the group's version.
    pub plural: String,
    /// The namespace; empty for all namespaces, or for a cluster-scoped kind.
    pub namespace: String,
    /// The object's name; empty for a collection.
    pub name: String,
    /// As in `status`; empty for the object itself.
    pub subresource: String,
}

impl Target {
    /// Parses a path below `/api/v1` or `/apis/GROUP/VERSION`. None for other paths.
    pub fn of(path: &str) -> Option<Self> {
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() && rest.first() != Some(&"status") => {
                (*namespace, rest)
            }
            rest => ("", rest),
        };
        let at = |index: usize| rest.get(index).map(|part| (*part).to_owned()).unwrap_or_default();
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: at(0),
            namespace: namespace.to_owned(),
            name: at(1),
            subresource: at(2),
        })
    }

    /// The resource as messages and discovery name it, such as `deployments.apps`.
    pub fn resource(&self) -> String {
        resource(&self.plural, &self.group)
    }
}

/// A plural name with its group.
pub fn resource(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// The parameters of a query.
#[derive(Debug, Default)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    /// Parses a query; what is no parameter is left out.
    pub fn of(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect())
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether a parameter is `true` or `1`.
    pub fn is(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }

    /// The number that a parameter has.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

/// Decodes `%20` and `+`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                bytes.extend(u8::from_str_radix(&digits, 16).ok());
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_a_collection_an_object_or_a_subresource() {
        for (path, expected) in [
            ("/api/v1", ["", "v1", "", "", "", ""]),
            ("/api/v1/namespaces/shop", ["", "v1", "namespaces", "", "shop", ""]),
            ("/api/v1/namespaces/shop/status", ["", "v1", "namespaces", "", "shop", "status"]),
            ("/api/v1/namespaces/shop/configmaps", ["", "v1", "configmaps", "shop", "", ""]),
            (
                "/apis/apps/v1/namespaces/shop/deployments/web/status",
                ["apps", "v1", "deployments", "shop", "web", "status"],
            ),
            ("/apis/windlass.dev/v1alpha1/plugins/echo", ["windlass.dev", "v1alpha1", "plugins", "", "echo", ""]),
        ] {
            let found = Target::of(path).expect("a target");
            let Target { group, version, plural, namespace, name, subresource } = found;
            assert_eq!([&*group, &*version, &*plural, &*namespace, &*name, &*subresource], expected, "{path}");
        }
        assert_eq!(Target::of("/version"), None);
    }

    #[test]
    fn query_is_decoded() {
        let query = Query::of(Some("watch=true&labelSelector=windlass.dev%2Fplugin%3Decho&limit=5&"));
        assert!(query.is("watch") && !query.is("limit"));
        assert_eq!((query.get("labelSelector"), query.number("limit")), (Some("windlass.dev/plugin=echo"), Some(5)));
    }
}
