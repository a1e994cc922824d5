//! What `windlass diff` shows is what the host then writes: random parents with random histories, previewed while no host runs.
//!
//! A few may differ: where the host first has an error and corrects it in its next reconcile.
//!
//! After an error the preview shows what follows as if there were none, so of a parent with an error only the objects are compared that the
//! error names.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use windlass_e2e::{Env, Namespace, condition, guest, text, windlass};

use super::compare::normalized;
use super::history::Edit;
use super::kinds::{KINDS, Kind};

/// Resource and name of an object.
type Id = (&'static str, String);

/// A child of a random kind.
struct Child {
    kind: &'static Kind,
    desired: Value,
}

/// A parent and what becomes of it.
pub struct Previewed {
    name: String,
    before: Vec<Child>,
    edits: Vec<(usize, Edit)>,
    after: Vec<Child>,
    trouble: Trouble,
}

/// Why the host cannot do all that the plugin desires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    None,
    /// An object without a controller has the name of a new child.
    NameIsTaken,
    /// The API server rejects a new child.
    Invalid,
    /// The plugin calls the spec invalid.
    PluginFails,
    /// The parent is suspended.
    Suspended,
}

impl Previewed {
    /// The parent of this seed.
    pub fn of(seed: u64) -> Self {
        fastrand::seed(seed);
        let name = format!("parent-{seed}");
        let child = |kind: &'static Kind, at: usize| {
            let mut desired = (kind.desired)();
            desired["metadata"]["name"] = format!("{name}-{at}").into();
            Child { kind, desired }
        };
        let kind = || &KINDS[fastrand::usize(..KINDS.len())];
        let before: Vec<_> = (0..fastrand::usize(1..=4)).map(|at| child(kind(), at)).collect();
        let edited = before.iter().enumerate().filter(|_| fastrand::u8(..10) < 3);
        let edits = edited.map(|(at, one)| (at, Edit::of(one.kind, &one.desired))).collect();
        let mut after = Vec::new();
        for (at, one) in before.iter().enumerate() {
            match fastrand::u8(..10) {
                0..3 => after.push(Child { kind: one.kind, desired: one.desired.clone() }),
                3..8 => after.push(child(one.kind, at)),
                _ => {}
            }
        }
        after.extend((before.len()..before.len() + fastrand::usize(..=2)).map(|at| child(kind(), at)));
        let trouble = match fastrand::u8(..20) {
            0 => Trouble::NameIsTaken,
            1 => Trouble::Invalid,
            2 => Trouble::PluginFails,
            3 => Trouble::Suspended,
            _ => Trouble::None,
        };
        Self { name, before, edits, after, trouble }
    }

    /// Makes the first children desired.
    pub fn begin(&self, namespace: &Namespace<'_>) {
        let desired: Vec<_> = self.before.iter().map(|child| &child.desired).collect();
        namespace.puppet_of("KindsPuppet", &self.name).apply(&json!({ "children": desired }));
    }

    /// Edits children, and makes the next ones desired.
    pub fn change(&self, namespace: &Namespace<'_>) {
        for (at, edit) in &self.edits {
            let child = &self.before[*at];
            edit.play(namespace, child.kind, &text(&child.desired, "/metadata/name"));
        }
        let mut desired: Vec<_> = self.after.iter().map(|child| &child.desired).collect();
        let extra = format!("{}-extra", self.name);
        let metadata = json!({ "name": extra });
        let taken = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
        let invalid = json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": { "ports": [{ "port": 0 }] } });
        let mut fail = Value::Null;
        match self.trouble {
            Trouble::None => {}
            Trouble::NameIsTaken => {
                namespace.kubectl(&["create", "configmap", &extra, "--from-literal=a=b"]);
                desired.push(&taken);
            }
            Trouble::Invalid => desired.push(&invalid),
            Trouble::PluginFails => fail = json!({ "invalid": "it is odd" }),
            Trouble::Suspended => {
                namespace.puppet_of("KindsPuppet", &self.name).kubectl("annotate", &["windlass.dev/suspend=true"]);
            }
        }
        // The spec always changes, so that its status shows the end.
        let spec = json!({ "children": desired, "fail": fail, "stall": 1 });
        namespace.puppet_of("KindsPuppet", &self.name).apply(&spec);
    }

    /// Whether the host has done what it can, with this trouble.
    fn is_settled(&self, namespace: &Namespace<'_>, trouble: Trouble) -> bool {
        let parent = namespace.puppet_of("KindsPuppet", &self.name).get().unwrap_or_default();
        let ready = condition(&parent, "Ready");
        let of_conditions = parent["status"]["conditions"].as_array().into_iter().flatten();
        let mut of_ready = of_conditions.filter(|condition| condition["type"] == "Ready");
        if of_ready.next().is_none_or(|ready| ready["observedGeneration"] != parent["metadata"]["generation"]) {
            return false;
        }
        match trouble {
            // The API server may refuse the change of an immutable field, and another manager may own one.
            Trouble::None => {
                windlass_e2e::is_done(&parent) || ["ChildRejected", "FieldConflict"].contains(&ready.reason.as_str())
            }
            Trouble::NameIsTaken => ready.is_false("Conflict") || ready.is_false("ChildRejected"),
            Trouble::Invalid => ready.is_false("ChildRejected"),
            Trouble::PluginFails => ready.is_false("InvalidSpec"),
            Trouble::Suspended => ready.reason == "Suspended",
        }
    }

    /// Kind and name of all objects that are or were its children.
    fn objects(&self) -> BTreeMap<Id, &'static Kind> {
        let all = self.before.iter().chain(&self.after);
        all.map(|child| ((child.kind.resource, text(&child.desired, "/metadata/name")), child.kind)).collect()
    }
}

