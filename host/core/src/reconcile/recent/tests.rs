use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::contract::{CallFailure, Response};
use crate::fixtures::snapshot;
use crate::reconcile::outcome::Rejection;

fn call(children: usize, hash: usize) -> Call {
    let snapshot = snapshot(&(0..children).map(config_map).collect::<Vec<_>>());
    let response = Response { children: vec![vec![b'x'; 100]; children], ..Response::default() };
    Call {
        snapshot,
        phase: Phase::Sync,
        hash: Digest::of(&hash.to_le_bytes()),
        component: Digest::of(b"component"),
        contract: "0.1.0".into(),
        now: Timestamp::UNIX_EPOCH,
        limits: Limits::default(),
        result: KeptResult::new(&Ok(Ok(response))),
        guest_time_us: 1,
        memory_peak: 1,
        is_impure: false,
    }
}

fn config_map(at: usize) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "x".repeat(500)},
        "metadata": {
            "name": format!("m-{at}"), "namespace": "default", "uid": format!("{at}"), "resourceVersion": "7",
            "ownerReferences": [{"apiVersion": "my-operator.dev/v1", "kind": "Echo", "name": "hello",
                "uid": crate::fixtures::PARENT_UID, "controller": true}],
            "labels": {"windlass.dev/plugin": "echo", "windlass.dev/parent-uid": crate::fixtures::PARENT_UID},
        },
    })
}

fn reconciled(name: &str, call: Option<Call>) -> Reconciled {
    let parent = ParentRef { key: ObjectKey::new(Some("default"), name), ..snapshot(&[]).parent_ref };
    Reconciled {
        number: 0,
        parent,
        plural: "echoes".into(),
        at: Timestamp::UNIX_EPOCH,
        trigger: "event",
        duration: Duration::ZERO,
        trace: None,
        call,
        is_call_omitted: false,
        decision: Decision { outcome: "Succeeded", ..Decision::default() },
        next: None,
        repeated: 0,
    }
}

/// Adds a reconcile as the host does.
fn add(recent: &mut RecentCalls, reconciled: Reconciled) -> Vec<Arc<Reconciled>> {
    recent.add(Measured::new(reconciled, recent.budget))
}

/// Memory of the only reconcile of a parent.
fn whole_size(reconciled: &Reconciled) -> usize {
    PLACE_OF_PARENT + reconciled.own_size() + size_of_shared(reconciled.shared())
}

fn names(recent: &RecentCalls) -> Vec<String> {
    recent.after(0, |_| true).iter().map(|one| one.parent.key.name.to_string()).collect()
}

#[test]
fn oldest_calls_are_dropped_when_the_budget_is_used_up() {
    let one = whole_size(&reconciled("a", Some(call(2, 0))));
    let mut recent = RecentCalls::new(one * 5);
    for at in 0..10 {
        let dropped = add(&mut recent, reconciled(&format!("p{at}"), Some(call(2, at))));
        assert_eq!(dropped.len(), usize::from(at >= 5), "the caller frees what is dropped");
    }
    assert_eq!(names(&recent), ["p5", "p6", "p7", "p8", "p9"]);
    assert!(recent.used <= recent.budget);
}

fn of_plugin(plugin: &str, name: &str, call: Option<Call>) -> Reconciled {
    let mut reconciled = reconciled(name, call);
    reconciled.parent.plugin = plugin.parse().expect("a name");
    reconciled
}

#[test]
fn calls_of_a_plugin_displace_its_own_calls_and_not_those_of_another() {
    let one = whole_size(&reconciled("a", Some(call(2, 0))));
    let mut recent = RecentCalls::new(one * 5);
    for name in ["a", "b"] {
        add(&mut recent, of_plugin("quiet", name, Some(call(2, 0))));
    }
    for at in 0..20 {
        add(&mut recent, of_plugin("busy", &format!("p{at}"), Some(call(2, at))));
    }
    assert_eq!(names(&recent), ["a", "b", "p17", "p18", "p19"], "in the order of their ends");
}

