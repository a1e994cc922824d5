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

use super::choices::merge;
use super::compare::normalized;
use super::history::Edit;
use super::kinds::{CONFIG_MAP, KINDS, Kind, RELAY};

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

/// What makes a parent another than most: why the host cannot do all that the plugin desires, or what else it must do for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    None,
    /// An object of another controller has the name of a new child.
    NameIsTaken,
    /// The API server rejects a new child.
    Invalid,
    /// The plugin calls the spec invalid.
    PluginFails,
    /// The parent is suspended.
    Suspended,
    /// Another manager has applied a field that the plugin desires.
    FieldConflict,
    /// Without a change of the spec, most children are no longer desired.
    DeletionsBlocked,
    /// An object without a controller has the name of a new child.
    Adopted,
    /// A child is recreated.
    Recreated,
    /// A child is of a kind that the plugin does not declare.
    Refused,
}

const TROUBLES: [Trouble; 10] = [
    Trouble::None,
    Trouble::NameIsTaken,
    Trouble::Invalid,
    Trouble::PluginFails,
    Trouble::Suspended,
    Trouble::FieldConflict,
    Trouble::DeletionsBlocked,
    Trouble::Adopted,
    Trouble::Recreated,
    Trouble::Refused,
];

/// The children that a parent has for the keys of a `ConfigMap`, before most of them are deleted.
const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

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
            4 => Trouble::FieldConflict,
            5 => Trouble::DeletionsBlocked,
            6 => Trouble::Adopted,
            7 => Trouble::Recreated,
            8 => Trouble::Refused,
            _ => Trouble::None,
        };
        let mut parent = Self { name, before, edits, after, trouble };
        parent.add_children_of_trouble();
        parent
    }

    /// For each trouble, the first seed that has it.
    pub fn first_of_each_trouble() -> Vec<u64> {
        let first = |trouble: &Trouble| (1..10_000).find(|seed| Self::of(*seed).trouble == *trouble);
        TROUBLES.iter().filter_map(first).collect()
    }

    /// The name of the child that has the trouble.
    fn extra(&self) -> String {
        format!("{}-extra", self.name)
    }

    /// Adds the children that have the trouble.
    fn add_children_of_trouble(&mut self) {
        let name = self.extra();
        let of = |kind: &'static Kind, (api_version, kind_name): (&str, &str), rest: Value| {
            let object = json!({ "apiVersion": api_version, "kind": kind_name, "metadata": { "name": name } });
            Child { kind, desired: merge(object, rest) }
        };
        let map = |value: &str| of(CONFIG_MAP, ("v1", "ConfigMap"), json!({ "data": { "a": value } }));
        let relay = |size: u8| of(RELAY, ("convergence.example/v1", "Relay"), json!({ "spec": { "size": size } }));
        let service = || of(&KINDS[3], ("v1", "Service"), json!({ "spec": { "ports": [{ "port": 0 }] } }));
        match self.trouble {
            Trouble::None | Trouble::PluginFails | Trouble::Suspended => {}
            Trouble::NameIsTaken | Trouble::Adopted => self.after.push(map("desired")),
            Trouble::Invalid => self.after.push(service()),
            Trouble::FieldConflict => {
                self.before.push(map("first"));
                self.after.push(map("second"));
            }
            Trouble::DeletionsBlocked => {
                self.edits.clear();
                let same = |child: &Child| Child { kind: child.kind, desired: child.desired.clone() };
                self.after = self.before.iter().map(same).collect();
            }
            Trouble::Recreated => {
                self.before.push(relay(1));
                self.after.push(relay(2));
            }
            Trouble::Refused => self.after.push(of(RELAY, ("v1", "Endpoints"), json!({}))),
        }
    }

    /// The spec of the parent with these children.
    fn spec(&self, children: &[Child]) -> Value {
        let children: Vec<_> = children.iter().map(|child| &child.desired).collect();
        let mut spec = json!({ "children": children });
        if self.trouble == Trouble::DeletionsBlocked {
            let wanted = json!({ "id": "keys", "apiVersion": "v1", "kind": "ConfigMap", "name": self.extra() });
            spec = merge(spec, json!({ "requirements": [wanted], "childrenFrom": "keys" }));
        }
        spec
    }

    /// Makes the first children desired.
    pub fn begin(&self, namespace: &Namespace<'_>) {
        if self.trouble == Trouble::DeletionsBlocked {
            let keys = KEYS.map(|key| format!("--from-literal={key}=1"));
            let mut create = vec!["create", "configmap"];
            let name = self.extra();
            create.push(&name);
            create.extend(keys.iter().map(String::as_str));
            namespace.kubectl(&create);
        }
        namespace.puppet_of("KindsPuppet", &self.name).apply(&self.spec(&self.before));
    }

    /// Edits children, and makes the next ones desired.
    pub fn change(&self, namespace: &Namespace<'_>) {
        for (at, edit) in &self.edits {
            let child = &self.before[*at];
            edit.play(namespace, child.kind, &text(&child.desired, "/metadata/name"));
        }
        let (extra, mut fail) = (self.extra(), Value::Null);
        let puppet = namespace.puppet_of("KindsPuppet", &self.name);
        match self.trouble {
            Trouble::None | Trouble::Invalid | Trouble::Recreated | Trouble::Refused => {}
            Trouble::NameIsTaken => {
                let owner = namespace.get("configmaps", "kube-root-ca.crt").expect("the cluster's own object");
                let owner = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "controller": true,
                    "uid": owner["metadata"]["uid"],
                });
                let metadata = json!({ "name": extra, "namespace": namespace.name(), "ownerReferences": [owner] });
                let taken = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
                namespace.env().apply(&taken.to_string());
            }
            Trouble::Adopted => drop(namespace.kubectl(&["create", "configmap", &extra, "--from-literal=b=c"])),
            Trouble::FieldConflict => {
                let metadata = json!({ "name": extra, "namespace": namespace.name() });
                let data = json!({ "a": "of another" });
                let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
                namespace.env().apply_as("another", &other.to_string());
            }
            Trouble::DeletionsBlocked => {
                let patch =
                    json!({ "data": KEYS[1..].iter().map(|key| (*key, Value::Null)).collect::<BTreeMap<_, _>>() });
                namespace.kubectl(&["patch", "configmap", &extra, "--type=merge", "-p", &patch.to_string()]);
                return;
            }
            Trouble::PluginFails => fail = json!({ "invalid": "it is odd" }),
            Trouble::Suspended => drop(puppet.kubectl("annotate", &["windlass.dev/suspend=true"])),
        }
        // The spec always changes, so that its status shows the end.
        puppet.apply(&merge(self.spec(&self.after), json!({ "fail": fail, "stall": 1 })));
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
            Trouble::None | Trouble::Adopted | Trouble::Recreated => {
                windlass_e2e::is_done(&parent) || ["ChildRejected", "FieldConflict"].contains(&ready.reason.as_str())
            }
            Trouble::NameIsTaken => ready.is_false("Conflict") || ready.is_false("ChildRejected"),
            Trouble::Invalid => ready.is_false("ChildRejected"),
            Trouble::PluginFails => ready.is_false("InvalidSpec"),
            Trouble::Suspended => ready.reason == "Suspended",
            Trouble::FieldConflict => ready.is_false("FieldConflict"),
            Trouble::DeletionsBlocked => ready.is_false("DeletionBlocked"),
            Trouble::Refused => ready.is_false("ResponseRejected"),
        }
    }

    /// Kind and name of all objects that are or were its children.
    fn objects(&self) -> BTreeMap<Id, &'static Kind> {
        let all = self.before.iter().chain(&self.after);
        let mut all: BTreeMap<_, _> =
            all.map(|child| ((child.kind.resource, text(&child.desired, "/metadata/name")), child.kind)).collect();
        if self.trouble == Trouble::DeletionsBlocked {
            let names = KEYS.map(|key| format!("{}-{key}", self.name));
            all.extend(names.map(|name| ((CONFIG_MAP.resource, name), CONFIG_MAP)));
        }
        all
    }

    /// What the host does with an object, by what the preview shows of it.
    fn verb(&self, id: &Id, shown: &'static str) -> &'static str {
        match (self.trouble, shown) {
            (Trouble::Adopted, "updated") if id.1 == self.extra() => "adopted",
            (Trouble::Recreated, "updated") if id.1 == self.extra() => "recreated",
            _ => shown,
        }
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
        let is_blocked = shown.contains(&format!("note: KindsPuppet {}/{}: Blocked: ", namespace.name(), parent.name));
        for error in &errors {
            eprintln!("{error}");
        }
        for (id, kind) in parent.objects() {
            let (before, after) = (live.get(&id), namespace.get(kind.resource, &id.1));
            let name = format!("{} {}", id.0, id.1);
            let (verb, expected) = match (preview(folder.path(), kind, &namespace, &id.1), before) {
                (Shown::Unchanged, before) => ("unchanged", before.cloned()),
                (Shown::Deleted, before) if is_blocked => ("blocked", before.cloned()),
                (Shown::Deleted, _) => ("deleted", None),
                (Shown::Changed(expected), None) => ("created", Some(expected)),
                (Shown::Changed(expected), Some(_)) => ("updated", Some(expected)),
            };
            if errors.is_empty() || verb == "unchanged" {
                let verb = parent.verb(&id, verb);
                compared.compare(verb, &name, expected.as_ref(), after.as_ref());
                let uid = |object: Option<&Value>| object.map(|object| object["metadata"]["uid"].clone());
                let is_another = uid(before) != uid(after.as_ref());
                if ["adopted", "recreated", "updated"].contains(&verb) && is_another != (verb == "recreated") {
                    compared.differences.push(format!("{verb} {name}: is it another object? {is_another}"));
                }
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

    /// The verbs and troubles that fewer objects and parents than this have.
    pub fn rarer_than(&self, least: usize) -> Vec<String> {
        let verbs = ["created", "updated", "deleted", "unchanged", "adopted", "recreated", "blocked"];
        let verbs = verbs.into_iter().map(|verb| (verb.to_owned(), self.verbs.get(verb)));
        let troubles = TROUBLES.iter().map(|trouble| (format!("{trouble:?}"), self.troubles.get(trouble)));
        let is_rare = |count: Option<&usize>| count.copied().unwrap_or_default() < least;
        verbs.chain(troubles).filter(|(_, count)| is_rare(*count)).map(|(what, _)| what).collect()
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
