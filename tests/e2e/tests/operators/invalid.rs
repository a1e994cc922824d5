//! Every invalid spec of the golden cases is rejected, with the name of the field.

use std::fs;

use serde_json::Value;
use windlass_e2e::{condition, text};

use crate::{APPLICATION, ECHO, Kind, MYAPP, MYSQLCLUSTER, POSTGRESCLUSTER, root, stage, wait_for};

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
        // Cases that are invalid only because of an existing claim are skipped here: mysqlcluster.rs and
        // postgres.rs have such cases.
        let is_claim = |child: &Value| child["kind"] == "PersistentVolumeClaim";
        let has_no_claim = |case: &Value| !case["children"].as_array().into_iter().flatten().any(is_claim);
        let Some(case) = case.filter(has_no_claim) else { continue };
        let response = yaml(&path.with_file_name(format!("{name}.answer.yaml")));
        let message = text(&response, "/invalid");
        // For `spec.env[1].name: …`, the API server may name only `spec.env`.
        let field = message.split([':', '[']).next().unwrap_or_default();
        let field = field.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        assert!(field.starts_with("spec."), "{name}: {message:?} names no field");
        let parent = name.replace('.', "-");
        if let Err(error) = kind.try_replace(ns, &parent, &case["parent"]["spec"]) {
            assert!(error.contains(&field), "{name}: {field} is not named: {error}");
        } else {
            let stalled =
                wait_for(ns, kind.resource, &parent, |parent| condition(parent, "Stalled").reason == "InvalidSpec");
            let stalled_message = condition(&stalled, "Stalled").message;
            assert!(stalled_message.contains(&message), "{name}: {stalled_message:?} is not {message:?}");
        }
        refused += 1;
    }
    assert!(refused >= at_least, "{refused} cases");
    for resource in ["pods", "deployments", "services", "persistentvolumeclaims", "secrets"] {
        assert!(ns.env().list(resource, ns.name()).is_empty(), "an invalid parent has {resource}");
    }
}

#[test]
fn invalid_application_is_rejected_with_the_name_of_the_field() {
    assert_refused("application", APPLICATION, 20);
}

#[test]
fn invalid_echo_is_rejected_with_the_name_of_the_field() {
    assert_refused("echo", ECHO, 5);
}

#[test]
fn invalid_myapp_is_rejected_with_the_name_of_the_field() {
    assert_refused("myapp", MYAPP, 10);
}

#[test]
fn invalid_mysqlcluster_is_rejected_with_the_name_of_the_field() {
    assert_refused("mysqlcluster", MYSQLCLUSTER, 8);
}

#[test]
fn invalid_postgrescluster_is_rejected_with_the_name_of_the_field() {
    assert_refused("postgres", POSTGRESCLUSTER, 7);
}
