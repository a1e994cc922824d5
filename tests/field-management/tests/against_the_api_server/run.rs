//! Histories on both: the steps of many histories at once, each step in seconds of its own, so that times can be compared.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use windlass_field_management::{Conflict, Refusal, Write, apply_with_defaults, conflict_message, update};

use crate::connection::{Send, connect, define, response};
use crate::differences::differences;
use crate::generate::{Edit, History, Step, Verb};
use crate::kinds::{Kind, definitions};

/// Requests at once.
const WORKERS: usize = 8;

pub struct Bench {
    runtime: Runtime,
    client: Client,
    /// Objects so far: each has a name of its own.
    objects: usize,
    outcomes: BTreeMap<String, usize>,
}

/// What differs, and in which step.
#[derive(Clone)]
pub struct Difference {
    pub step: usize,
    text: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in step {}: {}", self.step, self.text)
    }
}

struct State {
    kind: Kind,
    name: String,
    /// The object as the API server returned it, and with times that are numbers of steps.
    live: Option<(Value, Value)>,
    /// Whether the API server stored empty labels or the like for a custom kind: it returns the object without, and the next
    /// write removes them, even if it changes nothing else.
    has_hidden_fields: bool,
    difference: Option<Difference>,
}

/// The seconds in which a step was made on the API server, and its time in the model.
struct Round {
    start: String,
    end: String,
    time: String,
}

fn now() -> String {
    let mut now = Timestamp::now().to_string();
    now.truncate("2026-01-01T00:00:00".len());
    now + "Z"
}

impl Bench {
    pub fn connect(kubeconfig: &Path) -> Self {
        let (runtime, client) = connect(kubeconfig);
        let collections = [Kind::Widget, Kind::Gadget].map(Kind::url);
        define(&runtime, &client, &definitions(), &collections);
        Self { runtime, client, objects: 0, outcomes: BTreeMap::new() }
    }

    /// How often each kind of write had which outcome.
    pub fn summary(&self) -> String {
        let outcomes: Vec<_> = self.outcomes.iter().map(|(outcome, count)| format!("{outcome}: {count}")).collect();
        outcomes.join(", ")
    }

    /// Makes the histories, and returns the first difference of each.
    pub fn run(&mut self, histories: &[History]) -> Vec<Option<Difference>> {
        let mut states: Vec<_> = histories.iter().map(|history| self.state(history.kind)).collect();
        let mut rounds: Vec<Round> = Vec::new();
        let steps = histories.iter().map(|history| history.steps.len()).max().unwrap_or_default();
        for index in 0..steps {
            while rounds.last().is_some_and(|round| round.end >= now()) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let start = now();
            let mut sends: Vec<_> = histories
                .iter()
                .zip(&states)
                .enumerate()
                .filter_map(|(at, (history, state))| {
                    let step = history.steps.get(index)?;
                    Some((at, state.difference.is_none().then(|| state.send(step)).flatten()?))
                })
                .collect();
            let mut responses = Vec::new();
            let mut shares: Vec<Vec<_>> = (0..WORKERS).map(|_| Vec::new()).collect();
            for (at, send) in sends.drain(..) {
                shares[at % WORKERS].push((at, send));
            }
            let client = &self.client;
            self.runtime.block_on(async {
                let tasks: Vec<_> = shares
                    .into_iter()
                    .map(|share| {
                        let client = client.clone();
                        tokio::spawn(async move {
                            let mut responses = Vec::new();
                            for (at, send) in share {
                                responses.push((at, response(client.clone(), send).await));
                            }
                            responses
                        })
                    })
                    .collect();
                for task in tasks {
                    responses.extend(task.await.expect("responses"));
                }
            });
            let time = format!("2026-01-01T00:00:{index:02}Z");
            rounds.push(Round { start, end: now(), time });
            for (at, (code, body)) in responses {
                let step = &histories[at].steps[index];
                let subject = if step.is_status { " status" } else { "" };
                *self.outcomes.entry(format!("{:?}{subject} {code}", step.verb)).or_default() += 1;
                if let Err(text) = states[at].compare(step, code, &body, &rounds) {
                    states[at].difference = Some(Difference { step: index, text });
                }
            }
        }
        states.into_iter().map(|state| state.difference).collect()
    }

    fn state(&mut self, kind: Kind) -> State {
        self.objects += 1;
        State { kind, name: format!("object-{}", self.objects), live: None, has_hidden_fields: false, difference: None }
    }
}

/// A list of entries after an edit; `None` if it is left out.
fn edited(edit: Edit, object: Option<&Value>) -> Option<Value> {
    let list = object?["metadata"].get("managedFields").cloned();
    match edit {
        Edit::Keep => list,
        Edit::Omit => None,
        Edit::Empty => Some(json!([])),
        Edit::Blank => Some(json!([{}])),
        Edit::DropFirst => {
            let mut list = list?;
            let entries = list.as_array_mut()?;
            entries.remove(0);
            Some(list)
        }
        Edit::RenameFirst => {
            let mut list = list?;
            list[0]["manager"] = "renamed".into();
            Some(list)
        }
    }
}

