//! The CustomResourceDefinition of a plugin.

use schemars::JsonSchema;
use serde_json::Value;

use crate::{
    Reconciler,
    json::{self, object},
    schema::{self, Direction},
};

/// A custom kind. Its CRD has a schema from the plugin's spec and status types, the status subresource, `observedGeneration` and
/// `conditions` in the status, and the columns `Ready` and `Age`.
#[derive(Debug, Clone)]
#[must_use]
pub struct CustomResource {
    group: String,
    version: String,
    kind: String,
    plural: String,
    scope: &'static str,
    short_names: Vec<String>,
    categories: Vec<String>,
    columns: Vec<Value>,
    rules: Vec<Value>,
    spec: Value,
    status: Value,
}

impl CustomResource {
    /// A namespaced kind with this group (`example.com`), version (`v1`) and name (`Greeting`).
    pub fn namespaced<R>(group: &str, version: &str, kind: &str) -> Self
    where
        R: Reconciler<Spec: JsonSchema, Status: JsonSchema>,
    {
        Self::new::<R>(group, version, kind, "Namespaced")
    }

    /// A cluster-scoped kind with this group, version and name.
    pub fn cluster_scoped<R>(group: &str, version: &str, kind: &str) -> Self
    where
        R: Reconciler<Spec: JsonSchema, Status: JsonSchema>,
    {
        Self::new::<R>(group, version, kind, "Cluster")
    }

    fn new<R>(group: &str, version: &str, kind: &str, scope: &'static str) -> Self
    where
        R: Reconciler<Spec: JsonSchema, Status: JsonSchema>,
    {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural(&kind.to_ascii_lowercase()),
            scope,
            short_names: Vec::new(),
            categories: Vec::new(),
            columns: Vec::new(),
            rules: Vec::new(),
            spec: schema::of::<R::Spec>(Direction::Read),
            status: schema::of::<R::Status>(Direction::Written),
        }
    }

    /// Sets the plural. The default is the English plural of the kind (`echo`, `echoes`; `policy`, `policies`).
    pub fn plural(mut self, plural: &str) -> Self {
        plural.clone_into(&mut self.plural);
        self
    }

    /// Adds a short name for kubectl.
    pub fn short_name(mut self, name: &str) -> Self {
        self.short_names.push(name.to_owned());
        self
    }

    /// Adds a category: with category `all`, `kubectl get all` shows objects of this kind.
    pub fn category(mut self, category: &str) -> Self {
        self.categories.push(category.to_owned());
        self
    }

    /// Adds a column of `kubectl get`: its title, its type (`integer`, `number`, `string`, `boolean`, `date`) and the JSON
    /// path of its value. `Ready` (from the conditions) and `Age` are always added; a column of one of these names replaces
    /// it.
    pub fn column(mut self, name: &str, kind: &str, path: &str) -> Self {
        self.columns.push(column(name, kind, path));
        self
    }

    /// Adds a CEL rule on the whole object (`self.metadata.name`, `self.spec`, `oldSelf`, …), and the message for objects that
    /// violate it. Rules on fields belong to the types: `#[schemars(extend("x-kubernetes-validations" = […]))]`.
    pub fn rule(mut self, rule: &str, message: &str) -> Self {
        self.rules.push(object([("rule", rule.into()), ("message", message.into())]));
        self
    }

    /// Adds the rule that the object's name is a label by RFC 1035 of at most `max_length` characters (63 or less): for a
    /// kind whose objects share their name with a Service. A plugin that appends to the name subtracts the length of what it
    /// appends.
    pub fn rfc1035_name(self, max_length: u8) -> Self {
        let rule = format!(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= {max_length}"
        );
        let message = format!(
            "name must be a label of DNS that begins with a letter (a-z, 0-9, -), at most {max_length} characters"
        );
        self.rule(&rule, &message)
    }