#[test]
fn parent_keeps_its_last_reconciles_and_counts_objects_once() {
    let mut recent = RecentCalls::new(1024 * 1024);
    let first = call(10, 0);
    add(&mut recent, reconciled("web", Some(first.clone())));
    let size = recent.used;
    for at in 1..20 {
        add(&mut recent, reconciled("web", Some(Call { hash: Digest::of(&[at]), ..first.clone() })));
    }
    assert_eq!(names(&recent).len(), OF_PARENT);
    assert!(recent.used < 2 * size, "the objects are shared: {} and {size}", recent.used);
    let last = recent.after(19, |_| true);
    assert_eq!(last.iter().map(|one| one.number).collect::<Vec<_>>(), [20]);
}

#[test]
fn reconcile_that_changed_children_is_kept_longer_than_those_that_changed_nothing() {
    let mut recent = RecentCalls::new(1024 * 1024);
    let mut created = reconciled("web", Some(call(1, 0)));
    created.decision.changes.created.push(ChildId::of(&snapshot(&[config_map(0)]).children[0]));
    add(&mut recent, created);
    for at in 1..20 {
        add(&mut recent, reconciled("web", Some(call(1, at))));
    }
    let numbers: Vec<_> = recent.after(0, |_| true).iter().map(|one| one.number).collect();
    assert_eq!(numbers, [1, 17, 18, 19, 20]);
}

#[test]
fn reconcile_that_failed_is_kept_longer_than_those_that_changed_nothing() {
    let mut recent = RecentCalls::new(1024 * 1024);
    let mut failed = reconciled("web", Some(call(1, 0)));
    failed.decision.message = "the finalizer was not written".to_owned();
    add(&mut recent, failed);
    for at in 1..20 {
        add(&mut recent, reconciled("web", Some(call(1, at))));
    }
    assert_eq!(recent.after(0, |_| true)[0].number, 1);
}

#[test]
fn call_that_led_to_a_quarantine_is_kept_while_its_wait_changes() {
    let mut recent = RecentCalls::new(1024 * 1024);
    let decided = |outcome, wait: u64, call| {
        let next = Some(Requeue::Pause(Duration::from_secs(wait)));
        let progress = Some(Progress::Reconciling);
        let decision = Decision { outcome, progress, ..Decision::default() };
        Reconciled { decision, next, ..reconciled("web", call) }
    };
    let trapped = Call { result: KeptResult::new(&Err(CallFailure::StackOverflow)), ..call(1, 1) };
    add(&mut recent, decided("Trapped", 1, Some(trapped)));
    for wait in 1..=10 {
        add(&mut recent, decided("Quarantined", wait, None));
    }
    let kept = recent.after(0, |_| true);
    let shown: Vec<_> = kept.iter().map(|one| (one.decision.outcome, one.repeated)).collect();
    assert_eq!(shown, [("Trapped", 0), ("Quarantined", 9)]);
    assert_eq!(kept[1].next, Some(Requeue::Pause(Duration::from_secs(10))), "the newest wait is shown");
}

#[test]
fn equal_reconciles_are_counted_and_kept_once() {
    let mut recent = RecentCalls::new(1024 * 1024);
    let trapped = || Call { result: KeptResult::new(&Err(CallFailure::StackOverflow)), ..call(1, 1) };
    add(&mut recent, reconciled("web", Some(call(1, 0))));
    for _ in 0..10 {
        add(&mut recent, reconciled("web", Some(trapped())));
    }
    let kept = recent.after(0, |_| true);
    assert_eq!(kept.iter().map(|one| one.repeated).collect::<Vec<_>>(), [0, 9]);
}

#[test]
fn call_that_takes_a_large_share_of_the_budget_is_not_kept_but_its_decision_is() {
    let mut recent = RecentCalls::new(40_000);
    add(&mut recent, reconciled("small", Some(call(1, 0))));
    add(&mut recent, reconciled("large", Some(call(100, 1))));
    let kept = recent.after(0, |_| true);
    let calls: Vec<_> = kept.iter().map(|one| (one.call.is_some(), one.is_call_omitted)).collect();
    assert_eq!(calls, [(true, false), (false, true)]);
}

