//! Runs a history: users and faults by the clock, hosts as they are, and what must be true in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use windlass_api_model::{Answer, ApiServer};
use windlass_core::names::ANNOTATION_ALLOW_DELETION;
use windlass_engine::clock;

use crate::expected;
use crate::history::{Act, Child, FINALIZING, Fail, History, Kind, PARENTS, SPAN};
use crate::host::Host;
use crate::network::Network;
use crate::setup::{Compiled, NAMESPACE, OPERATORS, beginning, by_user, cluster};

/// Minutes after the last fault until the steady state: more than the longest backoff and wait of a host.
const CONVERGES_IN: u32 = 9;
/// Largest number of hosts that run at the same time.
const HOSTS: usize = 3;
const MINUTE: Duration = Duration::from_mins(1);
/// Time in the steady state, in which a host writes nothing: two resyncs.
const STEADY: Duration = Duration::from_mins(23);
/// Time between two steps of Kubernetes' controllers.
const COLLECTS: Duration = Duration::from_millis(40);

/// What came of a history.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// What is wrong; empty if nothing is.
    pub problems: Vec<String>,
    /// What should not be, and is allowed so far.
    pub known: Vec<String>,
    /// The hash of the trace.
    pub hash: String,
    /// The lines of the trace.
    pub lines: Vec<String>,
    /// What the hosts came to, with counts.
    pub reached: BTreeMap<String, u64>,
}

/// Runs a history to its end.
///
/// # Errors
/// If the runtime or a host cannot start.
pub fn run(history: &History, compiled: &Compiled) -> anyhow::Result<Outcome> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().context("no runtime")?;
    fastrand::seed(history.seed);
    let outcome = runtime.block_on(async {
        clock::simulation::begin(beginning());
        World::begin(history, compiled)?.run(history).await
    });
    // What still runs is of hosts that were killed.
    runtime.shutdown_background();
    outcome
}

struct World<'a> {
    network: Network,
    compiled: &'a Compiled,
    /// The hosts that run, or are cut off for a while.
    hosts: Vec<Host>,
    /// Number of hosts that were started.
    started: usize,
    /// Hosts that were killed or told to stop.
    gone: Vec<Host>,
    /// What was wrong already at a step that expected something else.
    problems: Vec<String>,
}

impl<'a> World<'a> {
    fn begin(history: &History, compiled: &'a Compiled) -> anyhow::Result<Self> {
        let network = Network::new(cluster(compiled), history.seed);
        let mut world =
            Self { network, compiled, hosts: Vec::new(), started: 0, gone: Vec::new(), problems: Vec::new() };
        world.start_host()?;
        Ok(world)
    }

    async fn run(mut self, history: &History) -> anyhow::Result<Outcome> {
        let began = Instant::now();
        let controllers = tokio::spawn(controllers(self.network.clone()));
        for step in &history.steps {
            sleep_until(began + Duration::from_millis(step.at)).await;
            self.network.with_trace(|trace| trace.note(&format!("* {:?}", step.what)));
            self.act(&step.what)?;
        }
        sleep_until(began + Duration::from_millis(SPAN)).await;
        self.network.heal();
        self.network.with_server(permit_all);
        // The end of a history is about the parents: the Plugin is as it was at the beginning.
        self.send("PATCH", PLUGIN, Some(json!({ "spec": { "config": null, "suspend": null } })));
        self.network.with_trace(|trace| trace.note("* all faults end"));
        for _ in 0..CONVERGES_IN {
            self.allow_deletions();
            sleep(MINUTE).await;
        }
        let mut problems = std::mem::take(&mut self.problems);
        problems.extend(self.network.with_server(|server| expected::differences(server)));
        let before = self.network.with_server(|server| server.changes().len());
        sleep(STEADY).await;
        problems.extend(self.network.with_server(|server| expected::written_in_steady_state(server, before)));
        let (violations, known) = self.network.violations();
        problems.extend(violations);
        controllers.abort();
        let (hash, lines) = self.network.with_trace(|trace| (trace.hash(), trace.lines().to_vec()));
        Ok(Outcome { problems, known, hash, lines, reached: BTreeMap::new() })
    }

