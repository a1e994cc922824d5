use proptest::prelude::*;

use super::empty::is_zero;
use super::*;
use crate::value::packed::Json;

pub(super) fn managed(entries: &[(&str, &str, &str)]) -> ManagedFields {
    let list: Vec<String> = entries
        .iter()
        .map(|(manager, operation, fields)| {
            format!(
                r#"{{"manager":"{manager}","operation":"{operation}","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{fields}}}"#
            )
        })
        .collect();
    ManagedFields::read(&format!("[{}]", list.join(",")), Some("of-parent"))
}

pub(super) fn map(text: &str) -> Map {
    match json::parse(text.as_bytes(), 64) {
        Ok(Value::Object(map)) => map,
        other => panic!("{other:?}"),
    }
}

const FIELDS: &str = r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"of-parent\"}":{}}},
    "f:spec":{"f:containers":{"k:{\"name\":\"nginx\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{".":{},
    "k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"f:args":{}}},
    "f:finals":{"v:\"a\"":{}}}}"#;

const DESIRED: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"n","labels":{"app":"a"},
    "ownerReferences":[{"uid":"of-parent","controller":true}]},"spec":{"containers":[{"name":"nginx","image":"i",
    "ports":[{"containerPort":80}],"args":["-v"]}],"finals":["a"]}}"#;

#[test]
fn r07_child_whose_desired_fields_the_hosts_entry_covers_has_no_drift() {
    assert!(managed(&[("windlass", "Apply", FIELDS)]).cover(
        &map(DESIRED),
        &Json::from(DESIRED.as_bytes()),
        Some(&"of-parent".into())
    ));
    assert!(
        managed(&[("windlass", "Update", FIELDS)]).cover(
            &map(DESIRED),
            &Json::from(DESIRED.as_bytes()),
            Some(&"of-parent".into())
        ),
        "the entry of the host's POST counts"
    );
    assert!(
        !managed(&[("kubectl", "Apply", FIELDS)]).cover(
            &map(DESIRED),
            &Json::from(DESIRED.as_bytes()),
            Some(&"of-parent".into())
        ),
        "the entry of another manager does not count"
    );
}

