//! Stale and unobserved state: watches are silent, or the API server fails, for a while in each step of all life cycles, which run side by
//! side. After the fault, every parent must converge as without it. What one request or event can suffer, the simulator tries more often
//! (`tests/simulator`); here the operators are real ones, and so are `/readyz`, conditions and metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use windlass_e2e::{TIMEOUT, condition, text};
use windlass_faults::{Fault, Match, Rule, Verb};

use crate::life::{Course, LIVES, Run, STEPS, Step};
use crate::stage::{Stage, stage};
use crate::{is_selected, runs_all};

/// The duration of a fault in each step: long enough for several tries of the host.
const LASTS: Duration = Duration::from_secs(15);
/// The duration of a fault in a sample.
const LASTS_IN_SAMPLE: Duration = Duration::from_secs(4);
/// The number of faults in a sample.
const SAMPLE: usize = 1;
/// The time between two polls during a fault.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The step in which a fault lasts long enough for the host to report it.
const LONG_STEP: Step = Step::Scale;
/// A silent watch counts as stalled after 4 minutes; the rest is time for the host's report and its metrics to arrive.
const UNTIL_NOTICED: Duration = Duration::from_secs(4 * 60 + 40);

/// A fault by its name.
#[derive(Clone)]
struct Scenario {
    name: String,
    rules: Vec<Rule>,
    /// The host is killed during the fault, and the next one reads the state from before the step.
    restarts_in_the_past: bool,
    lasts: Duration,
    /// In [`LONG_STEP`], if that is longer.
    lasts_long: Option<Duration>,
    /// The limit from the end of the fault on, in each step.
    converges_within: Duration,
    report: Report,
}

/// What the host must report about its watches during a fault, by `/readyz`, the Plugins' condition `Synced`, and the
/// metric of the time since the last progress.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Report {
    /// No stall: all watches make progress, or are silent for less than 4 minutes.
    Fresh,
    /// At the end of the long step, the watch of this kind has stalled.
    Stalled(&'static str),
    /// Requests of the watches fail at random, so either report may be right.
    Either,
}

fn scenarios() -> Vec<Scenario> {
    let usual = Scenario {
        name: String::new(),
        rules: Vec::new(),
        restarts_in_the_past: false,
        lasts: if runs_all() { LASTS } else { LASTS_IN_SAMPLE },
        lasts_long: None,
        converges_within: TIMEOUT,
        report: Report::Fresh,
    };
    let long = |duration: Duration| runs_all().then_some(duration);
    let mut scenarios = Vec::new();
    let mut add = |name: &str, report: Report, rules: Vec<Rule>| {
        scenarios.push(Scenario { name: name.to_owned(), rules, report, ..usual.clone() });
    };
    let watches = Match::watches;
    for kind in [
        "pods",
        "secrets",
        "persistentvolumeclaims",
        "deployments",
        "jobs",
        "namespaces",
        "plugins",
        "customresourcedefinitions",
    ] {
        add(&format!("silent {kind}"), Report::Fresh, vec![Rule::new(watches().resource(kind), Fault::Silence)]);
    }
    let silent =
        |kinds: &[&str]| kinds.iter().map(|kind| Rule::new(watches().resource(kind), Fault::Silence)).collect();
    let parents = ["echoes", "myapps", "mysqlclusters", "applications", "namespaces", "finalizingpuppets"];
    add("silent parents", Report::Fresh, silent(&parents));
    // A plugin that sees the claims would not generate another password.
    add("silent passwords and volumes", Report::Fresh, silent(&["secrets", "persistentvolumeclaims"]));
    add("silent all", Report::Fresh, vec![Rule::new(watches(), Fault::Silence)]);
    scenarios.push(Scenario {
        name: "silent Secrets, noticed".to_owned(),
        rules: silent(&["secrets"]),
        lasts_long: long(UNTIL_NOTICED),
        report: if runs_all() { Report::Stalled("Secret.v1") } else { Report::Fresh },
        ..usual.clone()
    });
    // The four rules together fail 90 % of the requests.
    let share = 1.0 - 0.1_f64.powf(0.25);
    let storm = [500, 503, 504, 429].map(|code| Rule::new(Match::any(), Fault::Status(code)).probability(share));
    scenarios.push(Scenario {
        name: "errors 90 %".to_owned(),
        rules: storm.into(),
        lasts_long: long(Duration::from_mins(5)),
        converges_within: Duration::from_secs(30),
        report: Report::Either,
        ..usual.clone()
    });
    scenarios.push(Scenario {
        name: "older API server".to_owned(),
        rules: vec![Rule::new(watches(), Fault::Silence)],
        restarts_in_the_past: true,
        report: Report::Either,
        ..usual
    });
    scenarios
}

