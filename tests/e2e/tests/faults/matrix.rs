//! Stale and unobserved state: what lies between the host and the API server fails for a while in each step of the lives,
//! which are lived side by side. When it is over, every life goes on as an undisturbed one.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

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

/// A fault by its name.
struct Scenario {
    name: String,
    rules: Vec<Rule>,
    /// The host is killed while it lasts, and the next one reads from before the step.
    restarts_in_the_past: bool,
    lasts: Duration,
}

fn scenarios() -> Vec<Scenario> {
    let usual = if is_whole() { LASTS } else { LASTS_IN_SAMPLE };
    let mut scenarios = Vec::new();
    let mut add = |name: &str, rules: Vec<Rule>| {
        scenarios.push(Scenario { name: name.to_owned(), rules, restarts_in_the_past: false, lasts: usual });
    };
    let watches = Match::watches;
    for kind in [
        "pods",
        "secrets",
        "persistentvolumeclaims",
        "services",
        "deployments",
        "ingresses",
        "networkpolicies",
        "resourcequotas",
        "limitranges",
        "configmaps",
        "jobs",
        "namespaces",
    ] {
        add(&format!("silent {kind}"), vec![Rule::new(watches().resource(kind), Fault::Silence)]);
    }
    let parents = ["echoes", "myapps", "mysqlclusters", "applications", "namespaces", "finalizingpuppets"];
    add("silent parents", parents.map(|kind| Rule::new(watches().resource(kind), Fault::Silence)).into());
    // A plugin that sees the volumes would not generate a password anew.
    let data = ["secrets", "persistentvolumeclaims"];
    add("silent passwords and volumes", data.map(|kind| Rule::new(watches().resource(kind), Fault::Silence)).into());
    add("silent all", vec![Rule::new(watches(), Fault::Silence)]);
    add("events doubled", vec![Rule::new(watches(), Fault::Double)]);
    add("events reordered", vec![Rule::new(watches(), Fault::SwapObjects)]);
    add(
        "watches expire",
        vec![
            Rule::new(watches(), Fault::Expire).probability(0.2),
            Rule::new(watches(), Fault::status(410)).probability(0.2),
        ],
    );
    add("replies lost", vec![Rule::new(Match::writes(), Fault::CloseAfter).probability(0.3)]);
    add("requests lost", vec![Rule::new(Match::writes(), Fault::CloseBefore).probability(0.3)]);
    add("conflicts", vec![Rule::new(Match::writes(), Fault::status(409)).probability(0.3)]);
    add("replies late", vec![Rule::new(Match::any(), Fault::Delay(Duration::from_secs(2))).probability(0.3)]);
    add(
        "overload",
        vec![
            Rule::new(Match::any(), Fault::too_many_requests(1)).probability(0.4),
            Rule::new(Match::any(), Fault::status(429)).probability(0.2),
        ],
    );
    // Together nine tenths.
    let share = 1.0 - 0.1_f64.powf(0.25);
    let storm = [500, 503, 504, 429].map(|code| Rule::new(Match::any(), Fault::status(code)).probability(share));
    scenarios.push(Scenario {
        name: "errors 90 %".to_owned(),
        rules: storm.into(),
        restarts_in_the_past: false,
        lasts: if is_whole() { Duration::from_mins(5) } else { usual },
    });
    scenarios.push(Scenario {
        name: "older API server".to_owned(),
        rules: vec![Rule::new(watches(), Fault::Silence)],
        restarts_in_the_past: true,
        lasts: usual,
    });
    scenarios
}

/// What one life made of a fault: the longest time to converge, or what was wrong.
type Cell = Result<Duration, Vec<String>>;

fn live(stage: &Stage, scenario: &Scenario, courses: &BTreeMap<&str, Course>) -> BTreeMap<&'static str, Cell> {
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
        let until = std::time::Instant::now() + scenario.lasts;
        while std::time::Instant::now() < until {
            for (_, run, _) in &mut runs {
                run.look();
            }
            thread::sleep(Duration::from_millis(500));
        }
        older.into_iter().chain(rules).for_each(|rule| stage.faults.remove(rule));
        thread::scope(|scope| {
            for (plugin, run, longest) in &mut runs {
                let expected = courses[*plugin].get(&step);
                scope.spawn(move || {
                    if let Some((_, took)) = run.wait(step, expected, |_| ()) {
                        *longest = took.max(*longest);
                    }
                });
            }
        });
    }
    let cell = |run: Run, longest| if run.wrong.is_empty() { Ok(longest) } else { Err(run.wrong) };
    runs.into_iter().map(|(plugin, run, longest)| (plugin, cell(run, longest))).collect()
}

/// The API server's version now.
fn version(stage: &Stage) -> u64 {
    let list = stage.env.kubectl(&["get", "--raw", "/api/v1/namespaces?limit=1"]);
    let list: serde_json::Value = serde_json::from_str(&list).expect("a list");
    windlass_e2e::text(&list, "/metadata/resourceVersion").parse().expect("a number")
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
    eprintln!("{:24}{} (seconds to converge, the longest step)", "fault", names.concat());
    let (mut cells, mut wrong) = (0, Vec::new());
    for scenario in chosen {
        let row = live(stage, &scenario, &courses);
        stage.faults.clear();
        let shown = LIVES.iter().map(|life| match &row[life.plugin] {
            Ok(longest) => format!("{:>17.1}", longest.as_secs_f64()),
            Err(_) => format!("{:>17}", "WRONG"),
        });
        eprintln!("{:24}{}", scenario.name, shown.collect::<Vec<_>>().concat());
        cells += row.len();
        for (plugin, cell) in row {
            wrong.extend(cell.err().into_iter().flatten().map(|what| format!("{}, {plugin}: {what}", scenario.name)));
        }
    }
    let count = |word: &str| wrong.iter().filter(|wrong| wrong.contains(word)).count();
    eprintln!(
        "{cells} lives: {} lost, {} left over or replaced, {} stuck (seed {seed})",
        count("lost:"),
        count("left over:") + count("replaced"),
        count("stuck:")
    );
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
}