fn merge_patch(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            object.as_object_mut().expect("an object").remove(name);
        } else {
            merge_patch(&mut object[name], value);
        }
    }
}

impl State {
    fn named(&self, body: &Value) -> Value {
        let mut body = body.clone();
        body["apiVersion"] = self.kind.api_version().into();
        body["kind"] = self.kind.name().into();
        body["metadata"]["name"] = self.name.as_str().into();
        body["metadata"]["namespace"] = "default".into();
        body
    }

    /// The request of a step. `None` if the step cannot be made now.
    fn send(&self, step: &Step) -> Option<Send> {
        let live = self.live.as_ref().map(|(live, _)| live);
        let entries = edited(step.edit, live);
        let collection = self.kind.url();
        let query = format!("?fieldManager={}", step.manager);
        let status = if step.is_status { "/status" } else { "" };
        let url = format!("{collection}/{}{status}{query}", self.name);
        let send = |method, content_type, body| Some(Send { method, url: url.clone(), content_type, body, user: None });
        match step.verb {
            Verb::Apply | Verb::ForceApply if live.is_none() && step.is_status => None,
            Verb::Apply => send(Method::PATCH, "application/apply-patch+yaml", self.named(&step.body)),
            Verb::ForceApply => {
                let send = send(Method::PATCH, "application/apply-patch+yaml", self.named(&step.body));
                send.map(|send| Send { url: format!("{url}&force=true"), ..send })
            }
            Verb::Post => {
                let mut body = self.named(&step.body);
                if matches!(step.edit, Edit::Empty | Edit::Blank) {
                    body["metadata"]["managedFields"] = if step.edit == Edit::Empty { json!([]) } else { json!([{}]) };
                }
                let send = send(Method::POST, "application/json", body).filter(|_| live.is_none());
                send.map(|send| Send { url: format!("{collection}{query}"), ..send })
            }
            Verb::Put | Verb::Replace => {
                let mut body = self.named(&step.body);
                if step.verb == Verb::Put {
                    let mut changed = live?.clone();
                    merge_patch(&mut changed, &body);
                    body = changed;
                } else {
                    body["metadata"]["resourceVersion"] = live?["metadata"]["resourceVersion"].clone();
                }
                body["metadata"].as_object_mut()?.remove("managedFields");
                if let Some(entries) = entries {
                    body["metadata"]["managedFields"] = entries;
                }
                send(Method::PUT, "application/json", body)
            }
            Verb::MergePatch => {
                live?;
                let mut body = step.body.clone();
                if step.edit != Edit::Keep {
                    body["metadata"]["managedFields"] = entries.unwrap_or(Value::Null);
                }
                send(Method::PATCH, "application/merge-patch+json", body)
            }
            Verb::JsonPatch => {
                live?["metadata"].get("managedFields")?;
                send(Method::PATCH, "application/json-patch+json", step.body.clone())
            }
            Verb::Delete => {
                live?;
                let has_finalizers = live?["metadata"].get("finalizers").is_some();
                if has_finalizers { None } else { send(Method::DELETE, "application/json", Value::Null) }
            }
        }
    }

