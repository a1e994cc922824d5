//! Runs a history: users and faults by the clock, hosts as they are, and what must be true in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_api_model::ApiServer;
use windlass_engine::clock;

use crate::controllers;
use crate::expected;
use crate::history::{Act, CALM, History, SPAN};
use crate::host::{Flags, Host};
use crate::inherited_children;
use crate::leaving_finalizers;
use crate::network::{HOST_USER, Network};
use crate::retained_child;
use crate::rolling_update::RollingUpdate;
use crate::setup::{Compiled, NAMESPACE, OPERATORS, Operator, beginning, cluster};
use crate::stages;
use crate::steady_state::{self, SOON};
use crate::trial::{Killed, Trial};
use crate::user::User;

/// Minutes after the last fault until the steady state: more than the longest backoff and wait of a host.
const CONVERGES_IN: u32 = 12;
/// Largest number of hosts that run at the same time.
const HOSTS: usize = 4;
const MINUTE: Duration = Duration::from_mins(1);
/// Time in the steady state, in which a host writes nothing: two resyncs.
const STEADY: Duration = Duration::from_mins(23);
/// Time after which another host has taken the place of one that was killed, and has done what that one would have.
const REPLACED_AFTER: Duration = Duration::from_mins(1);
/// Time after which hosts share the parents again: the leader keeps what it took back for half of it.
const SHARED_AFTER: Duration = Duration::from_mins(1);
/// Time after which the first child of a rolling update has changed, and is not ready yet.
const FIRST_IS_CHANGED: Duration = Duration::from_secs(1);

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
        self.user().undo();
        for _ in 0..CONVERGES_IN {
            self.replace_ended()?;
            self.user().follow_conditions();
            // A cluster-scoped parent stays when the namespace of its children goes.
            self.user().send("POST", "/api/v1/namespaces", Some(json!({ "metadata": { "name": NAMESPACE } })));
            sleep(MINUTE).await;
        }
        let mut problems = std::mem::take(&mut self.problems);
        problems.extend(self.network.with_server(|server| expected::differences(server)));
        let before = self.network.with_server(|server| server.changes().len());
        sleep(STEADY).await;
        problems.extend(self.network.with_server(|server| expected::written_in_steady_state(server, before)));
        let running = self.running();
        if history.exits && running > 1 {
            problems.push(format!("{running} hosts run, although those without the Lease should have exited"));
        }
        problems.extend(self.unshared().await);
        if history.goes_on {
            let has_stages = history.plugins.iter().any(|plugin| plugin == stages::PLUGIN);
            problems.extend(self.change_in_steady_state(history.seed, has_stages).await?);
        }
        problems.extend(self.network.violations());
        controllers.iter().for_each(AbortHandle::abort);
        let (hash, lines) = self.network.with_trace(|trace| (trace.hash(), trace.lines().to_vec()));
        Ok(Outcome { problems, hash, lines, reached: BTreeMap::new() })
    }

    /// Lets users do what hosts must follow exactly, when nothing fails.
    async fn change_in_steady_state(&mut self, seed: u64, has_stages: bool) -> anyhow::Result<Vec<String>> {
        let mut problems = steady_state::parents_change(&self.network).await;
        if self.network.with_server(|server| steady_state::is_calm(server)) {
            self.act_all(&Trial::clear())?;
            sleep(SOON).await;
            // What a user has allowed once is not allowed later.
            for trial in [Trial::of(seed), Trial::of(!seed)] {
                problems.extend(self.ask_for_less(&trial).await?);
            }
            problems.extend(retained_child::problems(self.user()).await?);
            problems.extend(inherited_children::children_are_restored(self.user()).await?);
            problems.extend(inherited_children::host_is_upgraded(self.user()).await?);
            problems.extend(inherited_children::child_is_released(self.user()).await?);
            problems.extend(leaving_finalizers::problems(self.user()).await?);
            problems.extend(steady_state::objects_are_adopted(self.user()).await?);
            problems.extend(self.roll_out(&RollingUpdate::of(seed)).await?);
            if has_stages {
                problems.extend(self.go_through_stages(seed).await?);
            }
        }
        problems.extend(steady_state::parents_go(&self.network).await);
        Ok(problems)
    }

    /// Asks for fewer children, in the steady state, and then allows their deletion.
    async fn ask_for_less(&mut self, trial: &Trial) -> anyhow::Result<Vec<String>> {
        self.act_all(&trial.prepare())?;
        sleep(SOON).await;
        self.act_all(&trial.begin())?;
        sleep(SOON).await;
        let mut problems = self.network.with_server(|server| expected::differences(server));
        self.act_all(&trial.stall())?;
        sleep(SOON).await;
        self.act_all(&trial.change())?;
        if let Killed::Early(after) = trial.killed {
            sleep(Duration::from_millis(after)).await;
            self.replace_first().await?;
        }
        sleep(SOON).await;
        self.act_all(&trial.meanwhile())?;
        sleep(SOON).await;
        if trial.killed == Killed::Late {
            self.replace_first().await?;
        }
        let allowed = self.user().allow_wrongly();
        sleep(SOON).await;
        problems.extend(self.user().not_told(&allowed));
        problems.extend(self.network.with_server(|server| trial.problems(server)));
        self.act(&trial.lost())?;
        self.user().follow_conditions();
        sleep(SOON).await;
        problems.extend(self.network.with_server(|server| trial.problems_when_allowed(server)));
        problems.extend(self.unshared().await);
        self.user().undo();
        sleep(SOON).await;
        // The children that were renamed are to be deleted now.
        self.user().follow_conditions();
        sleep(SOON).await;
        Ok(problems)
    }

    /// Changes the children of a parent that change one after the other, in the steady state.
    async fn roll_out(&mut self, update: &RollingUpdate) -> anyhow::Result<Vec<String>> {
        self.act(&update.begin())?;
        sleep(SOON).await;
        let begin = self.network.with_server(|server| server.changes().len());
        self.act(&update.change())?;
        sleep(FIRST_IS_CHANGED).await;
        let untold = self.network.with_server(|server| update.untold(server, begin));
        sleep(SOON).await;
        let problems =
            self.network.with_server(|server| [update.problems(server, begin), expected::differences(server)].concat());
        Ok(untold.into_iter().chain(problems).collect())
    }

    /// Creates, changes and deletes a parent whose children have stages, in the steady state. A host may be killed meanwhile.
    async fn go_through_stages(&mut self, seed: u64) -> anyhow::Result<Vec<String>> {
        let mut problems = Vec::new();
        for (value, is_killed) in [(0, seed.is_multiple_of(8)), (1, seed % 8 == 4)] {
            let begin = self.network.with_server(|server| server.changes().len());
            self.act(&stages::apply(value))?;
            if is_killed {
                sleep(FIRST_IS_CHANGED).await;
                self.replace_first().await?;
            }
            sleep(SOON).await;
            let found = |server: &mut ApiServer| {
                [stages::problems_going_up(server, begin), expected::differences(server)].concat()
            };
            problems.extend(self.network.with_server(found));
        }
        let begin = self.network.with_server(|server| server.changes().len());
        self.act(&stages::delete())?;
        sleep(SOON).await;
        problems.extend(self.network.with_server(|server| stages::problems_going_down(server, begin)));
        Ok(problems)
    }

    /// Number of hosts that run.
    fn running(&self) -> usize {
        self.hosts.iter().filter(|host| !host.has_ended()).count()
    }

    /// The Plugins whose parents should be shared a while later, and are not.
    async fn unshared(&self) -> Vec<String> {
        if self.flags.shards < 2 || self.running() < 2 {
            return Vec::new();
        }
        sleep(SHARED_AFTER).await;
        self.network.with_server(|server| steady_state::unshared(server))
    }

    /// Kills a host, and waits until another one has done what that one would have.
    async fn replace_first(&mut self) -> anyhow::Result<()> {
        self.act(&Act::Crash { host: 0 })?;
        sleep(REPLACED_AFTER).await;
        Ok(())
    }

    fn act_all(&mut self, acts: &[Act]) -> anyhow::Result<()> {
        acts.iter().try_for_each(|act| self.act(act))
    }

    fn act(&mut self, what: &Act) -> anyhow::Result<()> {
        self.replace_ended()?;
        self.network.with_trace(|trace| trace.note(&format!("* {what:?}")));
        if matches!(what, Act::Expect | Act::Contains { .. } | Act::AtMost { .. } | Act::Calls { .. }) {
            let found = self.compare(what);
            self.problems.extend(found);
            return Ok(());
        }
        if self.user().does(what)? { Ok(()) } else { self.go_wrong(what) }
    }

    fn user(&self) -> User<'_> {
        User { network: &self.network, compiled: self.compiled }
    }

    /// How the cluster differs from what a history says about this time.
    fn compare(&self, what: &Act) -> Vec<String> {
        match what {
            Act::Contains { path, object } => {
                let lacking = expected::lacking(&self.user().send("GET", path, None).body, object);
                lacking.into_iter().map(|lacks| format!("not in time: {path} {lacks}")).collect()
            }
            Act::AtMost { changes, resource, with } => {
                let often = |server: &mut ApiServer| expected::too_often(server, *changes, resource, with);
                self.network.with_server(often).into_iter().collect()
            }
            Act::Calls { least, most } => {
                let calls = clock::simulation::take_calls();
                let problem = || format!("{calls} calls, and {least} to {most} are allowed");
                (!(*least..=*most).contains(&calls)).then(problem).into_iter().collect()
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
            Act::SetClock { seconds } => clock::simulation::set_date_by(SignedDuration::from_secs(*seconds)),
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
}
