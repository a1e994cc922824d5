//! What a plugin is granted decides which children it may return.

use super::*;
use crate::contract::desired;

#[test]
fn child_of_a_cluster_scoped_parent_must_name_its_namespace() {
    let mut parent = parent_ref();
    parent.key.namespace = None;
    let grants = grants_with(&UpdateStrategy::Apply);
    let check = |child: Value| desired::validate(&response(&[child]), &parent, &grants, &Limits::default());
    let placed = check(with(|pod| pod["metadata"]["namespace"] = json!("n"))).expect("valid");
    assert_eq!(placed.children[0].key.to_string(), "n/a");
    assert!(check(pod("a")).expect_err("no namespace").to_string().contains("must set one"));
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}});
    assert_eq!(check(volume).expect("valid").children[0].key.to_string(), "a");
}

/// A plugin that owns Secrets, and a parent that is namespaced or cluster-scoped.
fn secret_for(
    namespace: Option<&str>,
    change: impl Fn(&mut Grant),
    child: &Value,
) -> Result<Desired, ResponseRejection> {
    let mut grant = Grant {
        kind: Arc::new(Gvk::from_api_version("v1", "Secret")),
        namespaced: true,
        update: UpdateStrategy::Apply,
        namespaces: None,
        tokens: false,
        presence: Presence::Required,
    };
    change(&mut grant);
    let parent = ParentRef { key: ObjectKey::new(namespace, "hello"), ..parent_ref() };
    let grants = Grants::new(HostNamespace::new("windlass-system"), [grant]);
    desired::validate(&response(std::slice::from_ref(child)), &parent, &grants, &Limits::default())
}

fn secret(namespace: Option<&str>, kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": "a", "namespace": namespace}})
}

#[test]
fn no_child_is_placed_in_the_hosts_namespace_whatever_is_granted() {
    let named = |grant: &mut Grant| grant.namespaces = Some(["windlass-system".into(), "shop".into()].into());
    for (parent, namespace) in [
        (None, Some("windlass-system")),
        (Some("windlass-system"), Some("windlass-system")),
        (Some("windlass-system"), None),
    ] {
        let refusal = secret_for(parent, named, &secret(namespace, "Opaque")).expect_err("refused").to_string();
        assert!(refusal.contains("namespace windlass-system, which is the host's own"), "{refusal}");
    }
    assert!(secret_for(None, named, &secret(Some("shop"), "Opaque")).is_ok());
}

#[test]
fn cluster_scoped_parent_has_children_in_a_system_namespace_only_if_the_plugin_grants_it() {
    let any = |_: &mut Grant| {};
    for namespace in SYSTEM_NAMESPACES {
        let refusal = secret_for(None, any, &secret(Some(namespace), "Opaque")).expect_err("refused").to_string();
        assert!(refusal.contains("spec.grants.children") && refusal.contains(namespace), "{refusal}");
        let named = |grant: &mut Grant| grant.namespaces = Some([namespace.into()].into());
        assert!(secret_for(None, named, &secret(Some(namespace), "Opaque")).is_ok());
        assert!(
            secret_for(None, named, &secret(Some("shop"), "Opaque")).is_err(),
            "only the granted namespaces are permitted"
        );
        assert!(
            secret_for(Some(namespace), any, &secret(None, "Opaque")).is_ok(),
            "a namespaced parent may have children in its own namespace"
        );
    }
}

#[test]
fn service_account_token_secret_is_rejected_unless_the_plugin_grants_it() {
    for parent in [None, Some("shop")] {
        for secret_type in ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"] {
            let token = secret(Some("shop"), secret_type);
            let refusal = secret_for(parent, |_| {}, &token).expect_err("refused").to_string();
            assert!(refusal.contains("serviceAccountTokens: true") && refusal.contains(secret_type), "{refusal}");
            assert!(secret_for(parent, |grant| grant.tokens = true, &token).is_ok());
        }
        assert!(secret_for(parent, |_| {}, &secret(Some("shop"), "kubernetes.io/tls")).is_ok());
    }
}