    /// Makes a step on the model, compares it with the API server's response, and goes on with that.
    fn compare(&mut self, step: &Step, code: u16, body: &Value, rounds: &[Round]) -> Result<(), String> {
        let is_made = code == 200 || code == 201;
        if step.verb == Verb::Delete {
            self.live = None;
            return if is_made { Ok(()) } else { Err(format!("{code} {body}")) };
        }
        let theirs = mask(body, rounds);
        let write = Write {
            manager: step.manager,
            api_version: self.kind.api_version(),
            subresource: step.is_status.then_some("status"),
            time: rounds.last().map_or("", |round| &round.time),
        };
        let before = self.live.as_ref().map(|(_, masked)| masked);
        let ours = if matches!(step.verb, Verb::Apply | Verb::ForceApply) {
            let config = self.named(&step.body);
            let force = step.verb == Verb::ForceApply;
            let set_defaults = |object: &mut Value| self.kind.set_defaults(object);
            let applied = apply_with_defaults(before, &config, &write, force, &self.kind.shape(), set_defaults);
            let Some(object) = refusals_equal(code, body, applied)? else { return Ok(()) };
            object
        } else {
            if !is_made {
                return if matches!(code, 400 | 409 | 422) { Ok(()) } else { Err(format!("{code} {body}")) };
            }
            self.updated(step, &theirs, &write)
        };
        let compared = objects_equal(self.kind, &ours, &theirs).and_then(|()| {
            let Some((old, before)) = &self.live else { return Ok(()) };
            let is_same = old["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"];
            if self.has_hidden_fields {
                return Ok(());
            }
            let mut ours = ours.clone();
            ours["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
            if is_same == (ours == *before) {
                Ok(())
            } else {
                Err(format!(
                    "resourceVersion stays: {is_same}; model: {}\n before {before}\n theirs {theirs}",
                    !is_same
                ))
            }
        });
        let is_custom = matches!(self.kind, Kind::Widget | Kind::Gadget);
        self.has_hidden_fields = is_custom
            && step.body["metadata"]
                .as_object()
                .is_some_and(|metadata| metadata.values().any(|value| *value == json!({}) || *value == json!([])));
        self.live = Some((body.clone(), theirs));
        compared
    }

    /// What the model makes of an update with the content that the API server returned.
    fn updated(&self, step: &Step, theirs: &Value, write: &Write<'_>) -> Value {
        let before = self.live.as_ref().map(|(_, masked)| masked);
        let mut after = theirs.clone();
        // They are allocated, and restored if an update leaves them out, after field management.
        let allocates =
            self.kind == Kind::Service && matches!(step.verb, Verb::Post | Verb::Replace) && !step.is_status;
        if let (true, Some(spec)) = (allocates, after["spec"].as_object_mut()) {
            spec.retain(|name, _| !ALLOCATED.contains(&name.as_str()));
        }
        let sent = match step.verb {
            Verb::Post => match step.edit {
                Edit::Empty => Some(json!([])),
                Edit::Blank => Some(json!([{}])),
                _ => None,
            },
            Verb::JsonPatch if !matches!(step.edit, Edit::Empty | Edit::Blank | Edit::Omit) => {
                edited(Edit::Keep, before)
            }
            _ => edited(step.edit, before),
        };
        let metadata = after["metadata"].as_object_mut().expect("metadata");
        metadata.remove("managedFields");
        metadata.extend(sent.map(|sent| ("managedFields".to_owned(), sent)));
        update(before, &mut after, write, &self.kind.shape());
        if allocates {
            for name in ALLOCATED {
                after["spec"][name] = theirs["spec"][name].clone();
            }
        }
        after
    }
}

/// What the API server sets after field management.
const ALLOCATED: [&str; 4] = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];

/// An object whose times in `managedFields` are those of the model.
fn mask(object: &Value, rounds: &[Round]) -> Value {
    let mut masked = object.clone();
    for entry in masked.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(time) = entry["time"].as_str() else {
            entry.as_object_mut().expect("an entry").remove("time");
            continue;
        };
        let round = rounds.iter().find(|round| round.start.as_str() <= time && time <= round.end.as_str());
        entry["time"] = round.map_or_else(|| format!("unknown {time}"), |round| round.time.clone()).into();
    }
    masked
}

/// The object that the model made, if the API server made one, too.
fn refusals_equal(code: u16, body: &Value, applied: Result<Value, Refusal>) -> Result<Option<Value>, String> {
    match (code, applied) {
        (200 | 201, Ok(object)) => Ok(Some(object)),
        // Validation is not the model's; it comes after the conflicts.
        (500, Err(Refusal::Invalid(_))) | (400 | 422, Ok(_)) => Ok(None),
        (409, Err(Refusal::Conflicts(conflicts))) => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let causes = body["details"]["causes"].as_array().into_iter().flatten();
            let mut theirs: Vec<_> = causes
                .map(|cause| Conflict { field: text(&cause["field"]), message: text(&cause["message"]) })
                .collect();
            theirs.sort();
            let mut ours = conflicts.clone();
            ours.sort();
            let message = conflict_message(&conflicts);
            if ours == theirs && body["message"] == message {
                Ok(None)
            } else {
                Err(format!("conflicts {ours:#?}\nAPI server: {theirs:#?}\n{message}\n{}", body["message"]))
            }
        }
        (code, applied) => Err(format!("API server: {code} {}\nmodel: {applied:?}", body["message"])),
    }
}

fn objects_equal(kind: Kind, ours: &Value, theirs: &Value) -> Result<(), String> {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|name, _| {
                !["resourceVersion", "generation", "uid", "creationTimestamp"].contains(&name.as_str())
            });
        }
        if let (Kind::Service, Some(spec)) = (kind, object["spec"].as_object_mut()) {
            spec.retain(|name, _| !ALLOCATED.contains(&name.as_str()));
        }
        object
    };
    let (ours, theirs) = (bare(ours), bare(theirs));
    if ours == theirs {
        Ok(())
    } else {
        Err(format!("- model, + API server:\n{}", differences("", &ours, &theirs).join("\n")))
    }
}
