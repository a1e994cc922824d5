//! Stale and unobserved state: what lies between the host and the API server fails for a while in each step of the lives,
//! which are lived side by side. When it is over, every life goes on as an undisturbed one.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use windlass_e2e::{SOON, condition, text};
use windlass_faults::{Fault, Match, Rule, Verb};

use crate::life::{Course, LIVES, Run, STEPS, Step};
use crate::stage::{Stage, stage};
use crate::{is_asked_for, is_whole};

/// How long a fault lasts in each step: long enough for several tries of the host.
const LASTS: Duration = Duration::from_secs(15);
/// In a sample.
const LASTS_IN_SAMPLE: Duration = Duration::from_secs(4);
/// Faults that a sample takes.
const SAMPLE: usize = 1;
/// Time between two looks while a fault lasts.
const LOOK: Duration = Duration::from_secs(1);
/// The step in which a fault that is to be noticed lasts longer than in the others.
const LONG_STEP: Step = Step::Scale;
/// A watch that is silent has stalled after 4 minutes; the rest is for the host to say so and for its metrics to arrive.
const UNTIL_NOTICED: Duration = Duration::from_secs(4 * 60 + 40);

/// A fault by its name.
#[derive(Clone)]
struct Scenario {
    name: String,
    rules: Vec<Rule>,
    /// The host is killed while it lasts, and the next one reads from before the step.
    restarts_in_the_past: bool,
    lasts: Duration,
    /// In [`LONG_STEP`], if that is longer.
    lasts_long: Option<Duration>,
    /// From the end of the fault on, in each step.
    converges_within: Duration,
    says: Says,
}

/// What the host must say of its watches while a fault lasts: `/readyz`, the Plugins' condition `Synced`, and the metric
/// of the time since the last progress.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// All of them make progress, or are silent for less than a host can notice.
    Fresh,
    /// At the end of the long step: the watches of this kind have stalled.
    Stalled(&'static str),
    /// Requests of the watches fail at random: no telling what is true at a moment.
    Either,
}

fn scenarios() -> Vec<Scenario> {
    let usual = Scenario {
        name: String::new(),
        rules: Vec::new(),
        restarts_in_the_past: false,
        lasts: if is_whole() { LASTS } else { LASTS_IN_SAMPLE },
        lasts_long: None,
        converges_within: SOON,
        says: Says::Fresh,
    };
    let long = |duration: Duration| is_whole().then_some(duration);
    let mut scenarios = Vec::new();
    let mut add = |name: &str, says: Says, rules: Vec<Rule>| {
        scenarios.push(Scenario { name: name.to_owned(), rules, says, ..usual.clone() });
    };
    let watches = Match::watches;
    for kind in [
        "pods",
        "secrets",
        "persistentvolumeclaims",
        "services",
        "deployments",
        "ingresses",
        "horizontalpodautoscalers",
        "networkpolicies",
        "resourcequotas",
        "limitranges",
        "configmaps",
        "jobs",
        "namespaces",
        "plugins",
        "customresourcedefinitions",
    ] {
        add(&format!("silent {kind}"), Says::Fresh, vec![Rule::new(watches().resource(kind), Fault::Silence)]);
    }
    let silent =
        |kinds: &[&str]| kinds.iter().map(|kind| Rule::new(watches().resource(kind), Fault::Silence)).collect();
    let parents = ["echoes", "myapps", "mysqlclusters", "applications", "namespaces", "finalizingpuppets"];
    add("silent parents", Says::Fresh, silent(&parents));
    // A plugin that sees the volumes would not generate another password.
    add("silent passwords and volumes", Says::Fresh, silent(&["secrets", "persistentvolumeclaims"]));
    add("silent all", Says::Fresh, vec![Rule::new(watches(), Fault::Silence)]);
    add("events doubled", Says::Fresh, vec![Rule::new(watches(), Fault::Double)]);
    add("events reordered", Says::Fresh, vec![Rule::new(watches(), Fault::SwapObjects)]);
    add(
        "watches expire",
        Says::Either,
        vec![
            Rule::new(watches(), Fault::Expire).probability(0.2),
            Rule::new(watches(), Fault::status(410)).probability(0.2),
        ],
    );
    add("replies lost", Says::Fresh, vec![Rule::new(Match::writes(), Fault::CloseAfter).probability(0.3)]);
    add("requests lost", Says::Fresh, vec![Rule::new(Match::writes(), Fault::CloseBefore).probability(0.3)]);
    add("conflicts", Says::Fresh, vec![Rule::new(Match::writes(), Fault::status(409)).probability(0.3)]);
    add(
        "replies late",
        Says::Fresh,
        vec![Rule::new(Match::any(), Fault::Delay(Duration::from_secs(2))).probability(0.3)],
    );
    add(
        "overload",
        Says::Either,
        vec![
            Rule::new(Match::any(), Fault::too_many_requests(1)).probability(0.4),
            Rule::new(Match::any(), Fault::status(429)).probability(0.2),
        ],
    );
    scenarios.push(Scenario {
        name: "silent Secrets, noticed".to_owned(),
        rules: silent(&["secrets"]),
        lasts_long: long(UNTIL_NOTICED),
        says: if is_whole() { Says::Stalled("Secret.v1") } else { Says::Fresh },
        ..usual.clone()
    });
    // Together nine tenths.
    let share = 1.0 - 0.1_f64.powf(0.25);
    let storm = [500, 503, 504, 429].map(|code| Rule::new(Match::any(), Fault::status(code)).probability(share));
    scenarios.push(Scenario {
        name: "errors 90 %".to_owned(),
        rules: storm.into(),
        lasts_long: long(Duration::from_mins(5)),
        converges_within: Duration::from_secs(30),
        says: Says::Either,
        ..usual.clone()
    });
    scenarios.push(Scenario {
        name: "older API server".to_owned(),
        rules: vec![Rule::new(watches(), Fault::Silence)],
        restarts_in_the_past: true,
        says: Says::Either,
        ..usual
    });
    scenarios
}

