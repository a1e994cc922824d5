use serde_json::json;

use super::*;
use crate::contract::snapshot::{Served, Snapshot};
use crate::contract::{Namespaces, Phase};
use crate::fixtures::object;
use crate::object::reason::ParentReason;

fn kind(api_version: &str, kind: &str) -> Gvk {
    Gvk::from_api_version(api_version, kind)
}

fn grant(api_version: &str, name: &str, namespaced: bool, granted_in: Option<&[&str]>) -> ReadGrant {
    ReadGrant {
        kind: Arc::new(kind(api_version, name)),
        namespaced,
        namespaces: granted_in.map(|names| names.iter().map(|name| Arc::from(*name)).collect()),
        presence: Presence::Required,
    }
}

fn host() -> HostNamespace {
    HostNamespace::new("windlass-system")
}

fn grants() -> ReadGrants {
    ReadGrants::new(
        host(),
        [
            grant("v1", "Secret", true, Some(&["shared"])),
            grant("v1", "ConfigMap", true, None),
            grant("v1", "Node", false, None),
        ],
    )
}

fn requirement(id: &str, name: &str, namespace: Option<&str>, select: Selection) -> Requirement {
    let namespaces = namespace.map_or(Namespaces::OfParent, |name| Namespaces::Named(vec![name.to_owned()]));
    Requirement { id: id.to_owned(), kind: kind("v1", name), namespaces, select, metadata_only: false }
}

fn named(name: &str) -> Selection {
    Selection::Name(name.to_owned())
}

fn labelled(selector: &str) -> Selection {
    Selection::Labels(selector.to_owned())
}

fn namespaced_parent() -> ObjectKey {
    ObjectKey::new(Some("shop"), "web")
}

fn cluster_scoped_parent() -> ObjectKey {
    ObjectKey::new(None, "web")
}

fn resolve_for(parent: &ObjectKey, requirements: &[Requirement]) -> Result<Vec<Need>, Refusal> {
    grants().resolve(requirements, parent, 64)
}

fn placed(parent: &ObjectKey, name: &str, namespace: Option<&str>) -> Result<Option<Arc<str>>, Refusal> {
    resolve_for(parent, &[requirement("a", name, namespace, named("x"))])
        .map(|needs| needs[0].place.namespace().cloned())
}

/// The condition reason and message of the rejection.
#[track_caller]
fn refused(requirements: &[Requirement]) -> (ParentReason, String) {
    let problem = ReadProblem::from(resolve_for(&namespaced_parent(), requirements).expect_err("refused"));
    (problem.reason(), problem.to_string())
}

#[test]
fn related_requirement_without_namespace_uses_the_parents_namespace() {
    assert_eq!(placed(&namespaced_parent(), "Secret", None), Ok(Some("shop".into())));
    assert_eq!(placed(&namespaced_parent(), "Secret", Some("")), Ok(Some("shop".into())));
    assert_eq!(placed(&namespaced_parent(), "Secret", Some("shop")), Ok(Some("shop".into())));
    assert_eq!(placed(&namespaced_parent(), "Node", None), Ok(None));
    assert_eq!(placed(&cluster_scoped_parent(), "Node", None), Ok(None));
}

#[test]
fn related_another_namespace_must_be_granted_for_the_kind() {
    assert_eq!(placed(&namespaced_parent(), "Secret", Some("shared")), Ok(Some("shared".into())));
    for (parent, name, namespace) in [
        (namespaced_parent(), "Secret", "other"),
        (namespaced_parent(), "ConfigMap", "shared"),
        (cluster_scoped_parent(), "Secret", "other"),
    ] {
        let refusal = placed(&parent, name, Some(namespace)).expect_err("refused");
        let message = format!("in namespace {namespace}, which is not the parent's");
        assert!(refusal.to_string().contains(&message), "{refusal}");
        assert_eq!(ReadProblem::from(refusal).reason(), ParentReason::ReadForbidden);
    }
}

