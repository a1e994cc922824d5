//! Histories on both: many at once on the API server, each in a namespace and with a model of its own.

use std::collections::BTreeMap;
use std::path::Path;

use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use windlass_api_model::{ApiServer, Call};

use crate::compare::{bare, class, equal, times};
use crate::connection::{Send, connect, define, response};
use crate::generate::{Step, Verb};
use crate::kinds::{Kind, LISTED, definitions};
use crate::permissions;
use crate::request::{Request, path_of};
use crate::watches::{self, bare_event};

/// Histories at once.
const WORKERS: usize = 8;

pub struct Bench {
    runtime: Runtime,
    client: Client,
    /// Distinguishes the namespaces of this run from those of earlier ones, if the cluster is the user's.
    prefix: String,
    /// Histories and batches so far.
    count: usize,
    outcomes: BTreeMap<String, usize>,
}

/// One history, on both sides.
pub struct Course {
    pub client: Client,
    pub model: ApiServer,
    pub home: String,
    /// Version of the model before the history.
    start: String,
    steps: usize,
    outcomes: Vec<String>,
    /// What differs, and in which step.
    difference: Option<(usize, String)>,
    /// Whether an apply has emptied a map of a custom object, after which field management is not modelled, or a second passed between
    /// the two sides.
    is_left_out: bool,
}

impl Bench {
    pub fn connect(kubeconfig: &Path) -> Self {
        let (runtime, client) = connect(kubeconfig);
        define(&runtime, &client, &definitions(), &[Kind::Part.collection(None), Kind::Whole.collection(None)]);
        permissions::grant(&runtime, &client);
        let prefix = format!("h{}", Timestamp::now().as_second());
        runtime.block_on(permissions::compare_reviews(&client));
        runtime.block_on(watches::compare_outdated(&client));
        Self { runtime, client, prefix, count: 0, outcomes: BTreeMap::new() }
    }

    /// How often each kind of request had which code.
    pub fn summary(&self) -> String {
        let outcomes: Vec<_> = self.outcomes.iter().map(|(outcome, count)| format!("{outcome}: {count}")).collect();
        outcomes.join(", ")
    }

    /// Makes the histories, and returns the first difference of each, with its step.
    pub fn run(&mut self, histories: &[Vec<Step>]) -> Vec<Option<(usize, String)>> {
        let mut shares: Vec<Vec<_>> = (0..WORKERS).map(|_| Vec::new()).collect();
        for (at, steps) in histories.iter().enumerate() {
            self.count += 1;
            shares[at % WORKERS].push((at, steps.clone(), Course::new(&self.client, self.named())));
        }
        self.count += 1;
        let last = self.named();
        let client = self.client.clone();
        let mut courses = self.runtime.block_on(async {
            let watches = watches::begin(&client, &last).await;
            let tasks: Vec<_> = shares.into_iter().map(|share| tokio::spawn(run_share(share))).collect();
            let mut courses = BTreeMap::new();
            for task in tasks {
                courses.extend(task.await.expect("the end of the histories"));
            }
            watches::end(&client, &last).await;
            for watch in watches {
                let (kind, selector) = (watch.kind, watch.selector);
                let events = by_history(kind, &watch.events().await);
                for course in courses.values_mut() {
                    course.compare_watch(kind, selector, events.get(&course.home).map_or(&[], Vec::as_slice));
                }
            }
            courses
        });
        for outcome in courses.values_mut().flat_map(|course| std::mem::take(&mut course.outcomes)) {
            *self.outcomes.entry(outcome).or_default() += 1;
        }
        courses.into_values().map(|course| course.difference).collect()
    }

    fn named(&self) -> String {
        format!("{}x{}", self.prefix, self.count)
    }
}

async fn run_share(share: Vec<(usize, Vec<Step>, Course)>) -> Vec<(usize, Course)> {
    let mut done = Vec::new();
    for (at, steps, mut course) in share {
        course.run(&steps).await;
        done.push((at, course));
    }
    done
}

/// The events of all namespaces, by the history that made them.
fn by_history(kind: Kind, events: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let mut by_history: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for event in events {
        let field = if kind.is_namespaced() { "namespace" } else { "name" };
        let name = event["object"]["metadata"][field].as_str().unwrap_or_default();
        let home = name.split('-').next().unwrap_or_default();
        by_history.entry(home.to_owned()).or_default().push(bare_event(event));
    }
    by_history
}

/// A response without the namespaces of other histories.
fn of_history(mut body: Value, home: &str) -> Value {
    if body["kind"] == "NamespaceList"
        && let Some(items) = body["items"].as_array_mut()
    {
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        items.retain(|item| name(item).split('-').next() == Some(home));
    }
    body
}

/// A model with the custom kinds, and its version.
pub fn model() -> (ApiServer, String) {
    let mut model = ApiServer::default();
    let collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let defined = definitions().map(|definition| model.respond(&call("POST", collection, "", Some(definition))));
    let version = defined.last().and_then(|last| last.body["metadata"]["resourceVersion"].as_str());
    let start = version.expect("a version").to_owned();
    (model, start)
}

pub fn call(method: &str, path: &str, query: &str, body: Option<Value>) -> Call {
    Call {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        content_type: "application/json".to_owned(),
        metadata_only: false,
        user: "admin".to_owned(),
        body,
        now: Timestamp::now(),
    }
}