/// What one life made of a fault: the longest time to converge, or what was wrong.
type Cell = Result<Duration, Vec<String>>;

fn live(
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
        // An activation cannot be watched from the past: the Plugin's own reads would be of its former self.
        let older = (scenario.restarts_in_the_past && step != Step::NewComponent).then(|| {
            stage.kill_host();
            let reads = Match::verbs(&[Verb::Get, Verb::List]);
            let older = stage.faults.add(Rule::new(reads, Fault::ServeOlder(version)));
            stage.ensure_host();
            older
        });
        // The fault lasts for a time, whatever the host does meanwhile.
        let lasts = scenario.lasts_long.filter(|_| step == LONG_STEP).unwrap_or(scenario.lasts);
        let until = Instant::now() + lasts;
        while Instant::now() < until {
            for (_, run, _) in &mut runs {
                run.look();
            }
            untrue.extend(while_it_lasts(stage, scenario));
            thread::sleep(LOOK);
        }
        if step == LONG_STEP {
            untrue.extend(at_its_end(stage, scenario));
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

/// The Plugins whose watches have stalled, and which ones, as their condition `Synced` says.
fn stalled_plugins(stage: &Stage) -> BTreeMap<String, String> {
    let plugins = stage.env.list("plugins.windlass.dev", "").into_iter();
    let synced = plugins.map(|plugin| (text(&plugin, "/metadata/name"), condition(&plugin, "Synced")));
    synced.filter(|(_, synced)| synced.is_false("WatchStalled")).map(|(name, synced)| (name, synced.message)).collect()
}

/// What the host says that is not so, at a moment while a fault lasts.
fn while_it_lasts(stage: &Stage, scenario: &Scenario) -> Vec<String> {
    let mut untrue = Vec::new();
    let mut check = |is_true: bool, said: String| {
        if !is_true {
            untrue.push(said);
        }
    };
    // A host that was just started does not serve it yet.
    let health = stage.http_status("/healthz");
    let is_alive = health == Some(200) || (health.is_none() && scenario.restarts_in_the_past);
    check(is_alive, format!("untrue: /healthz says {health:?}"));
    if scenario.says == Says::Fresh {
        let ready = stage.http("/readyz");
        // A fault of all requests also keeps the host from renewing its Lease.
        let is_true = ready.as_ref().is_some_and(|(status, said)| *status == 200 || said.contains("Lease"));
        check(is_true, format!("untrue: /readyz says {ready:?} although no watch has stalled"));
        let stalled = stalled_plugins(stage);
        check(stalled.is_empty(), format!("untrue: Synced says of {stalled:?} that a watch has stalled"));
    }
    untrue
}

/// What the host does not say at the end of a fault that it must have noticed.
fn at_its_end(stage: &Stage, scenario: &Scenario) -> Vec<String> {
    let Says::Stalled(kind) = scenario.says else { return Vec::new() };
    let mut untrue = Vec::new();
    let ready = stage.http("/readyz");
    if !ready.as_ref().is_some_and(|(status, said)| *status == 503 && said.contains(kind)) {
        untrue.push(format!("untrue: /readyz says {ready:?} although the watch of {kind} has stalled"));
    }
    for (plugin, uses_it) in [("mysqlcluster", true), ("echo", false)] {
        let said = stalled_plugins(stage).get(plugin).map(|message| message.contains(kind));
        if said != uses_it.then_some(true) {
            untrue.push(format!("untrue: Synced of {plugin} does not say what is so of the watch of {kind}"));
        }
    }
    let age = stage.watch_age(kind);
    if age.is_none_or(|age| age < Duration::from_mins(4)) {
        untrue.push(format!("untrue: the metric says that {kind} made progress {age:?} ago"));
    }
    untrue
}

/// Waits until the host says that all is well again; what it goes on to say that is not so.
fn after_it(stage: &Stage) -> Vec<String> {
    let well = windlass_testbed::until("", SOON, || {
        let is_ready = stage.http_status("/readyz") == Some(200);
        Ok((is_ready && stalled_plugins(stage).is_empty()).then_some(()))
    });
    match well {
        Ok(()) => Vec::new(),
        Err(_) => vec![format!(
            "untrue: after the fault /readyz says {:?}, and Synced of {:?} that a watch has stalled",
            stage.http_status("/readyz"),
            stalled_plugins(stage)
        )],
    }
}

/// The API server's version now.
fn version(stage: &Stage) -> u64 {
    let list = stage.env.kubectl(&["get", "--raw", "/api/v1/namespaces?limit=1"]);
    let list: serde_json::Value = serde_json::from_str(&list).expect("a list");
    text(&list, "/metadata/resourceVersion").parse().expect("a number")
}

#[test]
fn r03_lives_go_on_when_what_failed_for_a_while_is_back() {
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
        assert!(wrong.is_empty(), "an undisturbed {plugin}: {wrong:#?}");
        courses.insert(plugin, course);
    }
    let mut chosen = scenarios();
    chosen.retain(|scenario| is_asked_for(&scenario.name));
    if !is_whole() {
        fastrand::Rng::with_seed(seed).shuffle(&mut chosen);
        chosen.truncate(SAMPLE);
    }
    let names: Vec<_> = LIVES.iter().map(|life| format!("{:>17}", life.plugin)).collect();
    eprintln!("{:30}{}  health, conditions, metrics (seconds to converge, the longest step)", "fault", names.concat());
    let (mut cells, mut wrong) = (0, Vec::new());
    for scenario in chosen {
        let mut untrue = BTreeSet::new();
        let row = live(stage, &scenario, &courses, &mut untrue);
        stage.faults.clear();
        untrue.extend(after_it(stage));
        let shown = LIVES.iter().map(|life| match &row[life.plugin] {
            Ok(longest) => format!("{:>17.1}", longest.as_secs_f64()),
            Err(_) => format!("{:>17}", "WRONG"),
        });
        let truth = match (scenario.says, untrue.is_empty()) {
            (_, false) => "UNTRUE",
            (Says::Fresh, true) => "no stall said",
            (Says::Stalled(_), true) => "stall said",
            (Says::Either, true) => "alive, ready at the end",
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
