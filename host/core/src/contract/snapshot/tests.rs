use serde_json::json;

use super::*;
use crate::contract::desired::Grant;
use crate::contract::grant::{Presence, Withheld};
use crate::contract::reserved::HostNamespace;
use crate::contract::{ChildOptions, Keep, Until, UpdateStrategy};
use crate::fixtures::{PARENT_UID, object, snapshot};
use crate::value::packed::Packer;

fn secret(name: &str, value: &str) -> Arc<Object> {
    object(&json!({"apiVersion": "v1", "kind": "Secret", "data": {"key": value}, "metadata": {
        "name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}}))
}

#[test]
fn s02_the_largest_children_are_left_out_until_the_request_fits() {
    let map = |name: &str, bytes: usize| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name, "namespace": "default", "uid": name, "resourceVersion": "7",
                "ownerReferences": [{"apiVersion": "my-operator.dev/v1", "kind": "Echo", "name": "hello",
                    "uid": PARENT_UID, "controller": true}],
                "labels": {"windlass.dev/plugin": "echo", "windlass.dev/parent-uid": PARENT_UID},
            },
            "data": {"value": "x".repeat(bytes)},
        })
    };
    let names =
        |children: &[Arc<Object>]| -> Vec<String> { children.iter().map(|child| child.key.name.to_string()).collect() };
    let all = snapshot(&[map("a", 10), map("b", 5000), map("c", 9000), map("d", 5000)]);
    let fitted = |limit: u64| {
        let mut snapshot = all.clone();
        snapshot.fit(limit);
        snapshot
    };
    let whole = fitted(all.size());
    assert_eq!((names(&whole.children), whole.left_out.len()), (names(&all.children), 0));
    assert_eq!(names(&fitted(all.size() - 1).left_out), ["c"]);
    let two = fitted(all.size() - 9500);
    assert_eq!(
        (names(&two.children), names(&two.left_out)),
        (vec!["a".into(), "d".into()], vec!["b".into(), "c".into()])
    );
    assert!(two.size() <= all.size() - 9500);
    assert!(fitted(0).children.is_empty(), "the parent alone is too large");
    let mut again = fitted(0);
    again.fit(all.size());
    assert_eq!((names(&again.children), again.left_out.len()), (names(&all.children), 0));
    let component = Digest::of(b"component");
    let without = snapshot(&[map("a", 10), map("d", 5000)]);
    assert_ne!(
        two.hash(&component, Phase::Sync),
        without.hash(&component, Phase::Sync),
        "a left-out child is part of the hash"
    );
}

fn with(related: Vec<Served>) -> Snapshot {
    Snapshot { related, ..snapshot(&[]) }
}

fn hash(related: Vec<Served>) -> Digest {
    with(related).hash(&Digest::of(b"component"), Phase::Sync)
}

#[test]
fn request_size_is_known_before_objects_are_unpacked() {
    let mut packer = Packer::default();
    let mut secret_of = |index: usize| {
        let secret = secret(&format!("s-{index}"), &"value".repeat(100));
        Arc::new(Object { json: packer.pack(secret.json.clone()), ..Object::clone(&secret) })
    };
    let objects: Vec<_> = (0..50).map(&mut secret_of).collect();
    let snapshot = with(vec![Served::new("a".into(), objects.clone()), Served::new("b".into(), objects)]);
    let request = snapshot.request(Phase::Sync);
    let related = request.related.iter().flat_map(|related| &related.objects);
    let passed = related.map(|observed| observed.object.len()).sum::<usize>() + request.parent.object.len();
    assert_eq!(snapshot.size(), passed as u64);
    assert!(passed > 2 * 50 * 500);
}