#[test]
fn related_objects_in_the_hosts_namespace_are_never_read_whatever_is_granted() {
    let grants = ReadGrants::new(host(), [grant("v1", "Secret", true, Some(&["windlass-system", "shared"]))]);
    let place = |parent: &ObjectKey, namespace: Option<&str>| {
        grants.resolve(&[requirement("a", "Secret", namespace, named("x"))], parent, 64)
    };
    let inside = ObjectKey::new(Some("windlass-system"), "web");
    for (parent, namespace) in
        [(namespaced_parent(), "windlass-system"), (cluster_scoped_parent(), "windlass-system"), (inside.clone(), "")]
    {
        let refusal = place(&parent, Some(namespace)).expect_err("refused");
        assert!(refusal.to_string().contains("which is the host's own"), "{refusal}");
        assert_eq!(ReadProblem::from(refusal).reason(), ParentReason::ReadForbidden);
    }
    let [need] = &place(&namespaced_parent(), Some("shared")).expect("granted")[..] else { panic!("one need") };
    let kept = Need { place: Place::In("windlass-system".into()), ..need.clone() };
    assert!(
        grants.permit(need, &namespaced_parent()) && !grants.permit(&kept, &namespaced_parent()),
        "a kept requirement for the host's namespace is not permitted"
    );
    assert!(place(&inside, None).is_err(), "a parent in the host's namespace reads nothing in it");
}

#[test]
fn related_namespaced_requirement_of_a_cluster_scoped_parent_must_name_a_namespace() {
    assert_eq!(placed(&cluster_scoped_parent(), "Secret", Some("shared")), Ok(Some("shared".into())));
    assert_eq!(placed(&cluster_scoped_parent(), "ConfigMap", Some("any")), Ok(Some("any".into())));
    let refusal = placed(&cluster_scoped_parent(), "ConfigMap", None).expect_err("refused");
    assert!(refusal.to_string().contains("names no namespace, and its parent is cluster-scoped"), "{refusal}");
}

#[test]
fn related_kind_without_grant_is_forbidden_and_an_invalid_requirement_is_rejected() {
    let cases = [
        (
            requirement("a", "Pod", None, named("x")),
            "ReadForbidden",
            "is of kind Pod.v1, which this plugin may not read",
        ),
        (requirement("", "Secret", None, named("x")), "ResponseRejected", "the id \"\" of requirement 0"),
        (
            requirement(&"x".repeat(64), "Secret", None, named("x")),
            "ResponseRejected",
            "is not 1 to 63 characters long",
        ),
        (requirement("a", "Node", Some("shop"), named("x")), "ResponseRejected", "but the kind is cluster-scoped"),
        (requirement("a", "Secret", Some("a/b"), named("x")), "ResponseRejected", "names namespace \"a/b\""),
        (
            requirement("a", "Secret", None, named("")),
            "ResponseRejected",
            "names \"\", which is not a valid object name",
        ),
        (requirement("a", "Secret", None, named("../x")), "ResponseRejected", "which is not a valid object name"),
        (requirement("a", "Secret", None, named("..")), "ResponseRejected", "which is not a valid object name"),
        (requirement("a", "Secret", None, labelled("a=b=c")), "ResponseRejected", "at character 4 of selector"),
        (
            requirement("a", "Secret", None, labelled(&"!a,".repeat(400))),
            "ResponseRejected",
            "1200 bytes, more than the limit",
        ),
    ];
    for (bad, reason, message) in cases {
        let (actual, text) = refused(std::slice::from_ref(&bad));
        assert_eq!(actual.as_str(), reason, "{text}");
        assert!(text.contains(message), "{text}");
    }
    let twice = [requirement("a", "Secret", None, named("x")), requirement("a", "Node", None, named("y"))];
    assert_eq!(refused(&twice).0, ParentReason::ResponseRejected);
    let many: Vec<_> = (0..65).map(|at| requirement(&at.to_string(), "Secret", None, named("x"))).collect();
    assert!(refused(&many).1.contains("65 requirements, more than the limit of 64"));
    assert!(resolve_for(&namespaced_parent(), &many[..64]).is_ok());
}

