use super::*;

fn pod() -> Arc<Gvk> {
    Arc::new(Gvk::from_api_version("v1", "Pod"))
}

fn read(text: &str) -> Object {
    Object::from_api(&pod(), text).expect("an object")
}

fn json(object: &Object) -> String {
    String::from_utf8(object.json.bytes().to_vec()).expect("UTF-8")
}

#[test]
fn managed_fields_are_removed_at_any_position_and_nothing_else_changes() {
    let meta = r#""name":"a","uid":"u","resourceVersion":"7""#;
    let managed = r#""managedFields":[{"manager":"x, \"managedFields\":[]","fieldsV1":{"f:a":{}}}]"#;
    for (with, without) in [
        (format!("{managed},{meta}"), meta.to_owned()),
        (format!("{meta},{managed}"), meta.to_owned()),
        (format!(r#"{meta}, {managed} ,"labels":{{}}"#), format!(r#"{meta},"labels":{{}}"#)),
    ] {
        let frame =
            |meta: &str| format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{{meta}}},"spec":{{"n":1.10}}}}"#);
        assert_eq!(json(&read(&frame(&with))), frame(&without));
    }
}

#[test]
fn a_list_item_gets_its_api_version_and_kind() {
    let object = read(r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"}}"#);
    assert_eq!(
        json(&object),
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"}}"#
    );
    assert_eq!((object.key.to_string().as_str(), object.resource_version), ("n/a", 7));
}

#[test]
fn r13_changes_of_labels_and_annotations_are_detected_and_other_changes_are_not() {
    let with = |labels: &str, annotations: &str, rest: &str| {
        read(&format!(
            r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"7","labels":{labels},"annotations":{annotations}}}{rest}}}"#
        ))
        .others_marks
    };
    let plain = with(r#"{"a":"b"}"#, "{}", "");
    assert_eq!(with(r#"{"a":"b"}"#, "{}", r#","status":{"x":1}"#), plain);
    assert_eq!(with(r#"{"a":"b","windlass.dev/plugin":"p"}"#, "{}", ""), plain, "the host's own labels do not count");
    for (labels, annotations) in [
        (r#"{"a":"c"}"#, "{}"),
        ("{}", "{}"),
        ("null", "null"),
        (r#"{"a":"b","c":"d"}"#, "{}"),
        ("{}", r#"{"a":"b"}"#),
        (r#"{"a":"b"}"#, r#"{"a":"b"}"#),
        (r#"{"ab":""}"#, "{}"),
    ] {
        assert_ne!(with(labels, annotations, ""), plain, "{labels} {annotations}");
    }
}

#[test]
fn r04_child_has_both_the_parent_label_and_a_controller_owner_reference() {
    let with = |labels: &str, owners: &str| {
        read(&format!(
            r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"7","labels":{labels},"ownerReferences":{owners}}}}}"#
        ))
    };
    let label = r#"{"app":"x","windlass.dev/parent-uid":"p"}"#;
    let owner = r#"[{"uid":"z"},{"uid":"p","controller":true}]"#;
    let parent = Uid::from("p");
    assert!(with(label, owner).is_owned_by(&parent));
    assert!(!with("{}", owner).is_owned_by(&parent), "an owner reference alone");
    assert!(!with(label, "[]").is_owned_by(&parent), "a copied label alone");
    assert!(!with(label, r#"[{"uid":"p"}]"#).is_owned_by(&parent), "an owner reference that is not the controller's");
    assert!(!with(label, owner).is_owned_by(&Uid::from("q")));
}

#[test]
fn s02_mark_counts_only_where_the_host_sets_it_and_never_hides_a_child() {
    let with = |labels: &str, annotations: &str| {
        read(&format!(
            r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"7","labels":{{"windlass.dev/parent-uid":"p"{labels}}},
            "annotations":{{"a":"b"{annotations}}},"ownerReferences":[{{"uid":"p","controller":true}}]}}}}"#
        ))
    };
    let parent = Some(OwnerKey::Uid(Uid::from("p")));
    let plain = with("", "");
    assert_eq!(plain.owner_key(), parent);
    let mark = r#","windlass.dev/retained-for":"x""#;
    let labelled = with(mark, "");
    assert_eq!((labelled.owner_key(), labelled.marks.get("windlass.dev/retained-for")), (parent.clone(), None));
    assert_ne!(labelled.others_marks, plain.others_marks, "the label counts as a change");
    assert_eq!(with("", mark).owner_key(), parent, "an object with a controller is not retained");
    let shadowed = with(r#","windlass.dev/mark":"forged""#, r#","windlass.dev/mark":"real""#);
    assert_eq!(shadowed.marks.get("windlass.dev/mark"), Some("real"));
    let annotated = with("", r#","windlass.dev/plugin":"other""#);
    assert_eq!(annotated.plugin(), None, "the plugin is read from a label, not from an annotation");
}

#[test]
fn invalid_stored_objects_are_rejected() {
    for bad in [
        "",
        "[]",
        "{}",
        r#"{"metadata":{}}"#,
        r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"x"}}"#,
        r#"{"metadata":{"name":"a","resourceVersion":"1"}}"#,
    ] {
        assert!(Object::from_api(&pod(), bad).is_err(), "{bad}");
    }
}

#[test]
fn metadata_alone_has_no_field_that_changes_with_the_rest() {
    let with = |version: u32, generation: u32, rest: &str| {
        let text = format!(
            r#"{{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{{"name":"a","namespace":"n","uid":"u",
            "resourceVersion":"{version}","generation":{generation},"labels":{{"a":"b"}},"annotations":{{"n":"1.50"}}}}{rest}}}"#
        );
        Object::from_api(&pod(), &text).expect("an object").metadata_alone().expect("its metadata")
    };
    let (one, other) = (with(7, 1, ""), with(8, 2, r#","spec":{"replicas":3},"status":{}"#));
    let metadata = r#""metadata":{"annotations":{"n":"1.50"},"labels":{"a":"b"},"name":"a","namespace":"n","uid":"u"}"#;
    let expected = format!(r#"{{"apiVersion":"v1","kind":"Pod",{metadata}}}"#);
    assert_eq!(String::from_utf8_lossy(&other.json.bytes()), expected);
    assert_eq!((one.content, one.resource_version, other.resource_version), (other.content, 7, 8));
}