/// What was compared.
#[derive(Debug, Default)]
pub struct Compared {
    /// The number of objects, by what the host did.
    verbs: BTreeMap<&'static str, usize>,
    troubles: BTreeMap<Trouble, usize>,
    errors: usize,
    differences: Vec<String>,
}

/// Previews parents while no host runs, lets a host work, and compares.
pub fn compare(env: &Env, parents: &[Previewed]) -> Compared {
    let namespace = super::namespace(env, "previews");
    let host = env.start_host();
    for parent in parents {
        parent.begin(&namespace);
    }
    settle(&namespace, parents, |_| Trouble::None);
    drop(host);
    for parent in parents {
        parent.change(&namespace);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let shown = diff(env, &namespace, folder.path());
    let live: Vec<_> = parents.iter().map(|parent| live(&namespace, parent)).collect();
    let _host = env.start_host();
    settle(&namespace, parents, |parent| parent.trouble);
    let mut compared = Compared::default();
    for (parent, live) in parents.iter().zip(live) {
        *compared.troubles.entry(parent.trouble).or_default() += 1;
        if std::env::var_os("WINDLASS_TRACE").is_some() {
            for object in live.values() {
                eprintln!("{object}");
            }
            eprintln!("{:?}", parent.edits);
        }
        let error = format!("error: KindsPuppet {}/{}: ", namespace.name(), parent.name);
        let errors: Vec<_> = shown.lines().filter(|line| line.starts_with(&error)).collect();
        compared.errors += errors.len();
        for error in &errors {
            eprintln!("{error}");
        }
        for (id, kind) in parent.objects() {
            let (before, after) = (live.get(&id), namespace.get(kind.resource, &id.1));
            let name = format!("{} {}", id.0, id.1);
            let (verb, expected) = match (preview(folder.path(), kind, &namespace, &id.1), before) {
                (Shown::Unchanged, before) => ("unchanged", before.cloned()),
                (Shown::Deleted, _) => ("deleted", None),
                (Shown::Changed(expected), None) => ("created", Some(expected)),
                (Shown::Changed(expected), Some(_)) => ("updated", Some(expected)),
            };
            if errors.is_empty() || verb == "unchanged" {
                compared.compare(verb, &name, expected.as_ref(), after.as_ref());
            }
        }
    }
    compared
}

impl Compared {
    fn compare(&mut self, verb: &'static str, name: &str, expected: Option<&Value>, found: Option<&Value>) {
        *self.verbs.entry(verb).or_default() += 1;
        let [expected, found] = [expected, found].map(|object| object.map(normalized).map(without_empty));
        if expected != found {
            let show = |object: Option<Value>| object.map_or_else(|| "nothing".to_owned(), |object| object.to_string());
            self.differences.push(format!("{verb} {name}: {}\n  not {}", show(found), show(expected)));
        }
    }

    /// Prints the counts and the differences. Returns the number of differences, and of objects.
    pub fn print(&self) -> (usize, usize) {
        eprintln!("{:?}, {:?}, {} errors", self.verbs, self.troubles, self.errors);
        self.differences.iter().for_each(|difference| eprintln!("{difference}"));
        (self.differences.len(), self.verbs.values().sum())
    }
}

/// Without empty maps and lists, which an apply leaves out and a create stores. Only of selectors and volumes, an empty one means something.
fn without_empty(mut value: Value) -> Value {
    let is_empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty) || *value == json!([]);
    if let Value::Object(map) = &mut value {
        for (field, below) in std::mem::take(map) {
            let below = without_empty(below);
            if !is_empty(&below) || field.ends_with("elector") || field == "emptyDir" {
                map.insert(field, below);
            }
        }
    } else if let Value::Array(items) = &mut value {
        for item in items {
            *item = without_empty(item.take());
        }
    }
    value
}

