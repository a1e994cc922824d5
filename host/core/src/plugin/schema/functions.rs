//! Which version of Kubernetes the CEL rules of a CRD need.
//!
//! The API server refuses a CRD whose rules call functions that it does not know. It accepts the functions of a library one version
//! after it introduced the library, so that it can be downgraded (k8s.io/apiserver/pkg/cel/environment).

use std::fmt;

use serde_json::Value;

use super::structural::join;

/// The oldest version of Kubernetes 1 that Windlass supports; it has all functions that [`FUNCTIONS`] does not name.
pub const OLDEST: u32 = 30;

/// Functions that CRDs can use from a version of Kubernetes 1 on. With a dot, the name of the library is a part of it.
pub const FUNCTIONS: [(u32, &[&str]); 5] = [
    (31, &["ip", "isIP", "cidr", "isCIDR", "ip.isCanonical"]),
    (32, &["format.named", "format.dns1123Label", "format.dns1123Subdomain", "format.uuid", "format.labelValue"]),
    (33, &["transformList", "transformMap", "transformMapEntry", "first", "last"]),
    (34, &["semver", "isSemver"]),
    (35, &["lists.range", "slice", "flatten", "distinct", "reverse", "sort", "sortBy"]),
];

/// What makes a CRD need a version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The minor version of Kubernetes 1.
    pub minor: u32,
    /// The function, and the field whose rule calls it, as in `spec.ranges`; none if [`OLDEST`] suffices.
    pub function: Option<(&'static str, String)>,
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{} or newer", self.minor)?;
        match &self.function {
            Some((name, field)) => {
                write!(f, ", for {name} in a rule of {}", if field.is_empty() { "the object" } else { field })
            }
            None => Ok(()),
        }
    }
}

/// The version of Kubernetes that a CRD's rules need. A function that this module does not know counts as one of [`OLDEST`].
pub fn needs(definition: &Value) -> Needs {
    let mut needs = Needs { minor: OLDEST, function: None };
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    for schema in versions.into_iter().flatten().filter_map(|version| version.pointer("/schema/openAPIV3Schema")) {
        of_schema(schema, "", &mut needs);
    }
    needs
}

fn of_schema(schema: &Value, path: &str, needs: &mut Needs) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    for rule in rules.into_iter().flatten() {
        let texts = ["rule", "messageExpression"].iter().filter_map(|field| rule.get(field)?.as_str());
        let found = texts
            .flat_map(|text| FUNCTIONS.iter().filter_map(move |(minor, names)| Some((*minor, called(text, names)?))));
        for (minor, name) in found {
            if minor > needs.minor {
                *needs = Needs { minor, function: Some((name, path.to_owned())) };
            }
        }
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        of_schema(property, &join(path, name), needs);
    }
    for (field, suffix) in [("items", "[]"), ("additionalProperties", "[]")] {
        if let Some(inner) = schema.get(field) {
            of_schema(inner, &format!("{path}{suffix}"), needs);
        }
    }
}

/// The first of these functions that an expression calls, outside its string literals.
fn called(expression: &str, names: &[&'static str]) -> Option<&'static str> {
    let code = without_strings(expression);
    names.iter().copied().find(|name| {
        code.match_indices(name).any(|(at, _)| {
            let before = code.get(..at).unwrap_or_default().chars().next_back();
            let after = code.get(at + name.len()..).unwrap_or_default();
            let begins = !before.is_some_and(|char| char.is_alphanumeric() || char == '_');
            // A function with a library in its name is no method.
            begins && (before != Some('.') || !name.contains('.')) && after.trim_start().starts_with('(')
        })
    })
}

/// An expression with empty string literals. In raw literals (`r'…'`), a backslash is taken to escape, too.
fn without_strings(expression: &str) -> String {
    let mut code = String::new();
    let mut quote = None;
    let mut chars = expression.chars();
    while let Some(char) = chars.next() {
        match quote {
            // What is escaped ends no literal.
            Some(_) if char == '\\' => drop(chars.next()),
            Some(end) if char == end => quote = None,
            Some(_) => {}
            None => {
                code.push(char);
                quote = ['"', '\''].contains(&char).then_some(char);
            }
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_rule(rule: &str) -> Value {
        with(&json!({ "rule": rule }))
    }

    fn with(validation: &Value) -> Value {
        let ranges =
            json!({ "type": "array", "items": { "type": "string", "x-kubernetes-validations": [validation] } });
        let spec = json!({ "type": "object", "properties": { "ranges": ranges } });
        let schema = json!({ "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } });
        json!({ "spec": { "versions": [{ "name": "v1", "schema": schema }] } })
    }

    #[test]
    fn version_is_that_of_the_newest_function_in_a_rule() {
        for (rule, minor, function) in [
            ("self.size() > 0", 30, None),
            ("isCIDR(self)", 31, Some("isCIDR")),
            ("isIP(self) && self.reverse () == 'x'", 35, Some("reverse")),
            ("format.dns1123Label().validate(self)", 32, Some("format.dns1123Label")),
            // Not the functions: a string, a field, a method of another library, a longer name.
            ("self == 'isCIDR(x)' || self == \"\\\"isIP(x)\"", 30, None),
            ("self.sort == 1 && '%s'.format([self]) != '' && mysort(self)", 30, None),
        ] {
            let needed = needs(&with_rule(rule));
            let at = || "spec.ranges[]".to_owned();
            if minor == 31 {
                assert_eq!(needed.to_string(), "1.31 or newer, for isCIDR in a rule of spec.ranges[]");
            }
            assert_eq!(needed, Needs { minor, function: function.map(|name| (name, at())) }, "{rule}");
        }
    }

    #[test]
    fn function_in_a_message_counts_and_the_newest_one_is_named() {
        for rule in [
            json!({ "rule": "self.reverse() == ''", "messageExpression": "isIP(self) ? 'a' : 'b'" }),
            json!({ "rule": "isIP(self)", "messageExpression": "self.reverse()" }),
        ] {
            assert_eq!(
                needs(&with(&rule)).to_string(),
                "1.35 or newer, for reverse in a rule of spec.ranges[]",
                "{rule}"
            );
        }
    }
}
