//! One history: desired states of one object, and edits by other managers between them.

use std::fmt;
use std::time::Duration;

use kube::api::Patch;
use serde_json::{Value, json};
use windlass_e2e::{Namespace, condition};

use super::compare::compare;
use super::kinds::{KINDS, Kind};

/// What writes the desired states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The host, for a parent.
    Host,
    /// `kubectl apply --server-side --force-conflicts`.
    Kubectl,
}

impl Writer {
    /// How long the object may take until it is as a create would give it.
    fn converges_within(self) -> Duration {
        match self {
            Self::Host => Duration::from_secs(10),
            // It applies once.
            Self::Kubectl => Duration::ZERO,
        }
    }
}

/// A difference at the end of a history.
pub struct Difference {
    resource: &'static str,
    text: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.resource, self.text)
    }
}

#[derive(Debug)]
enum Step {
    /// The desired state changes; whether the next step waits until it is applied.
    Desire(Value, bool),
    Edit(Edit),
}

/// An edit by another manager.
pub enum Edit {
    /// `kubectl patch` with a part of another desired state.
    Patch(Value),
    /// `kubectl replace` with another desired state.
    Replace(Value),
    /// Another manager applies a part of another desired state by force, and then nothing.
    ApplyAndLeave(Value),
    /// A field is removed.
    Remove(String),
}

/// A history of one object.
pub struct History {
    seed: u64,
    kind: &'static Kind,
    steps: Vec<Step>,
    last: Value,
}

impl History {
    /// The history of this seed. One half has edits of other managers.
    pub fn of(seed: u64) -> Self {
        fastrand::seed(seed);
        let kind = &KINDS[usize::try_from(seed).expect("a small seed") % KINDS.len()];
        let is_edited = fastrand::bool();
        let mut steps = Vec::new();
        let mut desired = (kind.desired)();
        steps.push(Step::Desire(desired.clone(), true));
        for _ in 0..fastrand::usize(1..=4) {
            if is_edited && fastrand::u8(..10) < 7 {
                steps.push(Step::Edit(Edit::of(kind, &desired)));
            }
            desired = (kind.desired)();
            steps.push(Step::Desire(desired.clone(), fastrand::u8(..10) < 8));
        }
        if is_edited {
            steps.push(Step::Edit(Edit::of(kind, &desired)));
        }
        Self { seed, kind, steps, last: desired }
    }

    /// Plays it, and compares its end with a fresh object.
    pub fn play(&self, namespace: &Namespace<'_>, writer: Writer) -> Vec<Difference> {
        let difference = |text| Difference { resource: self.kind.resource, text };
        let (name, fresh) = (format!("old-{}", self.seed), format!("new-{}", self.seed));
        for step in &self.steps {
            match step {
                Step::Desire(desired, waits) => {
                    desire(namespace, writer, &name, desired);
                    if *waits {
                        // What is refused shows at the end.
                        drop(wait(writer, || is_applied(namespace, writer, &name)));
                    }
                }
                Step::Edit(edit) => edit.play(namespace, self.kind, &name),
            }
        }
        desire(namespace, writer, &fresh, &self.last);
        if let Err(refused) = wait(writer, || is_applied(namespace, writer, &fresh)) {
            return vec![difference(format!("a create is refused: {refused}"))];
        }
        let get = |name: &str| namespace.get(self.kind.resource, name).unwrap_or_default();
        let fresh = get(&fresh);
        let is_as_fresh = || {
            is_applied(namespace, writer, &name)?;
            let differences = compare(&get(&name), &fresh, &self.last);
            if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) }
        };
        let is_last_step_an_edit = !matches!(self.steps.last(), Some(Step::Desire(..)));
        let end = wait(writer, is_as_fresh).or_else(|early| {
            if !is_last_step_an_edit {
                return Err(early);
            }
            // What others leave in fields that nobody owns goes with the next change.
            let mut changed = self.last.clone();
            changed["metadata"]["annotations"]["convergence.example/changed"] = "true".into();
            desire(namespace, writer, &name, &changed);
            drop(wait(writer, || is_applied(namespace, writer, &name)));
            desire(namespace, writer, &name, &self.last);
            wait(writer, is_as_fresh).map(|()| eprintln!("seed {}: only after the next change: {early}", self.seed))
        });
        if end.is_err() && std::env::var_os("WINDLASS_TRACE").is_some() {
            self.steps.iter().for_each(|step| eprintln!("{step:?}"));
            eprintln!("{:#}\n{fresh:#}", get(&name));
        }
        // Another manager may still apply the object, because its last apply was refused: the user decides.
        let is_left = self.steps.iter().all(|step| !matches!(step, Step::Edit(Edit::ApplyAndLeave(_))));
        end.err().filter(|text| is_left || !text.starts_with("FieldConflict")).map(difference).into_iter().collect()
    }
}