    /// The CustomResourceDefinition as JSON.
    pub fn crd(self) -> Value {
        let mut names = object([
            ("kind", self.kind.as_str().into()),
            ("listKind", format!("{}List", self.kind).into()),
            ("plural", self.plural.as_str().into()),
            ("singular", self.kind.to_ascii_lowercase().into()),
        ]);
        set(&mut names, "shortNames", self.short_names.into());
        set(&mut names, "categories", self.categories.into());

        // A spec without required fields is optional.
        let required = if self.spec.get("required").is_some() { vec!["spec"] } else { Vec::new() };
        let mut root = object([
            ("type", "object".into()),
            ("properties", object([("spec", self.spec), ("status", status(self.status))])),
        ]);
        set(&mut root, "required", required.into());
        set(&mut root, "x-kubernetes-validations", self.rules.into());

        let version = object([
            ("name", self.version.into()),
            ("served", true.into()),
            ("storage", true.into()),
            ("subresources", object([("status", object([]))])),
            ("additionalPrinterColumns", columns(self.columns).into()),
            ("schema", object([("openAPIV3Schema", root)])),
        ]);
        object([
            ("apiVersion", "apiextensions.k8s.io/v1".into()),
            ("kind", "CustomResourceDefinition".into()),
            ("metadata", object([("name", format!("{}.{}", self.plural, self.group).into())])),
            (
                "spec",
                object([
                    ("group", self.group.into()),
                    ("names", names),
                    ("scope", self.scope.into()),
                    ("versions", vec![version].into()),
                ]),
            ),
        ])
    }
}

/// Sets a field of an object, unless it would be an empty list.
fn set(object: &mut Value, field: &str, value: Value) {
    if value.as_array().is_none_or(|items| !items.is_empty()) {
        json::set(object, field, value);
    }
}

fn column(name: &str, kind: &str, path: &str) -> Value {
    object([("name", name.into()), ("type", kind.into()), ("jsonPath", path.into())])
}

fn columns(mut columns: Vec<Value>) -> Vec<Value> {
    let missing = |columns: &[Value], name: &str| columns.iter().all(|column| column.get("name") != Some(&name.into()));
    if missing(&columns, "Ready") {
        columns.insert(0, column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"));
    }
    if missing(&columns, "Age") {
        columns.push(column("Age", "date", ".metadata.creationTimestamp"));
    }
    columns
}

/// The plugin's fields and the host's. None is required: after a failed first call, the status has only the host's fields.
fn status(plugin: Value) -> Value {
    let mut properties = object([]);
    let mut status = object([("type", "object".into())]);
    if let Value::Object(plugin) = plugin {
        for (keyword, value) in plugin {
            match keyword.as_str() {
                "properties" => properties = value,
                "required" | "nullable" | "type" => {}
                _ => set(&mut status, &keyword, value),
            }
        }
    }
    set(&mut properties, "observedGeneration", generation());
    set(&mut properties, "conditions", conditions());
    set(&mut status, "properties", properties);
    status
}

/// A list of `metav1.Condition` with the bounds of that type.
fn conditions() -> Value {
    let text = |mut bounds: Value| {
        set(&mut bounds, "type", "string".into());
        bounds
    };
    let reason = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
    let properties = object([
        ("type", text(object([("maxLength", 316.into())]))),
        ("status", text(object([("enum", strings(&["True", "False", "Unknown"]))]))),
        ("observedGeneration", generation()),
        ("lastTransitionTime", text(object([("format", "date-time".into())]))),
        ("reason", text(object([("minLength", 1.into()), ("maxLength", 1024.into()), ("pattern", reason.into())]))),
        ("message", text(object([("maxLength", 32768.into())]))),
    ]);
    let items = object([
        ("type", "object".into()),
        ("required", strings(&["lastTransitionTime", "message", "reason", "status", "type"])),
        ("properties", properties),
    ]);
    object([
        ("type", "array".into()),
        ("x-kubernetes-list-type", "map".into()),
        ("x-kubernetes-list-map-keys", strings(&["type"])),
        ("items", items),
    ])
}

fn generation() -> Value {
    object([("type", "integer".into()), ("format", "int64".into()), ("minimum", 0.into())])
}

fn strings(strings: &[&str]) -> Value {
    strings.to_vec().into()
}

/// The English plural of a kind.
fn plural(singular: &str) -> String {
    let before_y = singular.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    if let Some(stem) = before_y {
        return format!("{stem}ies");
    }
    if singular.ends_with(['s', 'x', 'z', 'o']) || singular.ends_with("ch") || singular.ends_with("sh") {
        return format!("{singular}es");
    }
    format!("{singular}s")
}

#[cfg(test)]
mod tests {
    use super::plural;

    #[test]
    fn plurals_are_english() {
        let kinds = ["echo", "myapp", "networkpolicy", "gateway", "ingress", "index", "switch", "mysqlcluster"];
        assert_eq!(
            kinds.map(plural),
            ["echoes", "myapps", "networkpolicies", "gateways", "ingresses", "indexes", "switches", "mysqlclusters"]
        );
    }
}
