//! Names the fields in which two states of an object differ, for people.

use crate::json::{Value, parse};

/// Fields of `metadata` that the API server changes with every write.
const BOOKKEEPING: [&str; 3] = ["generation", "managedFields", "resourceVersion"];
/// Deepest nesting that is read.
const DEPTH_MAX: usize = 200;

/// The paths of the fields in which two states of an object differ, as in `spec.replicas`: at most `max`, in the order of
/// their names. A list is one field. Changes of the status are one path, `status`. Without a path, the states differ in
/// nothing but what the API server writes itself, or one of them is not valid JSON.
pub fn changed_fields(before: &[u8], after: &[u8], max: usize) -> Vec<String> {
    let (Ok(before), Ok(after)) = (parse(before, DEPTH_MAX), parse(after, DEPTH_MAX)) else { return Vec::new() };
    let mut paths = Vec::new();
    differing(Some(&before), Some(&after), "", &mut paths);
    paths.truncate(max);
    paths
}

fn differing(before: Option<&Value>, after: Option<&Value>, path: &str, paths: &mut Vec<String>) {
    if before == after {
        return;
    }
    let maps = (before.and_then(Value::as_object), after.and_then(Value::as_object));
    let (Some(before), Some(after)) = maps else { return paths.push(path.to_owned()) };
    if path == "status" {
        return paths.push(path.to_owned());
    }
    let added = after.iter().map(|(key, _)| key).filter(|key| before.get(key).is_none());
    let mut keys: Vec<_> = before.iter().map(|(key, _)| key).chain(added).collect();
    keys.sort_unstable();
    for key in keys {
        if path == "metadata" && BOOKKEEPING.contains(&key) {
            continue;
        }
        let inner = match path {
            "" => key.to_owned(),
            path if key.contains('.') => format!("{path}[{key}]"),
            path => format!("{path}.{key}"),
        };
        differing(before.get(key), after.get(key), &inner, paths);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_fields_are_named_by_their_paths() {
        let before = r#"{"metadata":{"name":"a","labels":{"app.kubernetes.io/name":"x"},"resourceVersion":"1","generation":1},
            "spec":{"replicas":1,"image":"a","ports":[1,2]},"status":{"ready":1}}"#;
        let after = r#"{"metadata":{"name":"a","labels":{"app.kubernetes.io/name":"y"},"resourceVersion":"2","generation":2},
            "spec":{"replicas":2,"ports":[1,3],"paused":true},"status":{"ready":2,"extra":true}}"#;
        let all = changed_fields(before.as_bytes(), after.as_bytes(), 10);
        assert_eq!(
            all,
            [
                "metadata.labels[app.kubernetes.io/name]",
                "spec.image",
                "spec.paused",
                "spec.ports",
                "spec.replicas",
                "status"
            ]
        );
        assert_eq!(changed_fields(before.as_bytes(), after.as_bytes(), 2), all[..2]);
    }

    #[test]
    fn states_that_differ_only_in_the_api_servers_bookkeeping_have_no_changed_field() {
        let of =
            |version: u8| format!(r#"{{"metadata":{{"resourceVersion":"{version}","managedFields":[{version}]}}}}"#);
        assert_eq!(changed_fields(of(1).as_bytes(), of(2).as_bytes(), 3), [""; 0]);
        assert_eq!(changed_fields(b"not JSON", b"{}", 3), [""; 0]);
    }
}