#[test]
fn related_requirement_accepts_object_names_of_every_kind() {
    for name in ["a.b-c", "system:node", "A_b"] {
        assert!(resolve_for(&namespaced_parent(), &[requirement("a", "Secret", None, named(name))]).is_ok(), "{name}");
    }
}

#[test]
fn related_kept_requirement_is_not_permitted_after_its_grant_is_removed() {
    let needs = resolve_for(
        &namespaced_parent(),
        &[
            requirement("own", "Secret", None, named("x")),
            requirement("shared", "Secret", Some("shared"), named("x")),
            requirement("node", "Node", None, labelled("")),
        ],
    )
    .expect("granted");
    let permitted =
        |grants: &ReadGrants| needs.iter().map(|need| grants.permit(need, &namespaced_parent())).collect::<Vec<_>>();
    assert_eq!(permitted(&grants()), [true, true, true]);
    assert_eq!(permitted(&ReadGrants::new(host(), [grant("v1", "Secret", true, None)])), [true, false, false]);
    assert_eq!(permitted(&ReadGrants::default()), [false, false, false]);
}

#[test]
fn related_requirement_selects_by_kind_namespace_and_name_or_labels() {
    let secret = |namespace: &str, name: &str| {
        object(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "namespace": namespace, "name": name, "uid": "u", "resourceVersion": "1", "labels": {"app": name}}}))
    };
    let needs = resolve_for(
        &namespaced_parent(),
        &[requirement("n", "Secret", None, named("db")), requirement("l", "Secret", None, labelled("app in (db,mq)"))],
    )
    .expect("granted");
    let found = |namespace: &str, name: &str| {
        let object = secret(namespace, name);
        needs.iter().map(|need| need.selects(&object)).collect::<Vec<_>>()
    };
    assert_eq!(found("shop", "db"), [true, true]);
    assert_eq!(found("shop", "mq"), [false, true]);
    assert_eq!(found("shared", "db"), [false, false]);
    let config_map = object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "namespace": "shop", "name": "db", "uid": "u", "resourceVersion": "1", "labels": {"app": "db"}}}));
    assert!(needs.iter().all(|need| !need.selects(&config_map)));
}

fn needs(names: &[&str]) -> Vec<Need> {
    let requirements: Vec<_> = names.iter().map(|name| requirement(name, "Secret", None, named(name))).collect();
    resolve_for(&namespaced_parent(), &requirements).expect("granted")
}

#[test]
fn related_steady_state_reconcile_takes_one_call() {
    for kept in [needs(&[]), needs(&["a", "b"])] {
        let mut rounds = Rounds::starting_with(kept.clone().into());
        assert_eq!(rounds.answered(kept, true), Next::Final);
    }
}

#[test]
fn related_response_is_final_when_its_requirements_equal_the_served_ones() {
    let mut rounds = Rounds::starting_with(Needs::default());
    assert_eq!(rounds.answered(needs(&["a"]), true), Next::Again);
    assert_eq!(**rounds.served(), needs(&["a"]), "the next call is served what this response requires");
    assert_eq!(rounds.answered(needs(&["a", "b"]), true), Next::Again);
    assert_eq!(rounds.answered(needs(&["a", "b"]), true), Next::Final);
    assert_eq!(**rounds.served(), needs(&["a", "b"]));
}

#[test]
fn related_response_with_fewer_requirements_than_served_is_not_final() {
    let mut rounds = Rounds::starting_with(needs(&["a", "b"]).into());
    assert_eq!(rounds.answered(needs(&["a"]), true), Next::Again);
    assert_eq!(rounds.answered(needs(&["a"]), true), Next::Final);
    let mut rounds = Rounds::starting_with(needs(&["a"]).into());
    assert_eq!(rounds.answered(needs(&[]), true), Next::Again);
    assert_eq!(rounds.answered(needs(&[]), true), Next::Final);
}

