//! Finds the kind that a user means by a name that only discovery knows, such as a short name.

use anyhow::bail;
use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Client;
use windlass_engine::command::cluster::ClusterArgs;

/// The kind with this name, as TYPE.GROUP; none if no kind has the name, or the cluster cannot be asked: with `--debug-addr`, the command
/// needs none.
///
/// # Errors
/// If several kinds have the name.
pub async fn find(cluster: &ClusterArgs, wanted: &str) -> anyhow::Result<Option<String>> {
    match cluster.client().await {
        Ok(client) => find_with(&client, wanted).await,
        Err(_) => Ok(None),
    }
}

async fn find_with(client: &Client, wanted: &str) -> anyhow::Result<Option<String>> {
    let groups = client.list_api_groups().await.map(|list| list.groups).unwrap_or_default();
    let preferred = groups.iter().filter_map(|group| {
        let version = group.preferred_version.as_ref().or_else(|| group.versions.first())?;
        Some((group.name.as_str(), version.group_version.as_str()))
    });
    // A group whose server is not available has no kinds now.
    let of_groups = join_all(preferred.map(async |(group, version)| {
        let list = client.list_api_group_resources(version).await.map(|list| list.resources).unwrap_or_default();
        list.into_iter().map(|resource| (group, resource)).collect::<Vec<_>>()
    }));
    let core = client.list_core_api_resources("v1").await.map(|list| list.resources).unwrap_or_default();
    let all = core.into_iter().map(|resource| ("", resource)).chain(of_groups.await.into_iter().flatten());
    let mut found: Vec<_> = all
        .filter(|(group, resource)| is_named(resource, group, wanted))
        .map(|(group, resource)| if group.is_empty() { resource.name } else { format!("{}.{group}", resource.name) })
        .collect();
    found.sort();
    found.dedup();
    if found.len() > 1 {
        bail!("{wanted} is the name of several kinds: {}; use one of these names", found.join(", "));
    }
    Ok(found.pop())
}

/// Whether a kind has this name: its plural, singular, a short name or the kind itself, also with the group after a dot.
fn is_named(resource: &APIResource, group: &str, wanted: &str) -> bool {
    // A subresource.
    if resource.name.contains('/') {
        return false;
    }
    let names = [&resource.name, &resource.singular_name, &resource.kind];
    names.into_iter().chain(resource.short_names.iter().flatten()).filter(|name| !name.is_empty()).any(|name| {
        name.eq_ignore_ascii_case(wanted) || !group.is_empty() && format!("{name}.{group}").eq_ignore_ascii_case(wanted)
    })
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// An API server with two custom kinds that share a short name, and a group that is not available.
    fn client() -> Client {
        let group = |name: &str| {
            let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
            json!({"name": name, "versions": [version], "preferredVersion": version})
        };
        let list = |resources: Value| json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": resources});
        let kind = |plural: &str, kind: &str, short: &[&str]| {
            json!({"name": plural, "singularName": kind.to_lowercase(), "kind": kind, "namespaced": true, "verbs": ["get"],
                "shortNames": short})
        };
        let respond = move |path: &str| match path {
            "/apis" => {
                Some(json!({"kind": "APIGroupList", "groups": [group("a.dev"), group("b.dev"), group("away.dev")]}))
            }
            "/api/v1" => {
                Some(list(json!([kind("services", "Service", &["svc"]), kind("services/status", "Service", &[])])))
            }
            "/apis/a.dev/v1" => Some(list(json!([kind("rabbits", "Rabbit", &["rmq"]), kind("maps", "Map", &["m"])]))),
            "/apis/b.dev/v1" => Some(list(json!([kind("mice", "Mouse", &["m"])]))),
            _ => None,
        };
        let service = tower::service_fn(move |request: Request<Body>| {
            let found = respond(request.uri().path());
            let status = if found.is_some() { 200 } else { 503 };
            let body = found.unwrap_or_default().to_string().into_bytes();
            let response = Response::builder().status(status).body(Body::from(body));
            async { response.map_err(|error| kube::Error::Service(Box::new(error))) }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn kind_is_found_by_each_of_its_names() {
        for (name, found) in [
            ("rmq", Some("rabbits.a.dev")),
            ("RMQ", Some("rabbits.a.dev")),
            ("rmq.a.dev", Some("rabbits.a.dev")),
            ("rabbit", Some("rabbits.a.dev")),
            ("rabbits.a.dev", Some("rabbits.a.dev")),
            ("rabbits.b.dev", None),
            ("m.b.dev", Some("mice.b.dev")),
            ("svc", Some("services")),
            ("other", None),
        ] {
            assert_eq!(find_with(&client(), name).await.expect(name).as_deref(), found, "{name}");
        }
        let error = find_with(&client(), "m").await.expect_err("two kinds").to_string();
        assert!(error.contains("several kinds: maps.a.dev, mice.b.dev"), "{error}");
    }
}