#[test]
fn s02_child_of_a_cluster_scoped_parent_is_marked_and_plugins_cannot_set_the_mark() {
    let key = MarkKey::new([7; MarkKey::LENGTH]);
    let grant = Grant {
        kind: Arc::new(Gvk::from_api_version("v1", "Pod")),
        namespaced: true,
        update: UpdateStrategy::Apply,
        namespaces: None,
        tokens: false,
        presence: Presence::Required,
    };
    let grants = Grants::new(HostNamespace::new("windlass-system"), [grant]);
    let parent = ParentRef { key: ObjectKey::new(None, "hello"), mark_key: Some(key.clone()), ..parent_ref() };
    let marked = |change: fn(&mut Value)| {
        let mut child = pod("a");
        child["metadata"]["namespace"] = json!("shop");
        change(&mut child["metadata"]["annotations"]);
        desired::validate(&response(&[child]), &parent, &grants, &Limits::default())
    };
    let kind = Gvk::from_api_version("v1", "Pod").group_kind();
    let place = ObjectKey::new(Some("shop"), "a");
    for (retain, owner) in [(false, OwnerKey::Uid(parent.uid.clone())), (true, parent.retained_key())] {
        let change = if retain {
            |annotations: &mut Value| annotations["windlass.dev/retain"] = json!("true")
        } else {
            |_: &mut Value| {}
        };
        let desired = marked(change).expect("valid");
        let mark = key.mark("echo", &owner, &kind, &place);
        let body = text(&desired.children[0]);
        assert!(body.contains(&format!(r#""windlass.dev/mark":"{mark}""#)), "retained: {retain}, {body}");
    }
    let forged = marked(|annotations| annotations["windlass.dev/mark"] = json!("1:00")).expect_err("refused");
    assert!(forged.to_string().contains("windlass.dev/mark"), "{forged}");
    let unmarked = validate(&[pod("a")]).expect("valid");
    assert!(
        !text(&unmarked.children[0]).contains("windlass.dev/mark"),
        "the child of a namespaced parent needs no mark"
    );
}

/// Grants of one namespaced kind.
pub(super) fn grants_of(api_version: &str, kind: &str) -> Grants {
    let kind = Arc::new(Gvk::from_api_version(api_version, kind));
    let grant = Grant {
        kind,
        namespaced: true,
        update: UpdateStrategy::Apply,
        namespaces: None,
        tokens: false,
        presence: Presence::Required,
    };
    Grants::new(HostNamespace::default(), [grant])
}

#[test]
fn grants_are_held_by_a_plugin_that_grants_no_less() {
    let grant = |namespaces: Option<&[&str]>, tokens| ChildGrant {
        kind: Gvk::from_api_version("v1", "Secret"),
        namespaces: namespaces.map(|names| names.iter().map(|name| Arc::from(*name)).collect()),
        tokens,
    };
    let before = |namespaces, tokens| {
        let ChildGrant { kind, namespaces, tokens } = grant(namespaces, tokens);
        let update = UpdateStrategy::Apply;
        Grants::new(
            HostNamespace::default(),
            [Grant {
                kind: Arc::new(kind),
                namespaced: true,
                update,
                namespaces,
                tokens,
                presence: Presence::Required,
            }],
        )
    };
    let held = |before: &Grants, now: Option<ChildGrant>| {
        let children = Some(now.into_iter().collect());
        before.are_held_by(&SpecGrants { children, ..SpecGrants::default() })
    };
    let all = before(None, false);
    assert!(all.are_held_by(&SpecGrants::default()), "every kind that the component declares");
    assert!(held(&all, Some(grant(None, true))));
    assert!(!held(&all, None), "no Secrets");
    assert!(!held(&all, Some(grant(Some(&["a"]), false))), "one namespace only");
    assert!(!held(&before(None, true), Some(grant(None, false))), "no tokens");
    let two = before(Some(&["a", "b"]), false);
    assert!(held(&two, Some(grant(Some(&["b", "c", "a"]), false))));
    assert!(held(&two, Some(grant(None, false))));
    assert!(!held(&two, Some(grant(Some(&["a"]), false))));
    assert!(
        !held(&before(Some(&["kube-system"]), false), Some(grant(None, false))),
        "a namespace of the control plane"
    );
}

#[test]
fn namespaces_of_the_control_plane_are_closed_unless_a_grant_names_them_and_the_hosts_always() {
    let grants = |namespaces: Option<&[&str]>| {
        let namespaces = namespaces.map(|names| names.iter().map(|name| Arc::from(*name)).collect());
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let grant = Grant {
            kind,
            namespaced: true,
            update: UpdateStrategy::Apply,
            namespaces,
            tokens: false,
            presence: Presence::Required,
        };
        Grants::new(HostNamespace::new("windlass-system"), [grant]).closed_namespaces().join(" ")
    };
    assert_eq!(grants(None), "windlass-system kube-system kube-public kube-node-lease");
    assert_eq!(grants(Some(&["a", "kube-system"])), "windlass-system kube-public kube-node-lease");
}

#[test]
fn r24_child_of_an_absent_optional_kind_is_left_out_and_its_grant_decides_like_that_of_a_served_one() {
    let kind = Arc::new(Gvk::from_api_version("monitoring.example/v1", "Monitor"));
    let grants = |presence, namespaced| {
        let update = UpdateStrategy::Apply;
        let optional = Grant { kind: kind.clone(), namespaced, update, namespaces: None, tokens: false, presence };
        let others = grants_with(&UpdateStrategy::Apply);
        Grants::new(HostNamespace::default(), others.iter().cloned().chain([optional]))
    };
    let monitor = json!({"apiVersion": "monitoring.example/v1", "kind": "Monitor", "metadata": {"name": "web"}});
    let of = |presence| {
        let response = response(&[monitor.clone(), pod("a"), monitor.clone()]);
        desired::validate(&response, &parent_ref(), &grants(presence, true), &Limits::default())
    };
    let left_out = of(Presence::Absent).expect("valid");
    assert_eq!((left_out.children.len(), &*left_out.absent), (1, &[kind.clone()][..]), "each kind is named once");
    assert!(of(Presence::Served).is_err_and(|error| error.to_string().contains("twice")));

    let [absent, served] = [grants(Presence::Absent, false), grants(Presence::Served, true)];
    let parts = |grants: &Grants| {
        let mut parts = Vec::new();
        grants.for_each_part(|part| parts.push(part.to_owned()));
        parts
    };
    assert_eq!(parts(&absent), parts(&served), "whether the kind is served is no change of the plugin");
    assert_ne!(parts(&served), parts(&grants(Presence::Required, true)));
    let present = |grants: &Grants| grants.optional_kinds().cloned().collect::<Vec<_>>();
    assert_eq!((present(&absent), present(&served)), (Vec::new(), vec![kind.clone()]));
}