impl Course {
    fn new(client: &Client, home: String) -> Self {
        let (mut model, start) = model();
        permissions::deny(&mut model);
        Self {
            client: client.clone(),
            model,
            home,
            start,
            steps: 0,
            outcomes: Vec::new(),
            difference: None,
            is_left_out: false,
        }
    }

    async fn run(&mut self, steps: &[Step]) {
        let home = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.home}});
        let ours = self.model.respond(&call("POST", "/api/v1/namespaces", "fieldManager=test", Some(home.clone())));
        let theirs = self.ask(Send::json(Method::POST, "/api/v1/namespaces?fieldManager=test", home)).await;
        assert_eq!((ours.code, theirs.0), (201, 201), "{} {}", ours.body, theirs.1);
        let mut middle = None;
        for (index, step) in steps.iter().enumerate() {
            self.steps = index + 1;
            if index == steps.len() / 2 {
                middle = Some(self.begin_middle().await);
            }
            if let Err(text) = self.step(step).await {
                self.difference = Some((index, text));
                return;
            }
            if self.is_left_out {
                return;
            }
        }
        let mut compared = self.compare_lists().await;
        if let (Ok(()), Some(middle)) = (&compared, middle) {
            compared = self.compare_middle(&middle).await;
        }
        if let Err(text) = compared {
            self.difference = Some((steps.len().saturating_sub(1), text));
        }
    }

    pub async fn ask(&self, send: Send) -> (u16, Value) {
        response(self.client.clone(), send).await
    }

    /// The object at a path, on both sides.
    pub async fn both(&mut self, path: &str) -> (Option<Value>, Option<Value>) {
        let ours = self.model.respond(&call("GET", path, "", None));
        let (code, theirs) = self.ask(Send::json(Method::GET, path, Value::Null)).await;
        ((ours.code == 200).then_some(ours.body), (code == 200).then_some(theirs))
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        let path = path_of(step, &self.home);
        let before = self.both(&path).await;
        let asked = Request::of(step, &self.home, before.1.as_ref());
        let (code, body) = self.ask(asked.to_api_server()).await;
        let ours = self.model.respond(&Request::of(step, &self.home, before.0.as_ref()).to_model());
        let responded = ours.code;
        let verb = match step.verb {
            Verb::List(_) => "List".to_owned(),
            verb => format!("{verb:?}"),
        };
        let subject = if step.is_status { " status" } else { "" };
        self.outcomes.push(format!("{verb}{subject} {code}"));
        let (ours, body) = (of_history(ours.body, &self.home), of_history(body, &self.home));
        equal("response", &class(responded, &ours), &class(code, &body))
            .map_err(|text| format!("{text}\nmodel: {ours}\nAPI server: {body}"))?;
        let after = self.both(&path).await;
        let shown = |object: &Option<Value>| object.as_ref().map_or(Value::Null, bare);
        equal("object", &shown(&after.0), &shown(&after.1))?;
        let version =
            |object: &Option<Value>| object.as_ref().map(|object| object["metadata"]["resourceVersion"].clone());
        let stays = (version(&before.0) == version(&after.0), version(&before.1) == version(&after.1));
        let is_apply = matches!(step.verb, Verb::Apply | Verb::ForceApply);
        let is_emptied = step.kind == Kind::Part && is_apply && stays == (true, false);
        // The API server orders managedFields by their times, and another order is another version. Where a second began between the
        // two writes, only one of them changes the order.
        let second_passed = times(after.0.as_ref()) != times(after.1.as_ref());
        self.is_left_out = is_emptied || (second_passed && stays.0 != stays.1);
        if self.is_left_out {
            return Ok(());
        }
        equal("resourceVersion stays", &stays.0.into(), &stays.1.into())
            .map_err(|text| format!("{text}\nbefore {:?}\nafter {:?}", before.1, after.1))
    }

    async fn compare_lists(&mut self) -> Result<(), String> {
        for kind in LISTED.into_iter().filter(|kind| kind.is_namespaced()) {
            let path = kind.collection(Some(&self.home));
            let (ours, theirs) = self.both(&path).await;
            equal("list", &bare(&ours.expect("a list")), &bare(&theirs.expect("a list")))?;
        }
        Ok(())
    }

    /// Compares the events of a watch, if all steps were equal.
    fn compare_watch(&mut self, kind: Kind, selector: &str, theirs: &[Value]) {
        if self.difference.is_some() || self.is_left_out {
            return;
        }
        let namespace = kind.is_namespaced().then_some(&*self.home);
        let query = format!("watch=true&resourceVersion={}&{selector}", self.start);
        let watch = call("GET", &kind.collection(namespace), &query, None);
        let mut cursor = self.model.watch(&watch).expect("a watch");
        let mut ours = Vec::new();
        while let Some(event) = self.model.next_event(&mut cursor) {
            ours.push(bare_event(&event));
        }
        let what = format!("watch of {kind:?} {selector}");
        if let Err(text) = equal(&what, &ours.into(), &theirs.to_vec().into()) {
            self.difference = Some((self.steps.saturating_sub(1), text));
        }
    }
}