#[test]
fn related_objects_are_passed_in_the_order_of_requirements_and_of_their_names() {
    let request = with(vec![
        Served::new("z".into(), vec![secret("b", "1"), secret("a", "2")]),
        Served::new("a".into(), Vec::new()),
    ])
    .request(Phase::Sync);
    let shown: Vec<_> = request
        .related
        .iter()
        .map(|related| (related.id.as_str(), related.objects.iter().map(|object| &*object.name).collect::<Vec<_>>()))
        .collect();
    assert_eq!(shown, [("z", vec!["a", "b"]), ("a", vec![])]);
}

#[test]
fn call_hash_depends_on_component_config_grants_and_phase() {
    let [pod, job] = ["Pod", "Job"].map(|kind| Gvk::from_api_version("v1", kind));
    let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
    let components = [
        call_inputs("0.1.0", &one, None, &[&pod]),
        call_inputs("0.2.0", &one, None, &[&pod]),
        call_inputs("0.1.0", &two, None, &[&pod]),
        call_inputs("0.1.0", &one, Some(b"{}"), &[&pod]),
        call_inputs("0.1.0", &one, None, &[&pod, &job]),
    ];
    let calls = components
        .iter()
        .flat_map(|component| [Phase::Sync, Phase::Finalize].map(|phase| with(vec![]).hash(component, phase)));
    assert_eq!(calls.collect::<HashSet<_>>().len(), 2 * components.len());
}

#[test]
fn r14_plugin_is_called_again_once_the_parents_namespace_is_known_to_terminate() {
    let known = Snapshot { namespace_terminating: true, ..snapshot(&[]) };
    let hash = |snapshot: &Snapshot| snapshot.hash(&Digest::of(b"component"), Phase::Finalize);
    assert_ne!(hash(&known), hash(&snapshot(&[])));
    assert!(known.request(Phase::Finalize).namespace_terminating);
}

#[test]
fn rules_hash_is_the_same_in_every_release() {
    let kind = Arc::new(Gvk::from_api_version("v1", "Secret"));
    let conditions = Arc::new(["Ready".to_owned()]);
    let grant = |update, namespaces| Grant {
        kind: kind.clone(),
        namespaced: true,
        update,
        namespaces,
        tokens: false,
        presence: Presence::Required,
    };
    let rolling = UpdateStrategy::Rolling { recreate: true, until: Until::Conditions(conditions) };
    let of = |grant: Grant| {
        let grants = Grants::new(HostNamespace::new("windlass-system"), [grant]);
        let withheld = vec![(Gvk::from_api_version("v1", "Node"), Withheld::OutOfScope)];
        let shape = StatusShape { subresource: true, observed_generation: true, conditions: false };
        rules(&grants.with_withheld(withheld), &Limits::default(), shape, ReadyMeans::Applied).short()
    };
    expect_test::expect!["2bc2d8e1e0a0"].assert_eq(&of(grant(rolling, Some(Box::new(["a".into()])))));
    expect_test::expect!["8efc8f57bafd"].assert_eq(&of(grant(UpdateStrategy::Apply, None)));
    expect_test::expect!["395249b8d7dd"].assert_eq(&of(grant(UpdateStrategy::Apply, Some(Box::new([])))));
}