#[test]
fn related_order_of_requirements_does_not_matter() {
    let mut rounds = Rounds::starting_with(needs(&["a", "b", "c"]).into());
    assert_eq!(rounds.answered(needs(&["c", "a", "b"]), true), Next::Final);
    assert_eq!(**rounds.served(), needs(&["a", "b", "c"]), "the served requirements are kept");
    let other = Need { id: "a".into(), ..needs(&["b"]).remove(0) };
    let mut rounds = Rounds::starting_with(needs(&["a"]).into());
    assert_eq!(rounds.answered(vec![other], true), Next::Again, "the same id for another object");
}

#[test]
fn related_requirements_that_change_in_five_calls_are_unsettled() {
    let mut rounds = Rounds::starting_with(Needs::default());
    for call in 1..MAX_ROUNDS {
        assert_eq!(rounds.answered(needs(&[&format!("r{call}")]), true), Next::Again, "call {call}");
    }
    assert_eq!(rounds.answered(needs(&["r5"]), true), Next::Unsettled);
    assert_eq!(ReadProblem::Unsettled.reason(), ParentReason::RequirementsUnsettled);

    let mut rounds = Rounds::starting_with(Needs::default());
    let settling = ["a", "b", "c", "d", "d"].map(|name| rounds.answered(needs(&[name]), true));
    assert_eq!(settling.last(), Some(&Next::Final), "the fifth call may still be the final one");
}

#[test]
fn related_denial_names_the_user_the_verb_and_the_object() {
    let mut denied = Denied {
        user: "system:serviceaccount:windlass-system:reader".to_owned(),
        verb: "get",
        kind: kind("v1", "Secret"),
        namespace: Some("shop".into()),
        name: Some("db".into()),
        why: "no RBAC policy matched".to_owned(),
    };
    let message = |denied: &Denied| ReadProblem::Denied(Box::new(denied.clone())).to_string();
    assert_eq!(
        message(&denied),
        "system:serviceaccount:windlass-system:reader may not get Secret.v1 db in namespace shop (no RBAC policy \
         matched), which the plugin requires; grant it with a Role and a RoleBinding"
    );
    denied = Denied { verb: "list", namespace: None, name: None, why: String::new(), ..denied };
    assert!(
        message(&denied)
            .starts_with("system:serviceaccount:windlass-system:reader may not list Secret.v1 in the cluster,")
    );
    assert_eq!(ReadProblem::Denied(Box::new(denied)).reason(), ParentReason::ReadForbidden);
    let refused = |code| ReadProblem::NotWatched { kind: kind("v1", "Secret"), code, message: String::new() }.reason();
    assert_eq!((refused(403), refused(404)), (ParentReason::ReadForbidden, ParentReason::ApiError));
}