#[test]
fn r07_zero_values_that_the_api_servers_types_omit_are_not_drift() {
    let desired = DESIRED
        .replace(r#""image":"i","#, r#""image":"i","stdin":false,"tty":false,"workingDir":"","#)
        .replace(r#""spec":{"#, r#""spec":{"hostNetwork":false,"grace":0,"#);
    let entry = managed(&[("windlass", "Update", FIELDS)]);
    let live = r#"{"metadata":{"labels":{"app":"a"},"ownerReferences":[{"uid":"of-parent","controller":true}]},
        "spec":{"containers":[{"name":"nginx","image":"i","args":["-v"],"tty":TTY}]}}"#;
    let live_with = |tty: &str| live.replace("TTY", tty);
    assert!(!entry.cover(&map(&desired), &Json::from(*b"not known"), Some(&"of-parent".into())));
    assert!(
        !entry.cover(&map(&desired), &Json::from(live_with("true").as_bytes()), Some(&"of-parent".into())),
        "the live object has tty: true"
    );
    let without = live_with("0").replace(r#","tty":0"#, "");
    assert!(entry.cover(&map(&desired), &Json::from(without.as_bytes()), Some(&"of-parent".into())));
}

#[test]
fn r07_each_field_that_is_missing_in_the_hosts_entry_is_drift() {
    for lost in [
        r#""f:image":{},"#,
        r#","f:args":{}"#,
        r#","f:app":{}"#,
        r#""v:\"a\"":{}"#,
        r#""k:{\"uid\":\"of-parent\"}":{}"#,
    ] {
        let fields = FIELDS.replacen(lost, if lost.starts_with(',') { "" } else { r#""f:other":{},"# }, 1);
        let fields = fields.replace(",}", "}");
        assert_ne!(fields, FIELDS);
        assert!(
            !managed(&[("windlass", "Apply", &fields)]).cover(
                &map(DESIRED),
                &Json::from(DESIRED.as_bytes()),
                Some(&"of-parent".into())
            ),
            "without {lost}"
        );
    }
}

#[test]
fn c5_item_without_a_key_that_has_a_default_is_not_taken_for_another_item() {
    let desired = map(r#"{"spec":{"ports":[{"port":53,"name":"tcp"},{"port":53,"protocol":"UDP","name":"udp"}]}}"#);
    let entry = |ports: &[&str]| {
        let port = |protocol: &&str| {
            format!(
                r#""k:{{\"port\":53,\"protocol\":\"{protocol}\"}}":{{".":{{}},"f:port":{{}},"f:name":{{}},"f:protocol":{{}}}}"#
            )
        };
        let ports: Vec<_> = ports.iter().map(port).collect();
        managed(&[("windlass", "Apply", &format!(r#"{{"f:spec":{{"f:ports":{{{}}}}}}}"#, ports.join(",")))])
    };
    let live = Json::from(*b"{}");
    assert!(entry(&["TCP", "UDP"]).cover(&desired, &live, None));
    assert!(!entry(&["UDP"]).cover(&desired, &live, None), "the port of the default protocol was removed");
    assert!(!entry(&["TCP"]).cover(&desired, &live, None), "the other one was removed");
}

#[test]
fn r07_map_whose_last_entry_was_taken_or_removed_is_drift_and_an_atomic_map_is_not() {
    let desired = map(r#"{"data":{"value":"ours"},"selector":{"app":"a"},"args":["-v"]}"#);
    let ours = r#"{"f:data":{},"f:selector":{},"f:args":{}}"#;
    let live = br#"{"data":{"value":"1"},"selector":{"app":"a"},"args":["-v"]}"#;
    let covers =
        |entries: &[(&str, &str, &str)], live: &[u8]| managed(entries).cover(&desired, &Json::from(live), None);
    assert!(covers(&[("windlass", "Apply", ours)], live), "all of them may be atomic");
    let edited = ("kubectl-patch", "Update", r#"{"f:data":{"f:value":{}}}"#);
    assert!(!covers(&[("windlass", "Apply", ours), edited], live), "kubectl-patch owns data.value");
    let removed = br#"{"data":{"other":"1"},"selector":{"app":"a"},"args":["-v"]}"#;
    assert!(!covers(&[("windlass", "Apply", ours)], removed), "data.value was removed");
    let emptied = br#"{"data":{"value":"1"},"selector":{"app":"a"}}"#;
    assert!(!covers(&[("windlass", "Apply", ours)], emptied), "the list args was removed");
}

#[test]
fn r06_entry_of_the_hosts_post_stays_while_it_owns_only_desired_fields() {
    let posted = |entries: &[(&str, &str, &str)], desired: &str| {
        managed(entries).create_entry(&map(desired), Some(&"of-parent".into()))
    };
    let (update, apply) = (("windlass", "Update", FIELDS), ("windlass", "Apply", FIELDS));
    assert_eq!(posted(&[], DESIRED), None);
    assert_eq!(posted(&[apply], DESIRED), None);
    assert_eq!(posted(&[update], DESIRED), Some(CreateEntry::Harmless));
    assert_eq!(posted(&[apply, update], DESIRED), Some(CreateEntry::Harmless));
    let more =
        DESIRED.replace(r#""app":"a""#, r#""app":"b","team":"blue""#).replace(r#""image":"i""#, r#""image":"j""#);
    assert_eq!(posted(&[update], &more), Some(CreateEntry::Harmless), "fields were changed and added");
    for dropped in [
        r#""image":"i","#,
        r#","args":["-v"]"#,
        r#""labels":{"app":"a"},"#,
        r#","finals":["a"]"#,
        r#"{"containerPort":80}"#,
        r#"{"uid":"of-parent","controller":true}"#,
    ] {
        let less = DESIRED.replace(dropped, "").replace(",}", "}");
        assert_ne!(less, DESIRED);
        let in_the_way = |index, removal| Some(CreateEntry::MustGo { index, removal });
        assert_eq!(posted(&[update], &less), in_the_way(0, Removal::Convert), "{dropped}");
        assert_eq!(posted(&[apply, update], &less), in_the_way(1, Removal::Remove), "{dropped}");
    }
}

#[test]
fn r06_entry_that_owns_all_fields_after_managed_fields_were_cleared_goes_before_the_next_apply() {
    let more = FIELDS.replace(r#""f:app":{}"#, r#""f:app":{},"f:users":{}"#);
    let (all, apply) = (("before-first-apply", "Update", &*more), ("windlass", "Apply", FIELDS));
    let of = |entries: &[(&str, &str, &str)]| managed(entries);
    let posted = |entries: &[(&str, &str, &str)]| of(entries).create_entry(&map(DESIRED), Some(&"of-parent".into()));
    let in_the_way = CreateEntry::MustGo { index: 1, removal: Removal::RemoveBeforeFirstApply };
    assert_eq!(posted(&[apply, all]), Some(in_the_way));
    assert_eq!(posted(&[("helm", "Apply", FIELDS), all]), None, "the host has not applied the object");
}

#[test]
fn r06_entry_of_the_hosts_post_is_converted_once_another_manager_owns_fields_outside_status() {
    let with = |subresource: &str, field: &str| {
        let list = format!(
            r#"[{{"manager":"windlass","operation":"Update","fieldsV1":{FIELDS}}},
                {{"manager":"another","operation":"Update","subresource":"{subresource}","fieldsV1":{{"{field}":{{}}}}}}]"#
        );
        ManagedFields::read(&list, Some("of-parent")).create_entry(&map(DESIRED), Some(&"of-parent".into()))
    };
    let in_the_way = Some(CreateEntry::MustGo { index: 0, removal: Removal::Convert });
    assert_eq!(with("", "f:spec"), in_the_way);
    assert_eq!(with("scale", "f:spec"), in_the_way, "an autoscaler owns a field of spec");
    assert_eq!(with("status", "f:metadata"), in_the_way, "a field of metadata, such as a label");
    assert_eq!(with("status", "f:status"), Some(CreateEntry::Harmless), "no desired field is in status");
}

#[test]
fn r07_field_named_like_the_controllers_uid_is_covered_like_any_other() {
    let fields = r#"{"f:data":{"f:of-parent":{}},"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"of-parent\"}":{}}}}"#;
    let desired = r#"{"data":{"of-parent":"x"},"metadata":{"name":"a","ownerReferences":[{"uid":"of-parent"}]}}"#;
    let entry = managed(&[("windlass", "Apply", fields)]);
    assert!(entry.cover(&map(desired), &Json::from(desired.as_bytes()), Some(&"of-parent".into())));
}

/// Items and item names of a list with the keys `port` and `protocol`, and of a set.
fn listed() -> impl Strategy<Value = (Vec<Value>, Vec<Item>)> {
    let port = prop_oneof![Just("80"), Just("80.0"), Just("8e1"), Just("81"), Just("\"80\"")];
    let protocol = prop_oneof![Just("\"TCP\""), Just("\"UDP\""), Just("null"), Just("[1]"), Just("{\"a\":1}")];
    let field = |name: &'static str, value: BoxedStrategy<&'static str>| {
        proptest::option::of(value.prop_map(move |value| format!("\"{name}\":{value}")))
    };
    let object = (field("port", port.boxed()), field("protocol", protocol.boxed()), field("x", Just("1").boxed()))
        .prop_map(|(a, b, c)| format!("{{{}}}", [a, b, c].into_iter().flatten().collect::<Vec<_>>().join(",")));
    let scalar =
        prop_oneof![Just("\"a\""), Just("\"$controller\""), Just("\"uid-1\""), Just("1"), Just("1.0"), Just("true")];
    let value = prop_oneof![3 => object, 1 => scalar.prop_map(str::to_owned)];
    let value = value.prop_map(|text| json::parse(text.as_bytes(), 8).expect("JSON"));
    let name = (value.clone(), 0..8_u8).prop_map(|(value, kind)| match (kind, &value) {
        (0, _) => Item::Other,
        (1, _) => Item::Value(value),
        (_, Value::Object(_)) => Item::Keys(value),
        _ => Item::Value(value),
    });
    (proptest::collection::vec(value, 0..60), proptest::collection::vec(name, 0..20))
}

proptest! {
    #[test]
    fn finder_returns_the_same_list_items_as_a_linear_search((items, named) in listed()) {
        let names = ItemMatcher { controller: "uid-1" };
        let has_all_keys = |name: &Item, item: &Value| match (name, item) {
            (Item::Keys(keys), Value::Object(item)) => {
                keys.as_object().is_some_and(|keys| keys.iter().all(|(key, _)| item.get(key).is_some()))
            }
            _ => true,
        };
        let linear = |name: &Item| {
            let all: Vec<usize> = (0..items.len()).filter(|at| names.matches(name, &items[*at])).collect();
            let exact: Vec<usize> = all.iter().copied().filter(|at| has_all_keys(name, &items[*at])).collect();
            if exact.is_empty() { all } else { exact }
        };
        let expected: Vec<Vec<usize>> = named.iter().map(linear).collect();
        let node = Node { items: named.into_iter().map(|name| (name, Node::default())).collect(), ..Node::default() };
        let finder = Finder::of(&items, [&node]);
        for ((name, _), expected) in node.items.iter().zip(expected) {
            let mut found = finder.all(name, &names).to_vec();
            found.sort_unstable();
            prop_assert_eq!(&found, &expected, "{:?}", name);
            prop_assert_eq!(finder.first(name, &names), expected.first().map(|at| &items[*at]));
        }
    }
}

#[test]
fn list_with_thousands_of_items_is_compared_item_by_item() {
    let count = 20_000;
    let list = |value: &str| {
        let items: Vec<_> = (0..count).map(|at| format!(r#"{{"name":"v{at}","value":"{value}"}}"#)).collect();
        format!(r#"{{"spec":{{"env":[{}]}}}}"#, items.join(","))
    };
    let named: Vec<_> = (0..count)
        .rev()
        .map(|at| format!(r#""k:{{\"name\":\"v{at}\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}}"#))
        .collect();
    let entry = |named: &[String]| format!(r#"{{"f:spec":{{"f:env":{{{}}}}}}}"#, named.join(","));
    let all = managed(&[("windlass", "Apply", &entry(&named))]);
    let live = Json::from(list("b").into_bytes().into_boxed_slice());
    assert!(all.cover(&map(&list("a")), &live, None));
    let but_one = managed(&[("windlass", "Apply", &entry(&named[1..]))]);
    assert!(!but_one.cover(&map(&list("a")), &live, None), "the host does not own the last item");
}

#[test]
fn r21_list_with_thousands_of_items_is_corrected_item_by_item() {
    // A comparison of each item with each other one would take minutes.
    let count = 20_000;
    let object = |items: &mut dyn Iterator<Item = u32>| {
        let (mut env, mut set) = (Vec::new(), Vec::new());
        for at in items {
            env.push(format!(r#"{{"name":"v{at}","value":"a"}}"#));
            set.push(format!(r#""v{at}""#));
        }
        map(&format!(r#"{{"apiVersion":"v1","spec":{{"env":[{}],"set":[{}]}}}}"#, env.join(","), set.join(",")))
    };
    let entry = |is_in: fn(u32) -> bool| {
        let (mut env, mut set) = (Vec::new(), Vec::new());
        for at in (0..count).filter(|at| is_in(*at)) {
            env.push(format!(r#""k:{{\"name\":\"v{at}\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}}"#));
            set.push(format!(r#""v:\"v{at}\"":{{}}"#));
        }
        format!(r#"{{"f:spec":{{"f:env":{{{}}},"f:set":{{{}}}}}}}"#, env.join(","), set.join(","))
    };
    // The host owns two of three items, and desires the even ones of them; a user has the others.
    let managed =
        managed(&[("kubectl", "Update", &entry(|at| at % 3 == 0)), ("windlass", "Apply", &entry(|at| at % 3 != 0))]);
    let (live, desired) = (object(&mut (0..count)), object(&mut (0..count).filter(|at| at % 3 != 0 && at % 2 == 0)));
    let correction = managed.correct(&desired, [&live, &desired], None, &[]).expect("a correction");
    assert_eq!((correction.own, correction.taken), (None, Vec::new()));
    let after = work_out_apply(&live, (&desired, &desired), (None, &[]), &managed);
    let expected = object(&mut (0..count).filter(|at| at % 3 == 0 || at % 2 == 0));
    let env = |object: &Map| object.get("spec").and_then(|spec| spec.at(&["env"])).cloned();
    assert_eq!(env(&after), env(&expected));
    let set = |object: &Map| {
        let items = object.get("spec").and_then(|spec| spec.at(&["set"])?.as_array()).expect("a set");
        items.iter().map(ToString::to_string).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(set(&after), set(&expected));
}

#[test]
fn r07_value_set_by_another_manager_where_an_empty_one_is_desired_is_drift() {
    // The `managedFields` that a POST of this object leaves: the API server stored none of the empty values.
    let posted = ("windlass", "Update", r#"{"f:spec":{"f:policyTypes":{}}}"#);
    let covers = |desired: &str, live: &str, other: &str| {
        let desired = map(&format!(r#"{{"spec":{{"policyTypes":["Egress"],{desired}}}}}"#));
        let live = format!(r#"{{"spec":{{"policyTypes":["Egress"],{live}}}}}"#);
        let other = format!(r#"{{"f:spec":{{{other}}}}}"#);
        let entries = [posted, ("kubectl-patch", "Update", other.as_str())];
        managed(&entries).cover(&desired, &Json::from(live.as_bytes()), None)
    };
    let selector = r#""podSelector":{"matchLabels":{"app":"none"}}"#;
    for (desired, live, other) in [
        (r#""egress":[]"#, r#""egress":[{}]"#, r#""f:egress":{}"#),
        (r#""egress":null"#, r#""egress":[{}]"#, r#""f:egress":{}"#),
        (r#""podSelector":{}"#, selector, r#""f:podSelector":{}"#),
        (r#""podSelector":{"matchLabels":{}}"#, selector, r#""f:podSelector":{}"#),
        (r#""podSelector":{"matchLabels":{},"strict":false}"#, selector, r#""f:podSelector":{}"#),
        (r#""inner":{"egress":[]}"#, r#""inner":{"egress":[1]}"#, r#""f:inner":{"f:egress":{}}"#),
        (r#""host":false"#, r#""host":true"#, r#""f:host":{}"#),
        (r#""grace":0"#, r#""grace":9"#, r#""f:grace":{}"#),
        (r#""path":"""#, r#""path":"/""#, r#""f:path":{}"#),
        (r#""path":null"#, r#""path":"/""#, r#""f:path":{}"#),
        (r#""ref":{}"#, r#""ref":{"optional":false}"#, r#""f:ref":{}"#),
    ] {
        assert!(!covers(desired, live, other), "{desired} is {live}");
        assert!(covers(desired, r#""egress":[]"#, other), "{desired} is still empty");
    }
}

#[test]
fn r07_entries_that_others_add_to_a_desired_empty_map_are_not_drift() {
    let desired = map(r#"{"spec":{"strategy":{},"resources":{},"extra":null}}"#);
    let live = br#"{"spec":{"strategy":{"type":"RollingUpdate"},"resources":{"limits":{"cpu":"1"}}}}"#;
    let covers = |entries: &[(&str, &str, &str)]| managed(entries).cover(&desired, &Json::from(&live[..]), None);
    let defaulted = ("windlass", "Update", r#"{"f:spec":{"f:strategy":{"f:type":{}}}}"#);
    assert!(covers(&[defaulted]), "the API server set a default");
    let shared = ("tuner", "Update", r#"{"f:spec":{"f:resources":{"f:limits":{"f:cpu":{}}}}}"#);
    assert!(covers(&[defaulted, shared]), "another manager owns the other entries of the map");
    // The state after an apply of the host, which removes an atomic value and owns the empty map beside the other
    // manager.
    let applied = ("windlass", "Apply", r#"{"f:spec":{"f:strategy":{},"f:resources":{},"f:extra":{}}}"#);
    assert!(covers(&[applied, shared, ("other", "Apply", r#"{"f:spec":{"f:resources":{}}}"#)]));
}

#[test]
fn r07_live_object_is_not_parsed_if_the_managed_fields_decide() {
    let desired = map(r#"{"spec":{"image":"a","egress":[],"selector":{},"note":null,"on":{"a":[],"b":{}}}}"#);
    let ours = ("windlass", "Update", r#"{"f:spec":{"f:image":{}}}"#);
    let other = ("kubectl-patch", "Update", r#"{"f:spec":{"f:selector":{"f:more":{}},"f:replicas":{}}}"#);
    assert!(managed(&[ours, other]).cover(&desired, &Json::from(*b"no JSON"), None));
}

/// A desired value: scalars, atomic lists and maps, and maps that managers share. The first letter of a field's name is
/// its sort (`s`, `a`, `m`). The API server stores no empty value under a name that ends in `o`.
fn desired_map(depth: u32) -> BoxedStrategy<serde_json::Value> {
    use serde_json::json;
    let scalar = prop_oneof![Just(json!("")), Just(json!("x")), Just(json!(0)), Just(json!(false)), Just(json!(3))];
    let atomic = prop_oneof![
        Just(json!([])),
        Just(json!({})),
        Just(json!(null)),
        Just(json!(["x"])),
        Just(json!({"x": []})),
        Just(json!({"x": {"y": ""}, "z": 0})),
        Just(json!([{"x": {}}])),
    ];
    let inner = if depth == 0 { Just(json!({})).boxed() } else { desired_map(depth - 1) };
    let field = prop_oneof![
        (prop_oneof![Just("s1"), Just("s1o"), Just("s2o")], scalar.boxed()),
        (prop_oneof![Just("a1"), Just("a1o"), Just("a2o")], atomic.boxed()),
        (prop_oneof![Just("m1"), Just("m1o"), Just("m2o")], inner),
    ];
    proptest::collection::vec(field, 0..5)
        .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        .boxed()
}

fn is_zero_value(value: &serde_json::Value) -> bool {
    is_zero(&json::parse(value.to_string().as_bytes(), 64).expect("JSON"))
}

/// The part of a map that the API server stores, and the fields that a create owns.
fn stored(desired: &serde_json::Value) -> (serde_json::Value, serde_json::Value) {
    let (mut live, mut owned) = (serde_json::Map::new(), serde_json::Map::new());
    for (name, value) in desired.as_object().expect("a map") {
        let (value, fields) = match name.as_bytes()[0] {
            b'm' => stored(value),
            _ => (value.clone(), serde_json::json!({})),
        };
        if !(value.is_null() || name.ends_with('o') && is_zero_value(&value)) {
            live.insert(name.clone(), value);
            owned.insert(format!("f:{name}"), fields);
        }
    }
    (live.into(), owned.into())
}

/// The paths of the map's fields that only one manager can own.
fn single_owner_paths(desired: &serde_json::Value, above: &[String]) -> Vec<Vec<String>> {
    let fields = desired.as_object().into_iter().flatten();
    fields
        .flat_map(|(name, value)| {
            let path = [above, std::slice::from_ref(name)].concat();
            if name.starts_with('m') { single_owner_paths(value, &path) } else { vec![path] }
        })
        .collect()
}

proptest! {
    #[test]
    fn r07_an_edit_of_any_desired_field_by_another_manager_is_drift(
        desired in desired_map(2),
        at in any::<proptest::sample::Index>(),
        edit in prop_oneof![Just("\"edited\""), Just("[{}]"), Just("{\"edited\":true}"), Just("{\"a\":{\"b\":[0]}}"), Just("7")],
    ) {
        let (mut live, mut owned) = stored(&desired);
        let desired_fields = map(&desired.to_string());
        let covers = |live: &serde_json::Value, owned: &serde_json::Value, other: &serde_json::Value| {
            let (owned, other) = (owned.to_string(), other.to_string());
            managed(&[("windlass", "Update", &owned), ("kubectl-edit", "Update", &other)])
                .cover(&desired_fields, &Json::from(live.to_string().into_bytes().into_boxed_slice()), None)
        };
        prop_assert!(covers(&live, &owned, &serde_json::json!({})), "unchanged since its creation");
        let paths = single_owner_paths(&desired, &[]);
        prop_assume!(!paths.is_empty());
        let path = at.get(&paths);
        let mut other = serde_json::json!({});
        let (mut in_live, mut in_owned, mut in_other) = (&mut live, &mut owned, &mut other);
        for (depth, name) in path.iter().enumerate() {
            let field = format!("f:{name}");
            if depth + 1 == path.len() {
                in_live[name] = serde_json::from_str(edit).expect("JSON");
                in_owned.as_object_mut().expect("a map").remove(&field);
                in_other[&field] = serde_json::json!({});
                break;
            }
            in_live = in_live.as_object_mut().expect("a map").entry(name.clone()).or_insert_with(|| serde_json::json!({}));
            in_owned = in_owned.as_object_mut().expect("a map").entry(field.clone()).or_insert_with(|| serde_json::json!({}));
            in_other = in_other.as_object_mut().expect("a map").entry(field).or_insert_with(|| serde_json::json!({}));
        }
        prop_assert!(!covers(&live, &owned, &other), "{path:?} of {desired} is {edit}");
    }
}

#[test]
fn r07_empty_value_that_was_removed_is_drift() {
    let object = |volume: &str| {
        format!(r#"{{"spec":{{"volumes":[{{"name":"v"{volume}}}]}},"metadata":{{"labels":{{"app":"a","empty":""}}}}}}"#)
    };
    let labels = r#""f:metadata":{"f:labels":{".":{},"f:app":{},"f:empty":{}}}"#;
    let fields = |volume: &str, labels: &str| {
        format!(
            r#"{{"f:spec":{{"f:volumes":{{"k:{{\"name\":\"v\"}}":{{".":{{}},"f:name":{{}}{volume}}}}}}},{labels}}}"#
        )
    };
    let covers = |operation, desired: &str, ours: &str, other: &str, live: &str| {
        let (ours, other) = (fields(ours, labels), fields(other, r#""f:x":{}"#));
        let entries = [("windlass", operation, &*ours), ("kubectl", "Update", &*other)];
        managed(&entries).cover(&map(&object(desired)), &Json::from(object(live).as_bytes()), None)
    };
    let (empty, host) = (r#","emptyDir":{}"#, r#","hostPath":{"path":"/"}"#);
    let (owns_empty, owns_host) = (r#","f:emptyDir":{}"#, r#","f:hostPath":{"f:path":{}}"#);
    for operation in ["Update", "Apply"] {
        assert!(covers(operation, empty, owns_empty, "", empty), "{operation}");
        assert!(!covers(operation, empty, "", owns_host, host), "{operation}: another member of the union was chosen");
        assert!(
            !covers(operation, r#","value":"""#, "", r#","f:valueFrom":{}"#, r#","valueFrom":{"x":1}"#),
            "{operation}"
        );
    }
    assert!(covers("Update", empty, "", "", ""), "the create may have stored nothing");
    assert!(!covers("Apply", empty, "", "", ""), "the host has owned it since its apply");
    for list in [r#","items":[]"#, r#","resources":{"claims":[]}"#] {
        assert!(covers("Apply", list, "", "", ""), "an Apply entry owns nothing of an empty list with keys");
    }
    assert!(covers("Update", empty, "", r#","f:more":{}"#, r#","more":1"#), "another field is no member of the union");
    let differs = |live: &str| {
        let fields = fields("", labels);
        managed(&[("windlass", "Update", &*fields)]).differs(&map(&object(empty)), &map(&object(live)), None)
    };
    assert!(differs(host) && !differs(empty), "also if the host's own manager name was used");
    // An entry of a map is stored although it is empty.
    let owned = fields(owns_empty, r#""f:metadata":{"f:labels":{".":{},"f:app":{}}}"#);
    let without = object(empty).replace(r#","empty":"""#, "");
    for operation in ["Update", "Apply"] {
        let entries = managed(&[("windlass", operation, &*owned)]);
        assert!(!entries.cover(&map(&object(empty)), &Json::from(without.as_bytes()), None), "{operation}");
        assert!(entries.differs(&map(&object(empty)), &map(&without), None), "{operation}");
    }
}