impl Edit {
    /// An edit of an object with this desired state.
    pub fn of(kind: &Kind, desired: &Value) -> Self {
        let mut other = (kind.desired)();
        match fastrand::u8(..4) {
            0 => {
                if kind.resource.starts_with("ingresses") && other["spec"]["ingressClassName"].is_null() {
                    // A user begins with the object as it is: with what admission has set.
                    other["spec"]["ingressClassName"] = "usual".into();
                }
                Self::Replace(other)
            }
            1 => Self::Patch(part(&other)),
            2 => {
                let (api_version, object_kind) = (other["apiVersion"].clone(), other["kind"].clone());
                let mut part = part(&other);
                if let Some(part) = part.as_object_mut() {
                    // What comes from it stays, whoever has applied it.
                    part.remove("stringData");
                }
                part["apiVersion"] = api_version;
                part["kind"] = object_kind;
                Self::ApplyAndLeave(part)
            }
            _ => {
                let mut paths = Vec::new();
                leaves(&mut String::new(), desired, &mut paths);
                paths.retain(|path| !["/apiVersion", "/kind"].contains(&path.as_str()));
                Self::Remove(paths.swap_remove(fastrand::usize(..paths.len())))
            }
        }
    }

    /// Edits the object of this name.
    pub fn play(&self, namespace: &Namespace<'_>, kind: &Kind, name: &str) {
        let env = namespace.env();
        let of = (kind.resource, namespace.name(), name);
        // The API server may refuse an edit, which then changes nothing.
        drop(match self {
            Self::Patch(spec) if kind.resource.contains("convergence") => {
                env.try_patch_as("kubectl-patch", of, &Patch::Merge(spec.clone()))
            }
            Self::Patch(spec) => env.try_patch_as("kubectl-patch", of, &Patch::Strategic(spec.clone())),
            Self::Replace(object) => {
                let operations = object.as_object().into_iter().flatten();
                let operations =
                    operations.filter(|(field, _)| !["apiVersion", "kind", "metadata"].contains(&field.as_str()));
                let operations: Vec<_> = operations
                    .map(|(field, value)| json!({ "op": "add", "path": format!("/{field}"), "value": value }))
                    .collect();
                json_patch(env, of, "kubectl-replace", operations)
            }
            Self::ApplyAndLeave(object) => {
                let mut object = object.clone();
                object["metadata"] = json!({ "name": name, "namespace": namespace.name() });
                env.try_apply_as("helm", &object.to_string()).and_then(|()| {
                    let empty = json!({ "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": object["metadata"] });
                    env.try_apply_as("helm", &empty.to_string())
                })
            }
            Self::Remove(path) => json_patch(env, of, "kubectl-edit", vec![json!({ "op": "remove", "path": path })]),
        });
    }
}

/// Makes this the desired state of the object.
fn desire(namespace: &Namespace<'_>, writer: Writer, name: &str, desired: &Value) {
    let mut desired = desired.clone();
    desired["metadata"]["name"] = name.into();
    match writer {
        Writer::Host => {
            namespace.puppet_of("KindsPuppet", name).apply(&json!({ "children": [desired] }));
        }
        Writer::Kubectl => {
            desired["metadata"]["namespace"] = namespace.name().into();
            // What is refused shows at the end.
            drop(namespace.env().try_apply_as("kubectl", &desired.to_string()));
        }
    }
}

/// Whether the desired state is applied, or why not.
fn is_applied(namespace: &Namespace<'_>, writer: Writer, name: &str) -> Result<(), String> {
    if writer == Writer::Kubectl {
        return Ok(());
    }
    let parent = namespace.puppet_of("KindsPuppet", name).get().unwrap_or_default();
    if windlass_e2e::is_done(&parent) {
        return Ok(());
    }
    let ready = condition(&parent, "Ready");
    Err(format!("{}: {}", ready.reason, ready.message))
}

fn json_patch(
    env: &windlass_e2e::Env,
    of: (&str, &str, &str),
    manager: &str,
    operations: Vec<Value>,
) -> Result<(), String> {
    let patch = serde_json::from_value(operations.into()).map_err(|error| error.to_string())?;
    env.try_patch_as(manager, of, &Patch::Json(patch))
}

/// A part of an object: some fields, to a random depth. Lists are taken whole.
fn part(value: &Value) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    let mut part = serde_json::Map::new();
    for (field, value) in map.iter().filter(|(field, _)| !["apiVersion", "kind", "metadata"].contains(&field.as_str()))
    {
        if map.len() < 3 || fastrand::u8(..10) < 4 {
            part.insert(field.clone(), self::part(value));
        }
    }
    part.into()
}

fn leaves(path: &mut String, value: &Value, paths: &mut Vec<String>) {
    let length = path.len();
    let mut below = |key: &str, value: &Value| {
        path.push('/');
        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        leaves(path, value, paths);
        path.truncate(length);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| below(key, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, value)| below(&at.to_string(), value)),
        _ => {}
    }
    // The API server refuses each apply to a ServiceAccount with an item that has no name.
    let is_key = path.ends_with("/name") && path.to_ascii_lowercase().contains("secrets/");
    if length > 0 && !is_key {
        paths.push(path.clone());
    }
}

impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Patch(part) => write!(f, "patch {part}"),
            Self::Replace(object) => write!(f, "replace {object}"),
            Self::ApplyAndLeave(part) => write!(f, "apply and leave {part}"),
            Self::Remove(path) => write!(f, "remove {path}"),
        }
    }
}

/// Waits until the condition has no error; returns the last error.
fn wait(writer: Writer, condition: impl Fn() -> Result<(), String>) -> Result<(), String> {
    let mut last = Ok(());
    let waited = windlass_testbed::until("the end of a step", writer.converges_within(), || {
        last = condition();
        Ok(last.is_ok().then_some(()))
    });
    if waited.is_ok() { Ok(()) } else { last }
}