#[test]
fn related_requirements_of_one_parent_have_a_size_limit() {
    let grants = grants();
    let resolve = |count: usize, selector: &str| {
        let of = |n: usize| requirement(&format!("{n:0>63}"), "ConfigMap", None, labelled(selector));
        grants.resolve(&(0..count).map(of).collect::<Vec<_>>(), &namespaced_parent(), 256)
    };
    let keys: Vec<_> = ('a'..='z').flat_map(|one| ('a'..='z').map(move |two| format!("!{one}{two}"))).collect();
    let longest = keys.join(",").get(..SELECTOR_MAX - 1).expect("long").to_owned();
    assert!(resolve(64, &longest).is_ok(), "the default number of the longest selectors");
    assert!(resolve(256, "app=web").is_ok());
    let refusal = resolve(150, &longest).expect_err("refused");
    let problem = ReadProblem::from(refusal);
    assert_eq!(problem.reason(), ParentReason::ResponseRejected);
    let of_size = problem.to_string();
    let size = of_size.split("response take ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    assert!(size.is_some_and(|size| size > PARENT_BYTES_MAX), "{problem}");
    assert!(of_size.contains("more than the limit of 196608 for one parent"), "{problem}");
}

#[test]
fn related_objects_are_selected_without_unpacking_them() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop", "uid": "u",
        "resourceVersion": "1", "labels": {"tier": "web", "windlass.dev/plugin": "echo"}}});
    let packed = Object { json: "unreadable".as_bytes().into(), ..Object::clone(&object(&map)) };
    let needs = |selector: &str| {
        let requirement = requirement("a", "ConfigMap", None, labelled(selector));
        resolve_for(&namespaced_parent(), &[requirement]).expect("granted").remove(0)
    };
    assert!(needs("tier=web").selects(&packed) && needs("windlass.dev/plugin=echo").selects(&packed));
    assert!(!needs("tier!=web").selects(&packed));
    let many: serde_json::Map<_, _> = (0..1000).map(|n| (format!("label-{n}"), json!("x"))).collect();
    let mut map = map;
    map["metadata"]["labels"] = many.into();
    let large = object(&map);
    assert!(
        large.labels.is_none() && needs("label-7=x").selects(&large),
        "labels that are too large to be kept are read"
    );
}

#[test]
fn plugin_is_called_again_until_it_has_the_answers_to_its_requests() {
    let mut rounds = Rounds::starting_with(Needs::default());
    assert_eq!(rounds.answered(Vec::new(), false), Next::Again);
    assert_eq!(rounds.answered(Vec::new(), true), Next::Final);
    let mut rounds = Rounds::starting_with(Needs::default());
    let steps: Vec<_> = (0..MAX_ROUNDS).map(|_| rounds.answered(Vec::new(), false)).collect();
    assert_eq!(steps.last(), Some(&Next::Unsettled), "other requests each time");
}

#[test]
fn r24_requirement_of_an_absent_optional_kind_selects_nothing_until_the_kind_is_served() {
    let of = |presence| {
        let grant = ReadGrant { presence, ..grant("v1", "Target", true, None) };
        ReadGrants::new(host(), [grant, self::grant("v1", "Secret", true, None)])
    };
    let (absent, served) = (of(Presence::Absent), of(Presence::Served));
    let parent = namespaced_parent();
    let required = [requirement("a", "Target", None, named("x")), requirement("b", "Secret", None, named("y"))];
    let needs = |grants: &ReadGrants| grants.resolve(&required, &parent, 64).expect("granted");
    let [none, secret] = &needs(&absent)[..] else { panic!("two needs") };
    assert_eq!((&none.select, &*none.id), (&Select::Nothing, "a"), "it is answered, in its place");
    assert_eq!(watched(&needs(&absent)).collect::<Vec<_>>(), [secret]);
    assert!(absent.permit(none, &parent) && !served.permit(none, &parent), "it is resolved again");
    let [some, _] = &needs(&served)[..] else { panic!("two needs") };
    assert!(served.permit(some, &parent) && !absent.permit(some, &parent));
    assert!(absent.are_like(&served) && absent != served);
    let without = ReadGrants::new(host(), [grant("v1", "Secret", true, None)]);
    assert!(absent.are_like(&without), "it turns out to be cluster-scoped, and is not granted");
    assert!(!absent.are_like(&ReadGrants::new(host(), [])), "a kind that must exist counts");
    let invalid = [requirement("a", "Target", None, named("x/y"))];
    assert!(absent.resolve(&invalid, &parent, 64).is_err(), "an invalid name shows at once");
}

