//! Runs a history: users and faults by the clock, hosts as they are, and what must be true in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_api_model::{ApiServer, Call, Id, Response};
use windlass_core::names::{ANNOTATION_ALLOW_DELETION, ANNOTATION_SUSPEND, LABEL_PLUGIN};
use windlass_engine::clock;

use crate::controllers;
use crate::expected;
use crate::history::{Act, CALM, CLUSTER, Child, Fail, History, Kind, SPAN, Version};
use crate::host::{Flags, Host};
use crate::network::{HOST_USER, Network};
use crate::objects::{
    child_name, child_path, collection_of, collection_of_parent, content_of, parent_path, path_of, path_of_named,
    path_of_target, script_of,
};
use crate::setup::{CHILDREN, Compiled, NAMESPACE, OPERATORS, Operator, SHARED, TOKEN, beginning, by_user, cluster};

/// Minutes after the last fault until the steady state: more than the longest backoff and wait of a host.
const CONVERGES_IN: u32 = 9;
/// Largest number of hosts that run at the same time.
const HOSTS: usize = 4;
const MINUTE: Duration = Duration::from_mins(1);
/// Time in the steady state, in which a host writes nothing: two resyncs.
const STEADY: Duration = Duration::from_mins(23);
/// Finalizer of a user.
const FINALIZER: &str = "example.com/held";