/// The result of one life cycle with a fault: the longest time to converge, or the violations.
type Cell = Result<Duration, Vec<String>>;

fn run_scenario(
    stage: &Stage,
    scenario: &Scenario,
    courses: &BTreeMap<&str, Course>,
    untrue: &mut BTreeSet<String>,
) -> BTreeMap<&'static str, Cell> {
    let mut runs: Vec<_> = LIVES.iter().map(|life| (life.plugin, Run::new(stage, life), Duration::ZERO)).collect();
    for step in STEPS {
        let version = version(stage);
        let rules: Vec<_> = scenario.rules.iter().map(|rule| stage.faults.add(rule.clone())).collect();
        thread::scope(|scope| {
            for (_, run, _) in &runs {
                scope.spawn(|| run.start(step));
            }
        });
        // With older reads, an activation cannot be observed: the Plugin itself would be read in its older state.
        let older = (scenario.restarts_in_the_past && step != Step::NewComponent).then(|| {
            stage.kill_host();
            let reads = Match::verbs(&[Verb::Get, Verb::List]);
            let older = stage.faults.add(Rule::new(reads, Fault::ServeOlder(version)));
            stage.ensure_host();
            older
        });
        // The fault lasts for a fixed time.
        let lasts = scenario.lasts_long.filter(|_| step == LONG_STEP).unwrap_or(scenario.lasts);
        let until = Instant::now() + lasts;
        while Instant::now() < until {
            for (_, run, _) in &mut runs {
                run.observe();
            }
            untrue.extend(false_reports_during(stage, scenario));
            thread::sleep(POLL_INTERVAL);
        }
        if step == LONG_STEP {
            untrue.extend(missing_reports_at_the_end_of(stage, scenario));
        }
        older.into_iter().chain(rules).for_each(|rule| stage.faults.remove(rule));
        thread::scope(|scope| {
            for (plugin, run, longest) in &mut runs {
                let expected = courses[*plugin].get(&step);
                scope.spawn(move || {
                    if let Some((_, took)) = run.wait(step, expected, |_| ()) {
                        *longest = took.max(*longest);
                        if took > scenario.converges_within {
                            run.wrong.push(format!("{step:?}: stuck: for {took:?}"));
                        }
                    }
                });
            }
        });
    }
    let cell = |run: Run, longest| if run.wrong.is_empty() { Ok(longest) } else { Err(run.wrong) };
    runs.into_iter().map(|(plugin, run, longest)| (plugin, cell(run, longest))).collect()
}

/// The Plugins whose watches have stalled, with the message of their condition `Synced`.
fn stalled_plugins(stage: &Stage) -> BTreeMap<String, String> {
    let plugins = stage.env.list("plugins.windlass.dev", "").into_iter();
    let synced = plugins.map(|plugin| (text(&plugin, "/metadata/name"), condition(&plugin, "Synced")));
    synced.filter(|(_, synced)| synced.is_false("WatchStalled")).map(|(name, synced)| (name, synced.message)).collect()
}

/// False reports of the host during a fault.
fn false_reports_during(stage: &Stage, scenario: &Scenario) -> Vec<String> {
    let mut untrue = Vec::new();
    let mut check = |is_true: bool, message: String| {
        if !is_true {
            untrue.push(message);
        }
    };
    // A host that has just started does not serve /healthz yet.
    let health = stage.http_status("/healthz");
    let is_alive = health == Some(200) || (health.is_none() && scenario.restarts_in_the_past);
    check(is_alive, format!("untrue: /healthz returns {health:?}"));
    if scenario.report == Report::Fresh {
        let ready = stage.http("/readyz");
        // A fault of all requests also keeps the host from renewing its Lease.
        let is_true = ready.as_ref().is_some_and(|(status, body)| *status == 200 || body.contains("Lease"));
        check(is_true, format!("untrue: /readyz returns {ready:?} although no watch has stalled"));
        let stalled = stalled_plugins(stage);
        check(stalled.is_empty(), format!("untrue: Synced reports a stalled watch for {stalled:?}"));
    }
    untrue
}

