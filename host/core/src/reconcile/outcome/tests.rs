use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::expect;

use super::*;
use crate::value::ids::{Gvk, ObjectKey};

fn child(name: &str) -> ChildId {
    ChildId { kind: Arc::new(Gvk::from_api_version("v1", "Pod")), key: ObjectKey::new(Some("default"), name) }
}

fn writes(problems: &[WriteProblem]) -> Problem {
    Problem::Writes(
        problems.iter().enumerate().map(|(at, problem)| (child(&format!("p{at}")), problem.clone())).collect(),
    )
}

fn rendered(problems: &[Problem]) -> String {
    problems.iter().fold(String::new(), |mut text, problem| {
        let outcome = Outcome::from(problem);
        let _ = writeln!(text, "{} ({:?}): {}", outcome.reason, outcome.requeue, outcome.message);
        text
    })
}

#[test]
fn every_failure_of_a_call_has_a_reason_and_backs_off() {
    let calls = [
        CallFailure::Deadline(Duration::from_secs(1)),
        CallFailure::Memory(64),
        CallFailure::TableElements(64),
        CallFailure::Instances(4),
        CallFailure::StackOverflow,
        CallFailure::Trap("unreachable".to_owned()),
        CallFailure::UnsupportedImport("wasi:sockets/tcp".to_owned()),
        CallFailure::Exit(None),
        CallFailure::Exit(Some("panic: no replicas".to_owned())),
        CallFailure::RequestTooLarge { size: 9, limit: 8 },
        CallFailure::ResponseTooLarge(8),
        CallFailure::Malformed("invalid UTF-8".to_owned()),
        CallFailure::Host("no memory".to_owned()),
    ];
    expect![[r"
        DeadlineExceeded (Backoff(0ns)): The plugin's call failed: no response within 1000 ms
        MemoryLimit (Backoff(0ns)): The plugin's call failed: memory limit of 64 bytes exceeded
        LimitExceeded (Backoff(0ns)): The plugin's call failed: limit of 64 table elements exceeded
        LimitExceeded (Backoff(0ns)): The plugin's call failed: the component has more than 4 core instances
        Trapped (Backoff(0ns)): The plugin's call failed: stack overflow
        Trapped (Backoff(0ns)): The plugin's call failed: trap: unreachable
        Trapped (Backoff(0ns)): The plugin's call failed: unsupported import wasi:sockets/tcp was called: a plugin has no network
        Trapped (Backoff(0ns)): The plugin's call failed: the plugin called exit
        Trapped (Backoff(0ns)): The plugin's call failed: the plugin called exit: panic: no replicas
        LimitExceeded (Backoff(0ns)): The plugin's call failed: the request has 9 bytes, more than the limit of 8
        LimitExceeded (Backoff(0ns)): The plugin's call failed: the response has more than the limit of 8 bytes
        MalformedResponse (Backoff(0ns)): The plugin's call failed: malformed response: invalid UTF-8
        HostError (Backoff(0ns)): The plugin's call failed: the host could not run the call: no memory
    "]]
    .assert_eq(&rendered(&calls.map(Problem::Call)));
}

#[test]
fn r13_failure_of_the_plugin_decides_when_the_plugin_is_called_again() {
    expect![[r"
        InvalidSpec (WhenChanged): replicas: too many
        Waiting (After(7s)): the database starts
        PluginFailed (Backoff(0ns)): no idea
    "]]
    .assert_eq(&rendered(&[
        Problem::Plugin(Failure::Invalid("replicas: too many".to_owned())),
        Problem::Plugin(Failure::Retry { message: "the database starts".to_owned(), after: 7000 }),
        Problem::Plugin(Failure::Failed("no idea".to_owned())),
    ]));
}

#[test]
fn most_severe_write_problem_gives_the_reason_and_the_remedy() {
    let rejected =
        WriteProblem::Rejected { code: 422, message: "spec.x: Invalid value".to_owned(), rejection: Rejection::Other };
    let busy = WriteProblem::Unavailable {
        message: "too many requests".to_owned(),
        retry_after: Some(Duration::from_secs(5)),
    };
    let owned = WriteProblem::FieldConflict(vec![".spec.image (conflict with \"helm\")".to_owned()]);
    expect![[r#"
        Conflict (Backoff(0ns)): Pod default/p1 exists already and is not a child of this object, so it was left unchanged. Rename or delete it, or set spec.adopt of the Plugin, which makes an object a child that has neither a controller nor the label of another Plugin (and 1 more with problems)
        Conflict (Backoff(0ns)): Pod default/p0 exists already and belongs to Echo other of Plugin echo, so it was left unchanged. An object has one owner: change the name that one of the two gives it
        FieldConflict (Backoff(0ns)): Pod default/p0 was not applied, because other field managers own fields of it: .spec.image (conflict with "helm"). To force ownership, the plugin annotates the child with windlass.dev/take-over=true
        ChildRejected (Backoff(5s)): The API server refused Pod default/p1 (422): spec.x: Invalid value (and 2 more with problems)
        APIError (Unavailable(5s)): Pod default/p0 could not be written: too many requests
        Outdated (Unavailable(0ns)): Pod default/p0 changed while it was written; trying again
    "#]]
    .assert_eq(&rendered(&[
        writes(&[rejected.clone(), WriteProblem::Taken(None)]),
        writes(&[WriteProblem::Taken(Some("Echo other of Plugin echo".to_owned()))]),
        writes(&[owned]),
        writes(&[busy.clone(), rejected, WriteProblem::Outdated]),
        writes(&[busy]),
        writes(&[WriteProblem::Outdated]),
    ]));
}

#[test]
fn long_message_of_the_api_server_keeps_its_object_its_cause_and_the_hint() {
    let dump = "x".repeat(40_000);
    let message = format!(
        r#"Job.batch "a" is invalid: spec.template: Invalid value: {{"spec":"{dump}é{dump}"}}: field is immutable"#
    );
    let rejected = WriteProblem::Rejected { code: 422, message, rejection: Rejection::ImmutableField };
    let outcome = Outcome::from(&writes(&[rejected]));
    assert!(outcome.message.len() <= 1024, "{}", outcome.message.len());
    for words in
        [r#"Job.batch "a" is invalid: spec.template"#, "x…x", "field is immutable; ", "`recreate`", "created again"]
    {
        assert!(outcome.message.contains(words), "{words}: {}", outcome.message);
    }
    let status = Outcome::from(&Problem::StatusRejected(format!("status.a: {dump}: must be a string")));
    assert!(status.message.ends_with(": must be a string") && status.message.len() <= 1024, "{}", status.message);
}

#[test]
fn r11_recreate_is_not_advised_for_kinds_whose_objects_hold_data() {
    let of = |kind: &str| {
        let child = ChildId { kind: Arc::new(Gvk::from_api_version("v1", kind)), key: ObjectKey::new(Some("n"), "a") };
        let rejection = Rejection::ImmutableField;
        let rejected =
            WriteProblem::Rejected { code: 422, message: "spec: Forbidden: immutable".to_owned(), rejection };
        Outcome::from(&Problem::Writes(vec![(child, rejected)])).message
    };
    for kind in ["PersistentVolumeClaim", "PersistentVolume", "Namespace"] {
        let message = of(kind);
        assert!(message.contains("would delete its data") && !message.contains("`recreate`"), "{message}");
    }
    assert!(of("Job").contains("`recreate`") && of("Job").contains("with everything that it owns"), "{}", of("Job"));
}

#[test]
fn r14_parent_that_other_finalizers_keep_is_neither_reconciling_nor_failing_and_names_them() {
    let others = vec!["example.com/hold".to_owned()];
    for (end, words) in [
        (FinalizerEnd::CleanedUp, "has cleaned up"),
        (FinalizerEnd::Skipped, "did not clean up, as a user asked"),
        (FinalizerEnd::NamespaceTerminating("n/a".to_owned()), "the namespace is being deleted"),
    ] {
        let outcome = Outcome::from(&Problem::FinalizerRemoved { end, others: others.clone() });
        assert_eq!(
            (outcome.reason, outcome.progress, outcome.requeue),
            (ParentReason::FinalizerRemoved, Progress::Suspended, Requeue::WhenChanged)
        );
        assert!(outcome.message.contains(words) && outcome.message.contains("example.com/hold"), "{}", outcome.message);
        assert!(!outcome.message.contains(crate::object::names::ANNOTATION_SKIP_FINALIZE), "{}", outcome.message);
    }
}

#[test]
fn r13_wait_requested_by_the_api_server_applies_beside_other_failures_up_to_five_minutes() {
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
        (vec![WriteProblem::Taken(None), busy(7)], Requeue::Backoff(secs(7))),
        (vec![WriteProblem::CacheBehind, busy(7)], Requeue::Backoff(secs(7))),
        (vec![busy(31_536_000)], Requeue::Unavailable(secs(300))),
    ] {
        assert_eq!(Outcome::from(&writes(&problems)).requeue, requeue, "{problems:?}");
    }
}

#[test]
fn r03_outdated_cache_is_reported_with_its_kinds_and_checked_again_without_backoff() {
    expect![[r"
        CacheBehind (Pause(5s)): Pod default/p0 exists and is marked as a child of this object, but the host's watch of Pod has not shown it yet; it was left as it is until the watch does
        CacheBehind (Pause(5s)): No child is written, because the host's watch of Pod, Secret has not shown the host's own last writes for more than 30 s. The host goes on as soon as the watch shows them. If this stays so, look for errors of the API server and in the host's log, and restart the host
    "]]
    .assert_eq(&rendered(&[
        writes(&[WriteProblem::CacheBehind]),
        Problem::CacheBehind(vec!["Pod".to_owned(), "Secret".to_owned()]),
    ]));
}

#[test]
fn r09_deletions_that_wait_name_what_they_wait_for() {
    let all = [Awaited::OtherParents, Awaited::Leader, Awaited::Cache];
    expect![[r"
        DeletionBlocked (Pause(60s)): Deletions wait until all parents were reconciled with the new component
        DeletionBlocked (Pause(60s)): Deletions wait until the leading host has decided about those of all parents
        DeletionBlocked (Pause(60s)): Deletions wait until the host's watch shows the latest version of this object
    "]]
    .assert_eq(&rendered(&all.map(Problem::PutOff)));
}

#[test]
fn message_is_truncated_at_a_character_boundary() {
    let outcome = Outcome::from(&Problem::Plugin(Failure::Failed("é".repeat(2000))));
    assert!(outcome.message.len() < 1100 && outcome.message.ends_with('…'));
}

#[test]
fn message_of_the_plugin_is_one_line() {
    for failure in [Failure::Failed("a:\n\tb".to_owned()), Failure::Invalid("a:\n\tb".to_owned())] {
        assert_eq!(Outcome::from(&Problem::Plugin(failure)).message, "a:  b");
    }
}

#[test]
fn r14_message_of_a_delayed_deletion_names_the_skip_annotation_and_the_host_retries() {
    let problems = [
        Problem::Finalizing(None, None),
        Problem::Finalizing(Some(Duration::from_secs(3)), None),
        Problem::Finalizing(None, Some("the backup.".into())),
        Problem::Call(CallFailure::StackOverflow),
        Problem::Plugin(Failure::Invalid("replicas: too many".to_owned())),
    ];
    for problem in problems {
        let outcome = Outcome::from(&problem).while_finalizing();
        assert_eq!(
            outcome.message.matches(crate::object::names::ANNOTATION_SKIP_FINALIZE).count(),
            1,
            "{}",
            outcome.message
        );
        assert_eq!(outcome.progress, Progress::Reconciling);
        assert_ne!(outcome.requeue, Requeue::WhenChanged);
    }
}

#[test]
fn r16_suspended_parent_is_neither_reconciling_nor_stalled() {
    let outcome = Outcome::from(&Problem::Suspended(SuspendedBy::Parent));
    assert_eq!((outcome.progress, outcome.requeue), (Progress::Suspended, Requeue::WhenChanged));
    assert!(outcome.message.contains(crate::object::names::ANNOTATION_SUSPEND));
}

#[test]
fn r18_thrashing_parent_is_requeued_when_its_next_write_is_admitted() {
    let waits = vec![(child("a"), Duration::from_secs(50)), (child("b"), Duration::from_secs(20))];
    let outcome = Outcome::from(&Problem::Thrashing(waits));
    assert_eq!((outcome.reason, outcome.requeue), (ParentReason::Thrashing, Requeue::After(Duration::from_secs(20))));
}

#[test]
fn rate_limited_parent_is_requeued_when_tokens_are_available() {
    let wait = Duration::from_secs(42);
    for problem in [Problem::WritesLimited(wait), Problem::Reads(ReadProblem::Limited(wait))] {
        let outcome = Outcome::from(&problem);
        assert_eq!((outcome.reason, outcome.requeue), (ParentReason::RateLimited, Requeue::Backoff(wait)));
        assert!(
            outcome.message.contains("rate") && !outcome.message.contains("42"),
            "the wait must not be in the message: {}",
            outcome.message
        );
    }
}

#[test]
fn s02_children_left_out_of_the_request_are_named_with_their_sizes() {
    let children = vec![(child("big"), 3_000_000), (child("large"), 2_000_000)];
    let left_out = Problem::LeftOut { children, limit: 4_194_304 };
    expect![[r"
        LimitExceeded (Settled(None)): Pod default/big (3000000 bytes), Pod default/large (2000000 bytes) were left out of the request, because the request would be larger than 4194304 bytes with them. Windlass neither changes nor deletes them. Make the children smaller, or raise spec.limits.requestBytes in the Plugin
    "]]
    .assert_eq(&rendered(std::slice::from_ref(&left_out)));
    assert_eq!(Outcome::from(&left_out).progress, Progress::Stalled);
}

#[test]
fn r13_plugin_is_called_when_it_asked_for_it_unless_a_backoff_is_longer() {
    let [short, long] = [5, 90].map(Duration::from_secs);
    let of = |requeue: Requeue| requeue.or_as_asked(Some(short));
    assert_eq!(of(Requeue::Settled(None)), Requeue::Settled(Some(short)), "blocked deletions put nothing off");
    assert_eq!(of(Requeue::Settled(Some(long))), Requeue::Settled(Some(short)));
    assert_eq!(of(Requeue::After(long)), Requeue::After(short));
    assert_eq!(Requeue::After(short).or_as_asked(Some(long)), Requeue::After(short));
    assert_eq!((of(BACKOFF), of(UNAVAILABLE)), (BACKOFF, UNAVAILABLE));
    assert_eq!(Requeue::Settled(None).or_as_asked(None), Requeue::Settled(None));
}

#[test]
fn rejected_status_is_added_to_the_problem_that_comes_first() {
    let mut outcome = Outcome::from(&Problem::Rolling(vec![child("a")]));
    outcome.add_rejected_status("status.ready: Invalid value:\n\"yes\"");
    expect![[r#"RollingUpdate (After(60s)): Pod default/a wait until the children before them are ready. The API server also rejected the plugin's status: status.ready: Invalid value: "yes""#]]
        .assert_eq(&format!("{} ({:?}): {}", outcome.reason, outcome.requeue, outcome.message));
}

#[test]
fn r23_children_that_are_not_ready_are_named_with_the_reason_and_failed_ones_stall() {
    let not_ready = |name: &str, is_failed| NotReady { child: child(name), why: "why".into(), is_failed };
    let staged = |not_ready: Vec<NotReady>, waiting: &[&str]| {
        let waiting = waiting.iter().map(|name| child(name)).collect();
        Problem::Staged(Box::new(Staged { from: 1, waiting, not_ready }))
    };
    expect![[r"
        WaitingForReady (After(60s)): Pod default/a is not ready: why. Pod default/b waits for it
        ChildFailed (After(60s)): Pod default/x has failed: why; Pod default/a is not ready: why. Pod default/b, Pod default/c wait for them
    "]]
    .assert_eq(&rendered(&[
        staged(vec![not_ready("a", false)], &["b"]),
        staged(vec![not_ready("x", true), not_ready("a", false)], &["b", "c"]),
    ]));
    let failed = Outcome::from(&staged(vec![not_ready("x", true)], &["b"]));
    assert_eq!(failed.progress, Progress::Stalled);
    assert!(!failed.is_of_this_generation(), "children are still to be written");

    let many: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| not_ready(name, false)).into();
    let waiting = Outcome::not_ready(&many, None);
    assert_eq!((waiting.progress, waiting.reason), (Progress::Unready, ParentReason::WaitingForReady));
    assert_eq!(
        waiting.message,
        "Pod default/a is not ready: why; Pod default/b is not ready: why; Pod default/c is not ready: why; 2 more are not ready"
    );
    let failed = Outcome::not_ready(&[not_ready("a", true)], Some(Duration::from_secs(5)));
    assert_eq!((failed.progress, failed.reason), (Progress::Failed, ParentReason::ChildFailed));
    assert_eq!(
        (&*failed.message, failed.requeue),
        ("Pod default/a has failed: why", Requeue::Settled(Some(Duration::from_secs(5))))
    );
    assert!(failed.is_of_this_generation() && waiting.is_of_this_generation());
}

#[test]
fn r24_parent_says_which_kinds_of_its_children_the_cluster_does_not_serve() {
    let mut outcome = Outcome::applied(2, None);
    outcome.add_absent(&[]);
    assert_eq!(outcome.message, "2 children applied");
    outcome.add_absent(&[Arc::new(Gvk::from_api_version("monitoring.example/v1", "Monitor"))]);
    assert_eq!(
        outcome.message,
        "2 children applied. Left out are children of kinds that the cluster does not serve: Monitor.v1.monitoring.example"
    );
    assert_eq!(outcome.progress, Progress::Applied, "it is ready without them");
}
