//! Restart at every write, as Sieve (OSDI 2022) does: the host is killed right before a write is sent or right after it
//! was executed, and another host continues.

use windlass_faults::{Match, Moment, Outcome};

use crate::life::{Course, LIVES, Life, Run, STEPS};
use crate::stage::{Stage, stage};
use crate::{is_selected, runs_all};

/// The number of life cycles in a sample, and of kills in each.
const SAMPLE: (usize, usize) = (1, 1);

/// A life cycle without faults: the children after each step, and the number of writes that the host sent.
fn undisturbed(stage: &Stage, life: &Life) -> (Course, usize) {
    let mark = stage.faults.mark();
    let mut run = Run::new(stage, life);
    let mut course = Course::new();
    for step in STEPS {
        run.start(step);
        if let Some((children, _)) = run.wait(step, None, |_| ()) {
            course.insert(step, children);
        }
    }
    assert!(run.wrong.is_empty(), "an undisturbed {}: {:#?}", life.plugin, run.wrong);
    let writes = Match::writes();
    let sent = stage.faults.since(mark).into_iter().filter(|passed| writes.matches(&passed.call));
    (course, sent.filter(|passed| passed.outcome != Outcome::NotSent).count())
}

/// A life cycle whose host is killed at one write. Returns the violations; `None` if there were fewer writes.
fn killed(stage: &Stage, life: &Life, course: &Course, number: usize, moment: Moment) -> Option<Vec<String>> {
    let mut run = Run::new(stage, life);
    let kill = stage.killer();
    let hook = stage.faults.at_request(Match::writes(), number, moment, move |_| kill());
    let mut is_over = false;
    for step in STEPS {
        run.start(step);
        let tend = |run: &mut Run| {
            if !is_over && hook.hit().is_some() {
                is_over = true;
                stage.kill_host();
                // Observe generated values before the next host could replace them.
                run.observe();
                stage.ensure_host();
            }
        };
        if run.wait(step, course.get(&step), tend).is_none() {
            break;
        }
    }
    stage.faults.clear_hooks();
    if hook.hit().is_some() && !is_over {
        stage.kill_host();
    }
    stage.ensure_host();
    stage.wait_ready();
    let at = hook.hit()?;
    let place = format!(
        "{} killed {moment:?} write {number} ({:?} {}/{} {})",
        life.plugin, at.verb, at.resource, at.subresource, at.name
    );
    Some(run.wrong.into_iter().map(|wrong| format!("{place}: {wrong}")).collect())
}

#[test]
fn r01_parent_reaches_the_same_end_state_wherever_the_host_is_killed() {
    let stage = &*stage();
    let seed = stage.faults.seed();
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut lives: Vec<_> = LIVES.iter().filter(|life| is_selected(life.plugin)).collect();
    if !runs_all() {
        chance.shuffle(&mut lives);
        lives.truncate(SAMPLE.0);
    }
    let (mut runs, mut wrong) = (0, Vec::new());
    for life in lives {
        let (course, writes) = undisturbed(stage, life);
        let mut kills: Vec<_> =
            (1..=writes).flat_map(|number| [Moment::Before, Moment::After].map(|moment| (number, moment))).collect();
        if !runs_all() {
            chance.shuffle(&mut kills);
            kills.truncate(SAMPLE.1);
        }
        let (mut of_life, mut differing) = (0, 0);
        for (number, moment) in kills {
            // The number of writes varies: a status is written as often as the host observes a change.
            let Some(found) = killed(stage, life, &course, number, moment) else { continue };
            of_life += 1;
            differing += usize::from(!found.is_empty());
            for found in &found {
                eprintln!("{found}");
            }
            wrong.extend(found);
        }
        eprintln!("{}: {writes} writes, {of_life} runs with a kill, {differing} that differ", life.plugin);
        runs += of_life;
    }
    eprintln!("restart at every write: {runs} runs, {} differences (seed {seed})", wrong.len());
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
}