/// Missing reports of the host at the end of a fault that it must report.
fn missing_reports_at_the_end_of(stage: &Stage, scenario: &Scenario) -> Vec<String> {
    let Report::Stalled(kind) = scenario.report else { return Vec::new() };
    let mut untrue = Vec::new();
    let ready = stage.http("/readyz");
    if !ready.as_ref().is_some_and(|(status, body)| *status == 503 && body.contains(kind)) {
        untrue.push(format!("untrue: /readyz returns {ready:?} although the watch of {kind} has stalled"));
    }
    for (plugin, uses_it) in [("mysqlcluster", true), ("echo", false)] {
        let is_reported = stalled_plugins(stage).get(plugin).map(|message| message.contains(kind));
        if is_reported != uses_it.then_some(true) {
            untrue.push(format!("untrue: Synced of {plugin} does not match the state of the watch of {kind}"));
        }
    }
    let age = stage.watch_age(kind);
    if age.is_none_or(|age| age < Duration::from_mins(4)) {
        untrue.push(format!("untrue: by the metric, the watch of {kind} made progress {age:?} ago"));
    }
    untrue
}

/// Waits until the host reports no stall any more. Returns the false reports that remain.
fn false_reports_after(stage: &Stage) -> Vec<String> {
    let well = windlass_testbed::until("", TIMEOUT, || {
        let is_ready = stage.http_status("/readyz") == Some(200);
        Ok((is_ready && stalled_plugins(stage).is_empty()).then_some(()))
    });
    match well {
        Ok(()) => Vec::new(),
        Err(_) => vec![format!(
            "untrue: after the fault, /readyz returns {:?}, and Synced reports a stalled watch for {:?}",
            stage.http_status("/readyz"),
            stalled_plugins(stage)
        )],
    }
}

/// The current resourceVersion of the API server.
fn version(stage: &Stage) -> u64 {
    let list = stage.env.kubectl(&["get", "--raw", "/api/v1/namespaces?limit=1"]);
    let list: serde_json::Value = serde_json::from_str(&list).expect("a list");
    text(&list, "/metadata/resourceVersion").parse().expect("a number")
}

#[test]
fn r03_parents_converge_after_every_temporary_fault() {
    let stage = &*stage();
    let seed = stage.faults.seed();
    let mut courses = BTreeMap::new();
    let undisturbed: Vec<_> = thread::scope(|scope| {
        let lives = LIVES.iter().map(|life| {
            scope.spawn(move || {
                let mut run = Run::new(stage, life);
                let mut course = Course::new();
                for step in STEPS {
                    run.start(step);
                    course.extend(run.wait(step, None, |_| ()).map(|(children, _)| (step, children)));
                }
                (life.plugin, course, run.wrong)
            })
        });
        lives.collect::<Vec<_>>().into_iter().map(|life| life.join().expect("a life")).collect()
    });
    for (plugin, course, wrong) in undisturbed {
        assert!(wrong.is_empty(), "{plugin} without a fault: {wrong:#?}");
        courses.insert(plugin, course);
    }
    let mut chosen = scenarios();
    chosen.retain(|scenario| is_selected(&scenario.name));
    if !runs_all() {
        fastrand::Rng::with_seed(seed).shuffle(&mut chosen);
        chosen.truncate(SAMPLE);
    }
    let names: Vec<_> = LIVES.iter().map(|life| format!("{:>17}", life.plugin)).collect();
    eprintln!("{:30}{}  health, conditions, metrics (seconds to converge, the longest step)", "fault", names.concat());
    let (mut cells, mut wrong) = (0, Vec::new());
    for scenario in chosen {
        let mut untrue = BTreeSet::new();
        let row = run_scenario(stage, &scenario, &courses, &mut untrue);
        stage.faults.clear();
        untrue.extend(false_reports_after(stage));
        let shown = LIVES.iter().map(|life| match &row[life.plugin] {
            Ok(longest) => format!("{:>17.1}", longest.as_secs_f64()),
            Err(_) => format!("{:>17}", "WRONG"),
        });
        let truth = match (scenario.report, untrue.is_empty()) {
            (_, false) => "UNTRUE",
            (Report::Fresh, true) => "no stall reported",
            (Report::Stalled(_), true) => "stall reported",
            (Report::Either, true) => "alive, ready at the end",
        };
        eprintln!("{:30}{}  {truth}", scenario.name, shown.collect::<Vec<_>>().concat());
        let mut note = |what: String| {
            eprintln!("{what}");
            wrong.push(what);
        };
        for what in untrue {
            note(format!("{}: {what}", scenario.name));
        }
        cells += row.len();
        for (plugin, cell) in row {
            for what in cell.err().into_iter().flatten() {
                note(format!("{}, {plugin}: {what}", scenario.name));
            }
        }
    }
    let count = |word: &str| wrong.iter().filter(|wrong| wrong.contains(word)).count();
    eprintln!(
        "{cells} lives: {} lost, {} left over or replaced, {} stuck; {} untrue (seed {seed})",
        count("lost:"),
        count("left over:") + count("replaced"),
        count("stuck:"),
        count("untrue:")
    );
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
}