#[test]
fn size_of_a_reconcile_covers_its_messages_config_and_lists_of_children() {
    const LONG: usize = 1 << 20;
    let without = reconciled("web", Some(call(1, 0)));
    let child = ChildId::of(&snapshot(&[config_map(0)]).children[0]);
    let failed = |problem| {
        let mut reconciled = reconciled("web", Some(call(1, 0)));
        reconciled.decision.failed = vec![(child.clone(), problem)];
        reconciled
    };
    let mut with_config = reconciled("web", Some(call(1, 0)));
    with_config.call.as_mut().expect("a call").snapshot.config = Some(vec![b'x'; LONG].into());
    let mut expiring = reconciled("web", Some(call(1, 0)));
    expiring.decision.changes.expiring = vec![child.clone(); LONG.div_ceil(size_of::<ChildId>())];
    let message = "x".repeat(LONG);
    for large in [
        with_config,
        expiring,
        failed(WriteProblem::Rejected { code: 422, message: message.clone(), rejection: Rejection::Other }),
        failed(WriteProblem::Unavailable { message: message.clone(), retry_after: None }),
        failed(WriteProblem::FieldConflict(vec![message])),
    ] {
        assert!(whole_size(&large) >= whole_size(&without) + LONG, "{} failed writes", large.decision.failed.len());
    }
}

#[test]
fn memory_that_is_really_allocated_is_about_the_budget() {
    const BUDGET: usize = 1 << 20;
    let mut kept = None;
    let allocated = allocation_counter::measure(|| {
        let mut recent = RecentCalls::new(BUDGET);
        let first = call(3, 0);
        let cached: Vec<_> = first.snapshot.objects().cloned().collect();
        for at in 0..3000 {
            let mut call = call(3, at);
            // As caches share them.
            let Snapshot { parent, children, .. } = &mut call.snapshot;
            for (object, cached) in std::iter::once(parent).chain(children).zip(&cached) {
                let object = Arc::get_mut(object).expect("an object that nobody else has");
                (object.kind, object.managed) = (cached.kind.clone(), cached.managed.clone());
                (object.labels, object.key.namespace) = (cached.labels.clone(), cached.key.namespace.clone());
            }
            let name = format!("parent-{at}");
            let ParentRef { key: ObjectKey { namespace, .. }, .. } = first.snapshot.parent_ref.clone();
            let key = ObjectKey { namespace, name: name.as_str().into() };
            call.snapshot.parent_ref = ParentRef { key, ..first.snapshot.parent_ref.clone() };
            let parent = call.snapshot.parent_ref.clone();
            let child = ChildId::of(&call.snapshot.children[0]);
            let mut created = Reconciled { parent, ..reconciled(&name, Some(call)) };
            created.decision.changes.created = vec![child.clone(), child];
            created.decision.message = "3 children applied".to_owned();
            add(&mut recent, created);
        }
        kept = Some(recent);
    });
    // With the header and half the granule of each allocation.
    let bytes = allocated.bytes_current + 16 * allocated.count_current;
    let share = usize::try_from(bytes).expect("memory") * 100 / BUDGET;
    assert!((80..112).contains(&share), "{share} % of the budget: {allocated:?}");
    assert!(kept.is_some_and(|recent| recent.used <= BUDGET));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn memory_stays_within_the_budget(
        budget in 0usize..60_000,
        added in prop::collection::vec((0usize..2, 0usize..4, 0usize..12), 0..60),
    ) {
        let mut recent = RecentCalls::new(budget);
        for (at, (plugin, parent, children)) in added.into_iter().enumerate() {
            add(&mut recent, of_plugin(&format!("plugin-{plugin}"), &format!("p{parent}"), Some(call(children, at))));
            prop_assert!(recent.used <= budget);
            let mut used = 0;
            for of_plugin in recent.plugins.values() {
                let counted: usize = of_plugin.parents.values().map(|of| of.kept.len()).sum();
                prop_assert_eq!(counted, of_plugin.order.len());
                prop_assert!(counted > 0);
                let sizes: usize = of_plugin.parents.values().map(|of| of.size).sum();
                prop_assert_eq!(sizes, of_plugin.used);
                used += sizes;
            }
            prop_assert_eq!(used, recent.used);
        }
    }
}