#[test]
fn related_requirement_in_several_namespaces_is_a_need_in_each_and_one_answer() {
    let grants = ReadGrants::new(host(), [grant("v1", "Secret", true, Some(&["shared", "tenants"]))]);
    let parent = namespaced_parent();
    let all = |names: &[&str]| Requirement {
        namespaces: Namespaces::Named(names.iter().map(|name| (*name).to_owned()).collect()),
        ..requirement("a", "Secret", None, named("x"))
    };
    let resolved = |names: &[&str], limit| {
        grants.resolve(&[all(names), requirement("b", "Secret", None, named("x"))], &parent, limit)
    };
    let needs = resolved(&["tenants", "shared", "tenants"], 4).expect("granted");
    let places: Vec<_> = needs.iter().map(|need| (&*need.id, &**need.place.namespace().expect("one"))).collect();
    assert_eq!(places, [("a", "shared"), ("a", "tenants"), ("b", "shop")]);
    let secret = |namespace: &str| {
        object(
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": namespace, "uid": "u", "resourceVersion": "1"}}),
        )
    };
    let found = ["shared", "tenants", "shop"].map(|namespace| vec![secret(namespace)]);
    let served = Served::of(&needs, found);
    let with = Snapshot { related: served, ..crate::fixtures::snapshot(&[]) };
    let related = with.request(Phase::Sync).related;
    let of: Vec<_> = related.iter().map(|one| (&*one.id, one.objects.len())).collect();
    assert_eq!(of, [("a", 2), ("b", 1)]);

    let refused = |names: &[&str], limit| resolved(names, limit).expect_err("refused").to_string();
    assert!(refused(&[], 9).contains("names no namespace"));
    assert!(refused(&["shared"; 9], 8).contains("are of 10 namespaces"), "before they are looked at");
    assert!(refused(&["shared", "tenants"], 2).contains("are of 3 namespaces in all, more than the limit of 2"));
    assert!(refused(&["shared", "others"], 9).contains("in namespace others"), "nothing is read");
}

#[test]
fn related_requirement_in_all_namespaces_is_of_those_that_the_plugin_may_read_and_never_of_the_hosts() {
    let in_all = |name| Requirement { namespaces: Namespaces::All, ..requirement("a", name, None, labelled("")) };
    let places = |grants: &ReadGrants, parent: &ObjectKey, name| -> Vec<Place> {
        let needs = grants.resolve(&[in_all(name)], parent, 3).expect("granted");
        assert!(needs.iter().all(|need| grants.permit(need, parent)));
        needs.into_iter().map(|need| need.place).collect()
    };
    let these = |names: &[&str]| names.iter().map(|name| Place::In((*name).into())).collect::<Vec<_>>();
    let everywhere = Place::AllBut(host());
    let (namespaced, cluster_scoped) = (namespaced_parent(), cluster_scoped_parent());
    let grants = grants();
    assert_eq!(places(&grants, &namespaced, "ConfigMap"), these(&["shop"]), "no others are granted");
    assert_eq!(places(&grants, &namespaced, "Secret"), these(&["shared", "shop"]));
    assert_eq!(places(&grants, &cluster_scoped, "Secret"), these(&["shared"]));
    assert_eq!(places(&grants, &cluster_scoped, "ConfigMap"), std::slice::from_ref(&everywhere));
    assert_eq!(places(&grants, &cluster_scoped, "Node"), [Place::Cluster]);
    let all = |name: &str| [everywhere.has(Some(name)), everywhere.has(None)];
    assert_eq!((all("shop"), all("windlass-system")), ([true, false], [false, false]));
    let with_hosts = ReadGrants::new(host(), [grant("v1", "Secret", true, Some(&["windlass-system", "shared"]))]);
    assert_eq!(places(&with_hosts, &cluster_scoped, "Secret"), these(&["shared"]));
    let need = grants.resolve(&[in_all("ConfigMap")], &cluster_scoped, 3).expect("granted").remove(0);
    let narrowed = ReadGrants::new(host(), [grant("v1", "ConfigMap", true, Some(&["shared"]))]);
    assert!(!narrowed.permit(&need, &cluster_scoped), "the grant was narrowed");
    let many: Vec<_> = ["b", "c", "d"].into();
    let grants = ReadGrants::new(host(), [grant("v1", "Secret", true, Some(&many))]);
    assert!(grants.resolve(&[in_all("Secret")], &namespaced, 3).is_err(), "more places than the limit");
}