    fn act(&mut self, what: &Act) -> anyhow::Result<()> {
        match what {
            Act::Apply { parent, children, fail } => self.apply(*parent, children, *fail),
            Act::ApplySpec { parent, spec } => self.apply_spec(*parent, spec),
            Act::Expect => {
                let differences = self.network.with_server(|server| expected::differences(server));
                let late = differences.into_iter().map(|problem| format!("not in time: {problem}"));
                self.problems.extend(late);
            }
            Act::Patch { path, patch } => drop(self.send("PATCH", path, Some(patch.clone()))),
            Act::Configure { keep } => {
                let config = keep.map(|keep| json!({ "keepChildren": keep }));
                self.send("PATCH", PLUGIN, Some(json!({ "spec": { "config": config } })));
            }
            Act::Suspend { suspended } => {
                self.send("PATCH", PLUGIN, Some(json!({ "spec": { "suspend": suspended } })));
            }
            Act::Delete { parent, policy } => self.delete(&parent_path(*parent), policy),
            Act::DeleteChild { parent, child } => self.delete_if(*parent, *child, true),
            Act::Vacate { parent, child } => self.delete_if(*parent, *child, false),
            Act::EditChild { parent, child } => {
                let content = content_of(*child);
                self.patch_child(*parent, *child, content);
            }
            Act::Unlabel { parent, child } => {
                self.patch_child(*parent, *child, json!({ "metadata": { "labels": null } }));
            }
            Act::Disown { parent, child } => {
                self.patch_child(*parent, *child, json!({ "metadata": { "ownerReferences": null } }));
            }
            Act::Occupy { parent, child } => {
                let mut object = content_of(*child);
                object["metadata"] = json!({ "name": child_name(*parent, *child) });
                self.send("POST", &collection_of(child.kind), Some(object));
            }
            fault => return self.go_wrong(fault),
        }
        Ok(())
    }

    /// Lets something fail.
    fn go_wrong(&mut self, what: &Act) -> anyhow::Result<()> {
        let millis = Duration::from_millis;
        match what {
            Act::Refuse { code, millis: time } => self.network.refuse(*code, millis(*time)),
            Act::LoseAnswers { count } => self.network.lose_answers(*count),
            Act::LoseRequests { count } => self.network.lose_requests(*count),
            Act::SlowDown { most, millis: time } => self.network.slow_down(*most, millis(*time)),
            Act::Lag { resource, millis: time } => self.network.lag(resource, millis(*time)),
            Act::CutWatches => self.network.cut_watches(),
            Act::Compact => {
                self.network.with_server(ApiServer::compact);
                self.network.cut_watches();
            }
            Act::StandBy if self.hosts.len() < HOSTS => self.start_host()?,
            Act::StandBy => {}
            Act::Crash { host } => {
                self.host(*host).crash();
                self.replace_host(*host)?;
            }
            Act::Restart { host } => {
                self.host(*host).stop();
                self.replace_host(*host)?;
            }
            Act::CutOff { host, millis: time } => self.network.cut_off(self.host(*host).number, millis(*time)),
            Act::Deny { verb, resource, denied } => {
                self.network.with_server(|server| server.deny(OPERATORS[0].account, verb, resource, *denied));
            }
            other => anyhow::bail!("{other:?} is no fault"),
        }
        Ok(())
    }

    /// Does what the conditions of the Plugin and of parents tell a user: allows the deletions that are blocked.
    fn allow_deletions(&self) {
        let parents = (0..PARENTS).map(parent_path);
        for path in parents.chain([PLUGIN.to_owned()]) {
            let found = self.send("GET", &path, None);
            let conditions = found.body.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
            let mut messages = conditions.filter_map(|condition| condition.get("message")?.as_str());
            let allowed = messages.find_map(|message| {
                let (_, after) = message.split_once(&format!("{ANNOTATION_ALLOW_DELETION}="))?;
                Some(after.split(|c: char| !c.is_ascii_alphanumeric()).next()?.to_owned())
            });
            if let Some(hash) = allowed {
                let annotation = json!({ (ANNOTATION_ALLOW_DELETION): hash });
                self.send("PATCH", &path, Some(json!({ "metadata": { "annotations": annotation } })));
            }
        }
    }

    /// The running host of this place.
    fn host(&self, place: u8) -> &Host {
        &self.hosts[usize::from(place) % self.hosts.len()]
    }

    fn start_host(&mut self) -> anyhow::Result<()> {
        self.hosts.push(Host::start(self.started, &self.network, self.compiled)?);
        self.started += 1;
        Ok(())
    }

