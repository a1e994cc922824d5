use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::expect;

use super::*;
use crate::ids::{Gvk, ObjectKey};

fn child(name: &str) -> ChildId {
    ChildId { kind: Arc::new(Gvk::from_api_version("v1", "Pod")), key: ObjectKey::new(Some("default"), name) }
}

fn writes(problems: &[WriteProblem]) -> Problem {
    Problem::Writes(
        problems.iter().enumerate().map(|(at, problem)| (child(&format!("p{at}")), problem.clone())).collect(),
    )
}

fn say(problems: &[Problem]) -> String {
    problems.iter().fold(String::new(), |mut text, problem| {
        let outcome = Outcome::from(problem);
        let _ = writeln!(text, "{} ({:?}): {}", outcome.reason, outcome.requeue, outcome.message);
        text
    })
}

#[test]
fn every_failure_of_a_call_has_a_reason_and_backs_off() {
    let calls = [
        CallFailure::Deadline { limit: Duration::from_secs(1) },
        CallFailure::Memory { limit: 64 },
        CallFailure::TableElements { limit: 64 },
        CallFailure::Instances { limit: 4 },
        CallFailure::StackOverflow,
        CallFailure::Trap { message: "unreachable".to_owned() },
        CallFailure::UnknownImport { name: "wasi:sockets/tcp".to_owned() },
        CallFailure::Exit { said: None },
        CallFailure::Exit { said: Some("panic: no replicas".to_owned()) },
        CallFailure::RequestTooLarge { size: 9, limit: 8 },
        CallFailure::ResponseTooLarge { limit: 8 },
        CallFailure::Malformed { message: "invalid UTF-8".to_owned() },
        CallFailure::Host { message: "no memory".to_owned() },
    ];
    expect![[r"
        DeadlineExceeded (Backoff(0ns)): The plugin's call failed: no response within 1000 ms
        MemoryLimit (Backoff(0ns)): The plugin's call failed: memory limit of 64 bytes exceeded
        LimitExceeded (Backoff(0ns)): The plugin's call failed: limit of 64 table elements exceeded
        LimitExceeded (Backoff(0ns)): The plugin's call failed: the component has more than 4 core instances
        Trapped (Backoff(0ns)): The plugin's call failed: stack overflow
        Trapped (Backoff(0ns)): The plugin's call failed: trap: unreachable
        Trapped (Backoff(0ns)): The plugin's call failed: unsupported import wasi:sockets/tcp was called
        Trapped (Backoff(0ns)): The plugin's call failed: the plugin called exit
        Trapped (Backoff(0ns)): The plugin's call failed: the plugin called exit: panic: no replicas
        LimitExceeded (Backoff(0ns)): The plugin's call failed: the request has 9 bytes, more than the limit of 8
        LimitExceeded (Backoff(0ns)): The plugin's call failed: the response has more than the limit of 8 bytes
        MalformedResponse (Backoff(0ns)): The plugin's call failed: malformed response: invalid UTF-8
        HostError (Backoff(0ns)): The plugin's call failed: the host could not run the call: no memory
    "]]
    .assert_eq(&say(&calls.map(Problem::Call)));
}

#[test]
fn r13_what_a_plugin_says_decides_when_it_is_asked_again() {
    expect![[r"
        InvalidSpec (WhenChanged): replicas: too many
        Waiting (After(7s)): the database starts
        PluginFailed (Backoff(0ns)): no idea
    "]]
    .assert_eq(&say(&[
        Problem::Plugin(Failure::Invalid("replicas: too many".to_owned())),
        Problem::Plugin(Failure::Retry { message: "the database starts".to_owned(), after: 7000 }),
        Problem::Plugin(Failure::Failed("no idea".to_owned())),
    ]));
}

#[test]
fn the_gravest_write_speaks_for_all_and_says_what_to_do() {
    let rejected =
        WriteProblem::Rejected { code: 422, message: "spec.x: Invalid value".to_owned(), rejection: Rejection::Other };
    let busy = WriteProblem::Unavailable {
        message: "too many requests".to_owned(),
        retry_after: Some(Duration::from_secs(5)),
    };
    let owned = WriteProblem::FieldConflict { conflicts: vec![".spec.image (conflict with \"helm\")".to_owned()] };
    expect![[r#"
        Conflict (Backoff(0ns)): Pod default/p1 exists already and is not a child of this object, so it was left unchanged. Delete or rename it (and 1 more with problems)
        FieldConflict (Backoff(0ns)): Pod default/p0 was not applied, because other field managers own fields of it: .spec.image (conflict with "helm"). To force ownership, the plugin annotates the child with windlass.dev/take-over=true
        ChildRejected (Backoff(5s)): The API server refused Pod default/p1 (422): spec.x: Invalid value (and 2 more with problems)
        APIError (Unavailable(5s)): Pod default/p0 could not be written: too many requests
        Outdated (Unavailable(0ns)): Pod default/p0 changed while it was written; trying again
    "#]]
    .assert_eq(&say(&[
        writes(&[rejected.clone(), WriteProblem::Taken]),
        writes(&[owned]),
        writes(&[busy.clone(), rejected, WriteProblem::Outdated]),
        writes(&[busy]),
        writes(&[WriteProblem::Outdated]),
    ]));
}

#[test]
fn r13_the_wait_that_the_api_server_asks_for_counts_whatever_else_failed_and_is_minutes_at_most() {
    let busy = |seconds| WriteProblem::Unavailable {
        message: "too many requests".to_owned(),
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let rejected =
        WriteProblem::Rejected { code: 422, message: "spec.x: Invalid value".to_owned(), rejection: Rejection::Other };
    let secs = Duration::from_secs;
    for (problems, requeue) in [
        (vec![busy(7)], Requeue::Unavailable(secs(7))),
        (vec![busy(7), busy(9), rejected], Requeue::Backoff(secs(9))),
        (vec![WriteProblem::Taken, busy(7)], Requeue::Backoff(secs(7))),
        (vec![WriteProblem::CacheBehind, busy(7)], Requeue::Backoff(secs(7))),
        (vec![busy(31_536_000)], Requeue::Unavailable(secs(300))),
    ] {
        assert_eq!(Outcome::from(&writes(&problems)).requeue, requeue, "{problems:?}");
    }
}

#[test]
fn r03_a_cache_that_is_behind_is_named_with_its_kinds_and_looked_at_again_without_a_backoff() {
    expect![[r"
        CacheBehind (Pause(5s)): Pod default/p0 exists and is marked as a child of this object, but the host's watch of Pod has not shown it yet; it was left as it is until the watch does
        CacheBehind (Pause(5s)): No child is written, because the host's watch of Pod, Secret has not shown the host's own last writes for more than 30 s. The host goes on as soon as the watch shows them. If this stays so, look for errors of the API server and in the host's log, and restart the host
    "]]
    .assert_eq(&say(&[
        writes(&[WriteProblem::CacheBehind]),
        Problem::CacheBehind(vec!["Pod".to_owned(), "Secret".to_owned()]),
    ]));
}

#[test]
fn a_message_is_bounded_at_a_whole_character() {
    let outcome = Outcome::from(&Problem::Plugin(Failure::Failed("é".repeat(2000))));
    assert!(outcome.message.len() < 1100 && outcome.message.ends_with('…'));
}

#[test]
fn r14_whatever_holds_a_deletion_up_the_message_names_the_way_out_and_it_is_tried_again() {
    let problems = [
        Problem::Finalizing(None),
        Problem::Finalizing(Some(Duration::from_secs(3))),
        Problem::Call(CallFailure::StackOverflow),
        Problem::Plugin(Failure::Invalid("replicas: too many".to_owned())),
    ];
    for problem in problems {
        let outcome = Outcome::from(&problem).while_finalizing();
        assert_eq!(outcome.message.matches(crate::names::ANNOTATION_SKIP_FINALIZE).count(), 1, "{}", outcome.message);
        assert_eq!(outcome.progress, Progress::Reconciling);
        assert_ne!(outcome.requeue, Requeue::WhenChanged);
    }
}

#[test]
fn r16_suspended_is_neither_on_its_way_nor_stalled() {
    let outcome = Outcome::from(&Problem::Suspended(SuspendedBy::Parent));
    assert_eq!((outcome.progress, outcome.requeue), (Progress::Suspended, Requeue::WhenChanged));
    assert!(outcome.message.contains(crate::names::ANNOTATION_SUSPEND));
}

#[test]
fn r18_what_thrashes_comes_back_when_it_may_be_written_again() {
    let rests = vec![(child("a"), Duration::from_secs(50)), (child("b"), Duration::from_secs(20))];
    let outcome = Outcome::from(&Problem::Thrashing(rests));
    assert_eq!((outcome.reason, outcome.requeue), (ParentReason::Thrashing, Requeue::After(Duration::from_secs(20))));
}

#[test]
fn parent_of_a_plugin_without_tokens_comes_back_when_there_are_tokens() {
    let wait = Duration::from_secs(42);
    for problem in [Problem::WritesLimited(wait), Problem::Reads(ReadProblem::Limited { wait })] {
        let outcome = Outcome::from(&problem);
        assert_eq!((outcome.reason, outcome.requeue), (ParentReason::RateLimited, Requeue::Backoff(wait)));
        assert!(outcome.message.contains("rate") && !outcome.message.contains("42"), "steady: {}", outcome.message);
    }
}

#[test]
fn s02_children_that_the_plugin_was_not_shown_are_named_with_their_sizes() {
    let children = vec![(child("big"), 3_000_000), (child("large"), 2_000_000)];
    let of = |again: Option<Duration>| Problem::LeftOut { children: children.clone(), limit: 4_194_304, again };
    expect![[r"
        LimitExceeded (Settled(None)): Pod default/big (3000000 bytes), Pod default/large (2000000 bytes) were left out of the request, because the request would be larger than 4194304 bytes with them. Windlass neither changes nor deletes them. Make the children smaller, or raise spec.limits.requestBytes in the Plugin
        LimitExceeded (Settled(Some(10s))): Pod default/big (3000000 bytes), Pod default/large (2000000 bytes) were left out of the request, because the request would be larger than 4194304 bytes with them. Windlass neither changes nor deletes them. Make the children smaller, or raise spec.limits.requestBytes in the Plugin
    "]]
    .assert_eq(&say(&[of(None), of(Some(Duration::from_secs(10)))]));
    assert_eq!(Outcome::from(&of(Some(Duration::from_secs(10)))).progress, Progress::Stalled);
}