#[test]
fn response_hash_depends_on_response_snapshot_phase_and_rules() {
    let rules = |children| {
        rules(
            &Grants::default(),
            &Limits { children, ..Limits::default() },
            StatusShape { subresource: true, observed_generation: true, conditions: true },
            ReadyMeans::Applied,
        )
    };
    let response = |children: &[&str], status: Option<&str>, requeue| Response {
        children: children.iter().map(|child| child.as_bytes().to_vec()).collect(),
        status: status.map(|status| status.as_bytes().to_vec()),
        requeue,
        ..Response::default()
    };
    let with_options = |options| Response { options: Some([options].into()), ..response(&["a"], None, None) };
    let plain = snapshot(&[]);
    let with_child = Snapshot { children: vec![secret("a", "1")], ..plain.clone() };
    let hashes = [
        plain.hash_response(&rules(1), Phase::Sync, &response(&[], None, None)),
        plain.hash_response(&rules(2), Phase::Sync, &response(&[], None, None)),
        plain.hash_response(&rules(1), Phase::Finalize, &response(&[], None, None)),
        with_child.hash_response(&rules(1), Phase::Sync, &response(&[], None, None)),
        plain.hash_response(&rules(1), Phase::Sync, &response(&["a"], None, None)),
        plain.hash_response(&rules(1), Phase::Sync, &response(&["a", ""], None, None)),
        plain.hash_response(&rules(1), Phase::Sync, &response(&["a", "end"], None, None)),
        plain.hash_response(&rules(1), Phase::Sync, &with_options(ChildOptions::default())),
        plain.hash_response(&rules(1), Phase::Sync, &Response { keep: Keep::All, ..Response::default() }),
        plain.hash_response(&rules(1), Phase::Sync, &Response { waiting: Some("a".into()), ..Response::default() }),
        plain.hash_response(
            &rules(1),
            Phase::Sync,
            &with_options(ChildOptions { stage: 1, ..ChildOptions::default() }),
        ),
        plain.hash_response(
            &rules(1),
            Phase::Sync,
            &with_options(ChildOptions { update: Some(UpdateStrategy::Recreate), ..ChildOptions::default() }),
        ),
        plain.hash_response(&rules(1), Phase::Sync, &response(&[], Some(""), None)),
        plain.hash_response(&rules(1), Phase::Sync, &response(&[], Some("{}"), None)),
        plain.hash_response(&rules(1), Phase::Sync, &response(&[], None, Some(0))),
        plain.hash_response(&rules(1), Phase::Sync, &Response { finalized: true, ..Response::default() }),
    ];
    assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
    let repeated = plain.hash_response(&rules(1), Phase::Sync, &response(&["a"], None, None));
    assert_eq!(repeated, hashes[4]);
}

#[test]
fn related_objects_change_the_call_hash_when_their_content_or_ids_differ() {
    let [a, b] = ["a", "b"].map(|name| secret(name, "1"));
    let served =
        |id: &str, objects: &[&Arc<Object>]| Served::new(id.into(), objects.iter().map(|o| (*o).clone()).collect());
    let hashes = [
        hash(vec![]),
        hash(vec![served("x", &[])]),
        hash(vec![served("y", &[])]),
        hash(vec![served("x", &[]), served("y", &[])]),
        hash(vec![served("x", &[&a])]),
        hash(vec![served("x", &[&a, &b])]),
        hash(vec![served("x", &[&a]), served("y", &[&b])]),
        hash(vec![served("x", &[]), served("y", &[&a, &b])]),
        hash(vec![served("x", &[&secret("a", "2")])]),
    ];
    for (at, one) in hashes.iter().enumerate() {
        assert!(hashes.iter().skip(at + 1).all(|other| other != one), "{at}");
    }
    assert_eq!(
        hash(vec![served("x", &[&b, &a])]),
        hash(vec![served("x", &[&a, &b])]),
        "the order in the cache does not matter"
    );
}

#[test]
fn r24_optional_kinds_are_an_input_of_a_call_and_of_what_follows_from_its_response() {
    let without = snapshot(&[]);
    let kinds = ["a.example/v1", "b.example/v1"].map(|version| Gvk::from_api_version(version, "Monitor"));
    let [one, two] = [&kinds[..1], &kinds[..]].map(|kinds| {
        let offer = Offer { kinds: kinds.into(), ..Offer::default() };
        Snapshot { offer: offer.into(), ..without.clone() }
    });
    let decides = Digest::of(b"inputs");
    let hashes = [&without, &one, &two].map(|of| of.hash(&decides, Phase::Sync));
    let responses = [&without, &one, &two].map(|of| of.hash_response(&decides, Phase::Sync, &Response::default()));
    for hashes in [hashes, responses] {
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2]);
    }
    assert_eq!(two.request(Phase::Sync).offer, two.offer);
}