/// Waits until the host has done what it can for all parents.
fn settle(namespace: &Namespace<'_>, parents: &[Previewed], trouble: impl Fn(&Previewed) -> Trouble) {
    for parent in parents {
        let is_settled = || parent.is_settled(namespace, trouble(parent)).then_some(());
        namespace.env().wait(&parent.name, windlass_e2e::TIMEOUT, is_settled);
    }
}

fn live(namespace: &Namespace<'_>, parent: &Previewed) -> BTreeMap<Id, Value> {
    let found = parent.objects().into_keys().map(|id| (namespace.get(id.0, &id.1), id));
    found.filter_map(|(object, id)| Some((id, object?))).collect()
}

/// Runs the preview of all parents; the program that compares copies the objects to this folder. Returns the notes and errors.
fn diff(env: &Env, namespace: &Namespace<'_>, folder: &Path) -> String {
    let mut command = windlass();
    command.arg("diff").arg(guest("puppets/puppet-kinds")).args(["--show-secrets", "-n", namespace.name()]);
    command.arg("--kubeconfig").arg(env.cluster().kubeconfig());
    command.env("KUBECTL_EXTERNAL_DIFF", format!("cp -r -t {}", folder.display()));
    let output = command.output().expect("windlass starts");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the preview shows of an object.
enum Shown {
    Unchanged,
    Deleted,
    Changed(Value),
}

fn preview(folder: &Path, kind: &Kind, namespace: &Namespace<'_>, name: &str) -> Shown {
    let api_version = text(&(kind.desired)(), "/apiVersion");
    let file =
        format!("{}.{}.{}.{name}", api_version.replace('/', "."), text(&(kind.desired)(), "/kind"), namespace.name());
    let side = |prefix: &str| {
        let sides = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let mut sides =
            sides.filter(|side| side.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)));
        sides.next().and_then(|side| fs::read_to_string(side.join(&file)).ok())
    };
    let (live, desired) = (side("LIVE-"), side("DESIRED-"));
    match (live, desired) {
        (_, Some(yaml)) => Shown::Changed(serde_saphyr::from_str(&yaml).expect("YAML")),
        (Some(_), None) => Shown::Deleted,
        (None, None) => Shown::Unchanged,
    }
}