    /// Starts a host for the one in this place, as a Deployment does.
    fn replace_host(&mut self, place: u8) -> anyhow::Result<()> {
        let place = usize::from(place) % self.hosts.len();
        self.gone.push(self.hosts.remove(place));
        self.start_host()
    }

    fn send(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.network.send(&by_user(method, path, body, clock::date()))
    }

    fn apply(&self, parent: u8, children: &[Child], fail: Option<Fail>) {
        let scripts: Vec<_> = children.iter().copied().map(script_of).collect();
        let fail = fail.map(|fail| match fail {
            Fail::Invalid => json!({ "invalid": "as the history says" }),
            Fail::Retry => json!({ "retry": 3000 }),
            Fail::Failed => json!({ "failed": "as the history says" }),
            Fail::Trap => json!("trap"),
        });
        self.apply_spec(parent, &json!({ "children": scripts, "fail": fail }));
    }

    fn apply_spec(&self, parent: u8, spec: &Value) {
        let path = parent_path(parent);
        let changed = self.send("PATCH", &path, Some(json!({ "spec": spec })));
        if changed.code == 404 {
            let name = format!("p{parent}");
            let created = json!({ "metadata": { "name": name }, "spec": spec });
            self.send("POST", collection_of_parent(parent), Some(created));
        }
    }

    fn delete(&self, path: &str, policy: &str) {
        let options = (!policy.is_empty()).then(|| json!({ "propagationPolicy": policy }));
        self.send("DELETE", path, options);
    }

    /// Deletes an object with the name of a child, if it is a child, or if it is none.
    fn delete_if(&self, parent: u8, child: Child, is_child: bool) {
        let path = format!("{}/{}", collection_of(child.kind), child_name(parent, child));
        let found = self.send("GET", &path, None);
        if found.code == 200 && expected::has_owner(&found.body) == is_child {
            self.delete(&path, "");
        }
    }

    fn patch_child(&self, parent: u8, child: Child, change: Value) {
        let path = format!("{}/{}", collection_of(child.kind), child_name(parent, child));
        let found = self.send("GET", &path, None);
        if found.code == 200 && expected::has_owner(&found.body) {
            self.send("PATCH", &path, Some(change));
        }
    }
}

/// The garbage collector and the namespace controller.
async fn controllers(network: Network) {
    let mut seen = 0;
    loop {
        seen = network.changed_since(seen).await;
        sleep(COLLECTS).await;
        while network.with_server(|server| server.collect(clock::date())) {
            sleep(COLLECTS).await;
        }
    }
}

fn permit_all(server: &mut ApiServer) {
    for verb in ["get", "create", "patch", "delete"] {
        for resource in ["configmaps", "secrets", "services", "puppets.puppets.example", "plugins.windlass.dev"] {
            server.deny(OPERATORS[0].account, verb, resource, false);
        }
    }
}

const PLUGIN: &str = "/apis/windlass.dev/v1alpha1/plugins/puppet";
fn collection_of_parent(parent: u8) -> &'static str {
    if parent == FINALIZING {
        "/apis/puppets.example/v1/namespaces/shop/finalizingpuppets"
    } else {
        "/apis/puppets.example/v1/namespaces/shop/puppets"
    }
}

fn parent_path(parent: u8) -> String {
    format!("{}/p{parent}", collection_of_parent(parent))
}

fn collection_of(kind: Kind) -> String {
    let plural = match kind {
        Kind::ConfigMap => "configmaps",
        Kind::Secret => "secrets",
        Kind::Service => "services",
    };
    format!("/api/v1/namespaces/{NAMESPACE}/{plural}")
}

/// The name of a parent's child.
pub fn child_name(parent: u8, child: Child) -> String {
    format!("p{parent}-c{}", child.name)
}

/// What a child contains, without its metadata.
pub fn content_of(child: Child) -> Value {
    let value = child.value.to_string();
    match child.kind {
        Kind::ConfigMap => json!({ "data": { "value": value } }),
        Kind::Secret => json!({ "data": { "value": BASE64_STANDARD.encode(value) } }),
        Kind::Service => json!({ "spec": { "clusterIP": "None", "ports": [{ "port": 80 + u16::from(child.value) }] } }),
    }
}

/// A child in the script of its parent.
fn script_of(child: Child) -> Value {
    let mut script = content_of(child);
    script["apiVersion"] = "v1".into();
    script["kind"] = format!("{:?}", child.kind).into();
    script["metadata"] = json!({ "name": format!("${{name}}-c{}", child.name) });
    script
}
