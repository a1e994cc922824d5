//! What an Echo's life shows: created, scaled, changed, deleted.

use windlass_e2e::{condition, shared, text};

#[test]
fn three_pods_appear_with_owner_and_labels_and_the_status_says_so() {
    let ns = shared().env.namespace("create");
    ns.echo("web", 3, "nginx:1");
    let echo = ns.wait_settled("web");
    assert_eq!(ns.pod_names(), ["web-0", "web-1", "web-2"]);
    let uid = text(&echo, "/metadata/uid");
    for pod in ns.pods() {
        let owners = pod["metadata"]["ownerReferences"].as_array().expect("owners");
        assert_eq!(owners.len(), 1, "{pod:#}");
        assert_eq!(text(&owners[0], "/uid"), uid);
        assert_eq!((text(&owners[0], "/kind"), text(&owners[0], "/name")), ("Echo".to_owned(), "web".to_owned()));
        assert_eq!((&owners[0]["controller"], &owners[0]["blockOwnerDeletion"]), (&true.into(), &true.into()));
        let labels = &pod["metadata"]["labels"];
        assert_eq!(
            (&labels["windlass.dev/plugin"], &labels["windlass.dev/parent-uid"]),
            (&"echo".into(), &uid.clone().into())
        );
        assert_eq!((&labels["app"], &labels["owner"]), (&"web".into(), &uid.clone().into()));
        assert_eq!(pod["spec"]["containers"][0]["image"], "nginx:1");
    }
    assert_eq!(condition(&echo, "Ready").observed_generation, Some(1));
}
