//! Every invalid spec of the golden cases, written by a user: refused, with the field named.

use std::fs;

use serde_json::Value;
use windlass_e2e::{condition, text};

use crate::{APPLICATION, ECHO, Kind, MYAPP, MYSQLCLUSTER, root, stage, wait_for};

fn yaml(path: &std::path::Path) -> Value {
    let text = fs::read_to_string(path).expect("a case");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[track_caller]
fn assert_refused(plugin: &str, kind: Kind, at_least: usize) {
    let ns = &stage().env.namespace(&format!("invalid-{plugin}"));
    let folder = root().join("plugins").join(plugin).join("cases");
    let mut refused = 0;
    for entry in fs::read_dir(&folder).expect("the cases") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let case = (name.starts_with("invalid-") && !name.ends_with(".answer")).then(|| yaml(&path));
        // What is wrong only beside children that exist is shown where they do.
        let is_of_a_claim = |child: &Value| child["kind"] == "PersistentVolumeClaim";
        let is_alone = |case: &Value| !case["children"].as_array().into_iter().flatten().any(is_of_a_claim);
        let Some(case) = case.filter(is_alone) else { continue };
        let answer = yaml(&path.with_file_name(format!("{name}.answer.yaml")));
        let message = text(&answer, "/invalid");
        // `spec.env[1].name: …`: the API server may speak of all of `spec.env`.
        let field = message.split([':', '[']).next().unwrap_or_default();
        let field = field.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        assert!(field.starts_with("spec."), "{name}: {message:?} names no field");
        let parent = name.replace('.', "-");
        if let Err(error) = kind.try_replace(ns, &parent, &case["parent"]["spec"]) {
            assert!(error.contains(&field), "{name}: {field} is not named: {error}");
        } else {
            let stalled =
                wait_for(ns, kind.resource, &parent, |parent| condition(parent, "Stalled").reason == "InvalidSpec");
            let said = condition(&stalled, "Stalled").message;
            assert!(said.contains(&message), "{name}: {said:?} is not {message:?}");
        }
        refused += 1;
    }
    assert!(refused >= at_least, "{refused} cases");
    for resource in ["pods", "deployments", "services", "persistentvolumeclaims", "secrets"] {
        assert!(ns.env().list(resource, ns.name()).is_empty(), "{resource} are made of what is invalid");
    }
}

#[test]
fn applications_that_cannot_be_are_refused_and_the_field_is_named() {
    assert_refused("application", APPLICATION, 20);
}

#[test]
fn echoes_that_cannot_be_are_refused_and_the_field_is_named() {
    assert_refused("echo", ECHO, 5);
}

#[test]
fn myapps_that_cannot_be_are_refused_and_the_field_is_named() {
    assert_refused("myapp", MYAPP, 10);
}

#[test]
fn mysqlclusters_that_cannot_be_are_refused_and_the_field_is_named() {
    assert_refused("mysqlcluster", MYSQLCLUSTER, 8);
}
