//! Discovery: which groups, versions and kinds the model serves.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{ApiServer, Response, Served};

impl ApiServer {
    /// The response to a request of discovery; none if the path is of objects.
    pub(super) fn discover(&self, path: &str) -> Option<Response> {
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        Some(match parts.as_slice() {
            ["version"] => Response::ok(json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.0" })),
            ["api"] => {
                Response::ok(json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] }))
            }
            ["api", version] => self.kinds_of("", version),
            ["apis"] => {
                let groups: Vec<_> =
                    self.groups().into_iter().map(|(group, version)| group_of(group, version)).collect();
                Response::ok(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
            }
            ["apis", group] => match self.groups().get(group) {
                Some(version) => Response::ok(group_of(group, version)),
                None => Response::not_served(),
            },
            ["apis", group, version] => self.kinds_of(group, version),
            _ => return None,
        })
    }

    fn groups(&self) -> BTreeMap<&str, &str> {
        self.kinds.iter().filter(|kind| !kind.group.is_empty()).map(|kind| (&*kind.group, &*kind.version)).collect()
    }

    fn kinds_of(&self, group: &str, version: &str) -> Response {
        let is_of = |kind: &&Served| kind.group == group && kind.version == version;
        let resources: Vec<_> = self.kinds.iter().filter(is_of).flat_map(Served::discovered).collect();
        if resources.is_empty() {
            return Response::not_served();
        }
        let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Response::ok(
            json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources }),
        )
    }
}

fn group_of(group: &str, version: &str) -> Value {
    let version = json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    json!({ "kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": [version], "preferredVersion": version })
}