/// What came of a history.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// What is wrong; empty if nothing is.
    pub problems: Vec<String>,
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
    /// How each host is started.
    flags: Flags,
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
        let network = Network::new(cluster(compiled, history), history.seed);
        let mut world = Self {
            network,
            compiled,
            flags: history.flags(),
            hosts: Vec::new(),
            started: 0,
            gone: Vec::new(),
            problems: Vec::new(),
        };
        for _ in 0..history.shards {
            world.start_host()?;
        }
        Ok(world)
    }

    async fn run(mut self, history: &History) -> anyhow::Result<Outcome> {
        let began = Instant::now();
        let controllers = [
            tokio::spawn(controllers::collect(self.network.clone())).abort_handle(),
            tokio::spawn(controllers::make_ready(self.network.clone())).abort_handle(),
        ];
        let at = |millis| began + Duration::from_millis(millis);
        let (calm, wild): (Vec<_>, Vec<_>) = history.steps.iter().partition(|step| step.at >= SPAN);
        for step in wild {
            sleep_until(at(step.at)).await;
            self.act(&step.what)?;
        }
        sleep_until(at(SPAN)).await;
        self.network.heal();
        clock::simulation::slow_calls(None);
        self.network.with_server(ApiServer::permit_all);
        self.network.with_trace(|trace| trace.note("* all faults end"));
        for step in calm {
            sleep_until(at(step.at)).await;
            self.act(&step.what)?;
        }
        sleep_until(at(CALM)).await;
        self.problems.extend(self.network.unanswered(at(SPAN)));
        self.undo();
        for _ in 0..CONVERGES_IN {
            self.replace_ended()?;
            self.follow_conditions();
            // A cluster-scoped parent stays when the namespace of its children goes.
            self.send("POST", "/api/v1/namespaces", Some(json!({ "metadata": { "name": NAMESPACE } })));
            sleep(MINUTE).await;
        }
        let mut problems = std::mem::take(&mut self.problems);
        problems.extend(self.network.with_server(|server| expected::differences(server)));
        let before = self.network.with_server(|server| server.changes().len());
        sleep(STEADY).await;
        problems.extend(self.network.with_server(|server| expected::written_in_steady_state(server, before)));
        problems.extend(self.network.violations());
        let waiting = self.hosts.iter().filter(|host| !host.has_ended()).count();
        if history.exits && waiting > 1 {
            problems.push(format!("{waiting} hosts run, although those without the Lease should have exited"));
        }
        controllers.iter().for_each(AbortHandle::abort);
        let (hash, lines) = self.network.with_trace(|trace| (trace.hash(), trace.lines().to_vec()));
        Ok(Outcome { problems, hash, lines, reached: BTreeMap::new() })
    }

    fn act(&mut self, what: &Act) -> anyhow::Result<()> {
        self.replace_ended()?;
        self.network.with_trace(|trace| trace.note(&format!("* {what:?}")));
        match what {
            Act::Apply { parent, children, fail, reads } => self.apply(*parent, children, *fail, *reads),
            Act::ApplySpec { parent, spec } => self.apply_spec(*parent, spec),
            Act::Expect | Act::Contains { .. } | Act::AtMost { .. } => {
                let found = self.compare(what);
                self.problems.extend(found);
            }
            Act::Create { path, object, count } => {
                let text = object.to_string();
                for number in 0..*count {
                    let object = serde_json::from_str(&text.replace("${number}", &number.to_string()))?;
                    self.send("POST", path, Some(object));
                }
            }
            Act::Patch { path, patch } => drop(self.send("PATCH", path, Some(patch.clone()))),
            Act::Plugin { spec } => drop(self.send("PATCH", PLUGIN, Some(json!({ "spec": spec })))),
            Act::Component { version } => drop(self.send("PATCH", SOURCE, Some(self.compiled.source(*version)))),
            Act::Rival => self.create_rival(),
            Act::SuspendParent { parent, suspended } => {
                let annotations = json!({ (ANNOTATION_SUSPEND): suspended.then_some("true") });
                self.send("PATCH", &parent_path(*parent), Some(json!({ "metadata": { "annotations": annotations } })));
            }
            Act::ParentFinalizer { parent, is_set } => self.set_finalizer(&parent_path(*parent), *is_set),
            Act::ChildFinalizer { parent, child, is_set } => {
                self.set_finalizer(&child_path(*parent, *child), *is_set);
            }
            Act::Share { keys } => self.share(*keys),
            Act::DeleteNamespace => self.delete(&format!("/api/v1/namespaces/{NAMESPACE}"), ""),
            Act::Delete { parent, policy } => self.delete(&parent_path(*parent), policy),
            Act::DeleteChild { parent, child } => self.delete_if(*parent, *child, true),
            Act::Vacate { parent, child } => self.delete_if(*parent, *child, false),
            Act::EditChild { parent, child } => {
                let content = content_of(*child);
                self.patch_child(*parent, *child, content);
            }
            Act::Take { parent, child } => self.take(*parent, *child),
            Act::Unlabel { parent, child } => {
                self.patch_child(*parent, *child, json!({ "metadata": { "labels": null } }));
            }
            Act::Disown { parent, child } => {
                self.patch_child(*parent, *child, json!({ "metadata": { "ownerReferences": null } }));
            }
            Act::Occupy { parent, child, plugin, owner, token } => {
                self.occupy(*parent, *child, plugin, *owner, *token);
            }
            Act::Copy { parent, child, name } => self.copy(*parent, *child, *name),
            Act::Swap { parent, child } => {
                self.delete_if(*parent, *child, true);
                self.occupy(*parent, *child, "", None, false);
            }
            fault => return self.go_wrong(fault),
        }
        Ok(())
    }

    /// How the cluster differs from what a history says about this time.
    fn compare(&self, what: &Act) -> Vec<String> {
        match what {
            Act::Contains { path, object } => {
                let lacking = expected::lacking(&self.send("GET", path, None).body, object);
                lacking.into_iter().map(|lacks| format!("not in time: {path} {lacks}")).collect()
            }
            Act::AtMost { changes, resource, with } => {
                let often = |server: &mut ApiServer| expected::too_often(server, *changes, resource, with);
                self.network.with_server(often).into_iter().collect()
            }
            _ => {
                let differences = self.network.with_server(|server| expected::differences(server));
                differences.into_iter().map(|problem| format!("not in time: {problem}")).collect()
            }
        }
    }

    /// Lets something fail.
    fn go_wrong(&mut self, what: &Act) -> anyhow::Result<()> {
        let millis = Duration::from_millis;
        match what {
            Act::Refuse { code, millis: time, path } => self.network.refuse(*code, path, millis(*time)),
            Act::LoseAnswers { count } => self.network.lose_answers(*count),
            Act::LoseRequests { count } => self.network.lose_requests(*count),
            Act::SlowDown { most, millis: time, path } => self.network.slow_down(*most, path, millis(*time)),
            Act::SlowCalls { millis: time } => clock::simulation::slow_calls(Some(millis(*time))),
            Act::Lag { resource, millis: time } => self.network.lag(resource, millis(*time)),
            Act::Repeat { millis: time } => self.network.repeat(millis(*time)),
            Act::StopCollector { millis: time } => self.network.stop_collector(millis(*time)),
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
            Act::Pause { host, millis: time } => self.network.pause(self.host(*host).number, millis(*time)),
            Act::Deny { plugin, host, verb, resource, denied } => {
                let named = |of: &&Operator| plugin.as_ref().is_none_or(|name| name == of.name);
                let account = OPERATORS.iter().find(named).context("no such Plugin")?.account;
                let user = if *host { HOST_USER } else { account };
                self.network.with_server(|server| server.deny(user, verb, resource, *denied));
            }
            other => anyhow::bail!("{other:?} is no fault"),
        }
        Ok(())
    }

    fn create_rival(&self) {
        let account = json!({ "metadata": { "name": "windlass-plugin-a-rival" } });
        self.send("POST", "/api/v1/namespaces/windlass-system/serviceaccounts", Some(account));
        let source = json!({ "configMap": { "namespace": "windlass-system", "name": OPERATORS[0].name } });
        let plugin = json!({ "metadata": { "name": "a-rival" }, "spec": { "source": source, "installCRD": true } });
        self.send("POST", "/apis/windlass.dev/v1alpha1/plugins", Some(plugin));
    }

    /// Undoes what users did to the Plugin, and takes their marks off parents and children: the end of a history is about the parents.
    fn undo(&self) {
        let unset =
            ["config", "suspend", "adopt", "deletionGuard", "limits", "namespaceSelector", "concurrency", "grants"];
        let spec: BTreeMap<_, _> = unset.iter().map(|field| (field, Value::Null)).collect();
        self.send("PATCH", PLUGIN, Some(json!({ "spec": spec })));
        self.send("PATCH", SOURCE, Some(self.compiled.source(Version::Whole)));
        for parent in 0..=CLUSTER {
            self.set_finalizer(&parent_path(parent), false);
            let annotations = json!({ (ANNOTATION_SUSPEND): null });
            self.send("PATCH", &parent_path(parent), Some(json!({ "metadata": { "annotations": annotations } })));
        }
        let ids = |server: &mut ApiServer| {
            CHILDREN.iter().flat_map(|of| server.objects_of(of)).map(|(id, _)| id.clone()).collect()
        };
        let children: Vec<Id> = self.network.with_server(ids);
        for id in children {
            self.set_finalizer(&path_of(&id), false);
        }
    }

    /// Does what the conditions of the Plugin and of parents tell a user: allows the deletions that are blocked, and deletes a child with
    /// fields of others.
    fn follow_conditions(&self) {
        let parents = (0..=CLUSTER).map(parent_path);
        for path in parents.chain([PLUGIN.to_owned()]) {
            let found = self.send("GET", &path, None);
            let conditions = found.body.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
            for message in conditions.filter_map(|condition| condition.get("message")?.as_str()) {
                if let Some((before, after)) = message.split_once(&format!(" {ANNOTATION_ALLOW_DELETION}=")) {
                    let target = before.rsplit("kubectl annotate ").next().unwrap_or_default();
                    let hash = after.split(|c: char| !c.is_ascii_alphanumeric()).next();
                    let annotation = json!({ (ANNOTATION_ALLOW_DELETION): hash });
                    let path = path_of_target(target);
                    self.send("PATCH", &path, Some(json!({ "metadata": { "annotations": annotation } })));
                }
                if let Some((child, _)) = message.split_once(" was not applied, because other field managers own") {
                    self.delete(&path_of_named(child), "");
                }
            }
        }
    }

    /// The running host of this place.
    fn host(&self, place: u8) -> &Host {
        &self.hosts[usize::from(place) % self.hosts.len()]
    }

    fn start_host(&mut self) -> anyhow::Result<()> {
        self.hosts.push(Host::start(self.started, self.flags, &self.network, self.compiled)?);
        self.started += 1;
        Ok(())
    }

    /// Starts a host for each one that has ended by itself: one that loses its Lease does.
    fn replace_ended(&mut self) -> anyhow::Result<()> {
        while let Some(place) = self.hosts.iter().position(Host::has_ended) {
            self.gone.push(self.hosts.remove(place));
            self.start_host()?;
        }
        Ok(())
    }

    /// Starts a host for the one in this place, as a Deployment does.
    fn replace_host(&mut self, place: u8) -> anyhow::Result<()> {
        let place = usize::from(place) % self.hosts.len();
        self.gone.push(self.hosts.remove(place));
        self.start_host()
    }

    fn send(&self, method: &str, path: &str, body: Option<Value>) -> Response {
        self.network.send(&by_user(method, path, body, clock::date()))
    }

    fn apply(&self, parent: u8, children: &[Child], fail: Option<Fail>, reads: bool) {
        let scripts: Vec<_> = children.iter().copied().map(script_of).collect();
        let fail = fail.map(|fail| match fail {
            Fail::Invalid => json!({ "invalid": "as the history says" }),
            Fail::Retry => json!({ "retry": 3000 }),
            Fail::Failed => json!({ "failed": "as the history says" }),
            Fail::Trap => json!("trap"),
        });
        let required =
            json!({ "id": SHARED, "apiVersion": "v1", "kind": "ConfigMap", "namespace": NAMESPACE, "name": SHARED });
        let (required, from) = if reads { (json!([required]), json!(SHARED)) } else { (json!([]), Value::Null) };
        self.apply_spec(
            parent,
            &json!({
                "children": scripts, "fail": fail, "requirements": required, "childrenFrom": from,
                "status": parent.is_multiple_of(2).then_some("reflect"),
                "finalize": { "finalizedWhen": "childrenGone" },
            }),
        );
    }

    fn apply_spec(&self, parent: u8, spec: &Value) {
        let path = parent_path(parent);
        let changed = self.send("PATCH", &path, Some(json!({ "spec": spec })));
        if changed.code == 404 {
            let name = format!("p{parent}");
            let created = json!({ "metadata": { "name": name }, "spec": spec });
            let collection = collection_of_parent(parent);
            if self.send("POST", &collection, Some(created.clone())).code == 404 {
                self.send("POST", "/api/v1/namespaces", Some(json!({ "metadata": { "name": NAMESPACE } })));
                self.send("POST", &collection, Some(created));
            }
        }
    }

    /// Sets the number of keys of the ConfigMap that parents may require.
    fn share(&self, keys: Option<u16>) {
        let collection = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        let path = format!("{collection}/{SHARED}");
        let Some(keys) = keys else { return self.delete(&path, "") };
        let data: BTreeMap<_, _> =
            (0..keys.max(5)).map(|key| (format!("k{key}"), (key < keys).then_some("v"))).collect();
        if self.send("PATCH", &path, Some(json!({ "data": data }))).code == 404 {
            let data: BTreeMap<_, _> = data.into_iter().filter(|(_, value)| value.is_some()).collect();
            self.send("POST", &collection, Some(json!({ "metadata": { "name": SHARED }, "data": data })));
        }
    }

    /// Adds a user's finalizer to an object, or takes it off.
    fn set_finalizer(&self, path: &str, is_set: bool) {
        let found = self.send("GET", path, None).body;
        let list = found.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        if found.pointer("/metadata/name").is_some() && list.contains(&FINALIZER.into()) != is_set {
            let others = list.into_iter().filter(|one| one != FINALIZER);
            let list: Vec<_> = others.chain(is_set.then(|| FINALIZER.into())).collect();
            self.send("PATCH", path, Some(json!({ "metadata": { "finalizers": list } })));
        }
    }

    fn occupy(&self, parent: u8, child: Child, plugin: &str, owner: Option<u8>, is_token: bool) {
        let mut object = content_of(child);
        if child.kind == Kind::Secret {
            object["type"] = if is_token { TOKEN } else { "Opaque" }.into();
        }
        object["metadata"] = json!({ "name": child_name(parent, child) });
        let owner = owner.map(|owner| self.send("GET", &parent_path(owner), None)).filter(|found| found.code == 200);
        if let Some(Response { body: owner, .. }) = owner {
            let text = |at| expected::text(&owner, at);
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": text("/apiVersion"), "kind": text("/kind"), "name": text("/metadata/name"),
                "uid": text("/metadata/uid"), "controller": true,
            }]);
        }
        if !plugin.is_empty() {
            object["metadata"]["labels"] = json!({ LABEL_PLUGIN: plugin });
        }
        self.send("POST", &collection_of(child.kind), Some(object));
    }

    fn copy(&self, parent: u8, child: Child, name: u8) {
        let found = self.send("GET", &child_path(parent, child), None);
        if found.code != 200 {
            return;
        }
        let mut object = content_of(child);
        let part = |field: &str| found.body.pointer(&format!("/metadata/{field}")).cloned().unwrap_or_default();
        let mut annotations = part("annotations");
        annotations[expected::COPIED] = "true".into();
        object["metadata"] = json!({
            "name": child_name(parent, Child { name, ..child }), "labels": part("labels"),
            "annotations": annotations, "ownerReferences": part("ownerReferences"),
        });
        self.send("POST", &collection_of(child.kind), Some(object));
    }

    fn delete(&self, path: &str, policy: &str) {
        let options = (!policy.is_empty()).then(|| json!({ "propagationPolicy": policy }));
        self.send("DELETE", path, options);
    }

    /// Deletes an object with the name of a child, if it is a child, or if it is none.
    fn delete_if(&self, parent: u8, child: Child, is_child: bool) {
        let path = child_path(parent, child);
        let found = self.send("GET", &path, None);
        if found.code == 200 && expected::has_owner(&found.body) == is_child {
            self.delete(&path, "");
        }
    }

    fn patch_child(&self, parent: u8, child: Child, change: Value) {
        let path = child_path(parent, child);
        let found = self.send("GET", &path, None);
        if found.code == 200 && expected::has_owner(&found.body) {
            self.send("PATCH", &path, Some(change));
        }
    }

    fn take(&self, parent: u8, child: Child) {
        let path = child_path(parent, child);
        if expected::has_owner(&self.send("GET", &path, None).body) {
            let mut script = script_of(child);
            script["metadata"] = json!({ "name": path.rsplit('/').next() });
            let call = by_user("PATCH", &path, Some(script), clock::date());
            let (query, content_type) =
                ("fieldManager=argocd&force=true".to_owned(), "application/apply-patch+yaml".to_owned());
            self.network.send(&Call { query, content_type, ..call });
        }
    }
}

const PLUGIN: &str = "/apis/windlass.dev/v1alpha1/plugins/puppet";
/// The ConfigMap with the component of that Plugin.
const SOURCE: &str = "/api/v1/namespaces/windlass-system/configmaps/puppet";
