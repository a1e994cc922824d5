//! Makes the history of a seed.

use std::ops::Range;

use serde_json::{Value, json};

use crate::history::{
    Act, CALM, Child, FINALIZING, Fail, History, Kind, NAMES, PARENTS, ROLLING, SPAN, Step, Version, few,
};
use crate::scenes::SCENES;
use crate::setup::OPERATORS;
use crate::stages;

/// Makes an act, with its weight among the others.
type Weighted = (u32, fn(&mut Generator) -> Act);

/// What users do. Each history leaves some of it out, so that the rest meets more often (swarm testing, Groce and others 2012).
const USERS: [Weighted; 20] = [
    (24, Generator::apply),
    (3, |of| Act::Plugin { spec: json!({ "config": of.config() }) }),
    (2, |of| Act::Plugin { spec: of.setting() }),
    (2, |of| Act::Plugin { spec: json!({ "suspend": of.chance.bool() }) }),
    (3, |of| Act::Component { version: of.version() }),
    (2, |of| Act::SuspendParent { parent: of.parent, suspended: of.chance.bool() }),
    (3, |of| Act::ParentFinalizer { parent: of.parent, is_set: of.chance.u8(0..3) > 0 }),
    (3, |of| Act::Share { keys: [None, Some(1), Some(3), Some(7)][of.chance.usize(0..4)] }),
    (1, |_| Act::DeleteNamespace),
    (1, |_| Act::Rival),
    (5, Generator::delete),
    (6, |of| Act::DeleteChild { parent: of.parent, child: of.child }),
    (6, |of| Act::EditChild { parent: of.parent, child: of.child }),
    (2, |of| Act::Take { parent: of.parent, child: of.child }),
    (3, |of| Act::Unlabel { parent: of.parent, child: of.child }),
    (3, |of| Act::Disown { parent: of.parent, child: of.child }),
    (3, |of| Act::ChildFinalizer { parent: of.parent, child: of.child, is_set: of.chance.u8(0..3) > 0 }),
    (3, |of| Act::Swap { parent: of.parent, child: of.child }),
    (4, Generator::occupy),
    (3, |of| Act::Vacate { parent: of.parent, child: of.child }),
];

/// What goes wrong, of which a history leaves some out, too.
const FAULTS: [Weighted; 14] = [
    (5, Generator::refuse),
    (6, |of| Act::LoseAnswers { count: of.chance.u32(1..4) }),
    (4, |of| Act::LoseRequests { count: of.chance.u32(1..4) }),
    (4, |of| Act::SlowDown {
        most: of.chance.u64(200..if of.parent == 0 { 20_000 } else { 4_000 }),
        millis: of.millis,
        path: String::new(),
    }),
    (6, |of| Act::Lag { resource: of.resource(), millis: of.millis + of.millis / 2 }),
    (2, |of| Act::Repeat { millis: of.millis }),
    (2, |of| Act::StopCollector { millis: of.millis }),
    (3, |_| Act::CutWatches),
    (2, |_| Act::Compact),
    (2, |_| Act::StandBy),
    (3, |of| if of.chance.u8(0..3) == 0 { Act::Restart { host: of.parent } } else { Act::Crash { host: of.parent } }),
    (3, |of| Act::CutOff { host: of.parent, millis: of.millis }),
    (3, Generator::deny),
    (3, |of| Act::Pause { host: of.parent, millis: of.millis }),
];

/// What the next act depends on.
pub struct Generator {
    /// The chance of the history.
    pub chance: fastrand::Rng,
    /// The children of each parent so far.
    pub desired: Vec<Vec<Child>>,
    /// A parent.
    pub parent: u8,
    /// A child of it, or what could be one, with a value.
    pub child: Child,
    /// A time.
    pub millis: u64,
    /// Number of hosts that share the parents, if it matters.
    pub shards: Option<u8>,
    /// The Plugins beside the usual ones.
    pub plugins: Vec<String>,
}

impl History {
    /// The history of a seed.
    pub fn of(seed: u64) -> Self {
        let chance = fastrand::Rng::with_seed(seed);
        let nothing = Child { kind: Kind::ConfigMap, name: 0, value: 0 };
        let desired = vec![Vec::new(); usize::from(PARENTS)];
        Generator { chance, desired, parent: 0, child: nothing, millis: 0, shards: None, plugins: Vec::new() }
            .history(seed)
    }
}

impl Generator {
    fn history(mut self, seed: u64) -> History {
        // Parents are always applied.
        let (apply, others) = USERS.split_at(1);
        let users = [apply, &self.some(others)].concat();
        let all = [&*users, &self.some(&FAULTS)].concat();
        // Every second history has a scene; half of those have little else, so that the scene comes to its end.
        let (has_scene, is_alone) = (self.chance.bool(), self.chance.bool());
        let times = self.times(if has_scene && is_alone { 0..4 } else { 4..34 });
        let first =
            Step { at: self.chance.u64(0..3000).min(times.first().copied().unwrap_or_default()), what: self.first() };
        let mut steps: Vec<_> = times.into_iter().map(|at| Step { at, what: self.next(&all) }).collect();
        if has_scene {
            let (begin, scene) = (self.chance.u64(0..SPAN / 2), SCENES[self.chance.usize(0..SCENES.len())]);
            steps.extend(scene(&mut self, begin));
        }
        let mut calm: Vec<_> = (0..self.chance.usize(0..6)).map(|_| self.chance.u64(CALM - 80_000..CALM)).collect();
        calm.sort_unstable();
        steps.extend(calm.into_iter().map(|at| Step { at, what: self.next(&users) }));
        steps.insert(0, first);
        steps.sort_by_key(|step| step.at);
        // Every fifth history has several hosts that share the parents: each takes several times as long, because of all their Leases.
        let by_chance = [1, 1, 1, 1, 1, 1, 1, 1, 2, 3][self.chance.usize(0..10)];
        let shards = self.shards.unwrap_or(by_chance);
        let resync = self.chance.bool().then(|| "24h".to_owned());
        // Hosts that share parents stand by.
        let exits = self.chance.u8(0..4) == 0 && shards == 1;
        if seed.is_multiple_of(4) {
            self.plugins.push(stages::PLUGIN.to_owned());
        }
        let (shows, fails, goes_on, workers, plugins) = (String::new(), false, true, few(), self.plugins);
        History { shows, fails, goes_on, seed, shards, workers, exits, plugins, resync, steps }
    }

    /// What may happen in this history: each act is left out in a third of all histories.
    fn some(&mut self, acts: &[Weighted]) -> Vec<Weighted> {
        acts.iter().filter(|_| self.chance.u8(0..3) > 0).copied().collect()
    }

    /// Users and failures come in bursts: half of all steps follow the one before at once.
    fn times(&mut self, counts: Range<usize>) -> Vec<u64> {
        let count = self.chance.usize(counts);
        let mut times: Vec<_> = (0..count).map(|_| self.chance.u64(0..SPAN)).collect();
        for index in 1..times.len() {
            if self.chance.bool() {
                // Nothing goes wrong after the span.
                times[index] = (times[index - 1] + self.chance.u64(0..800)).min(SPAN - 1);
            }
        }
        times.sort_unstable();
        times
    }

    fn first(&mut self) -> Act {
        self.desired[0] = self.children();
        Act::Apply { parent: 0, children: self.desired[0].clone(), fail: None, reads: false }
    }

    fn next(&mut self, acts: &[Weighted]) -> Act {
        self.parent = self.chance.u8(0..PARENTS + 3) % PARENTS;
        self.child = self.child();
        // Most of what people do to children is about children that exist.
        let of_parent = &self.desired[usize::from(self.parent)];
        if let Some(existing) = self.chance.choice(of_parent.iter()).filter(|_| self.child.value > 0) {
            self.child = Child { value: self.child.value, ..*existing };
        }
        self.millis = [300, 2_000, 8_000, 25_000][self.chance.usize(0..4)];
        let mut left = self.chance.u32(0..acts.iter().map(|(weight, _)| weight).sum());
        for (weight, act) in acts {
            if left < *weight {
                return act(self);
            }
            left -= weight;
        }
        Act::CutWatches
    }

    /// Children that a parent may have.
    pub fn children(&mut self) -> Vec<Child> {
        let mut found = Vec::<Child>::new();
        for _ in 0..self.chance.usize(0..6) {
            let child = self.child();
            if !found.iter().any(|other| (other.kind, other.name) == (child.kind, child.name)) {
                found.push(child);
            }
        }
        found
    }

    /// A child that the parent may have.
    pub fn child(&mut self) -> Child {
        let kind = match (self.parent, self.chance.u8(0..6)) {
            (ROLLING, 0..=3) => Kind::Doll,
            (ROLLING, _) => Kind::Mask,
            (FINALIZING, _) | (_, 0..=2) => Kind::ConfigMap,
            (_, 3 | 4) => Kind::Secret,
            _ => Kind::Service,
        };
        Child { kind, name: self.chance.u8(0..NAMES), value: self.chance.u8(0..3) }
    }

    fn apply(&mut self) -> Act {
        let fail = [Fail::Invalid, Fail::Retry, Fail::Failed, Fail::Trap].get(self.chance.usize(0..24)).copied();
        let reads = self.parent < FINALIZING && self.chance.u8(0..4) == 0;
        let children = self.children();
        self.desired[usize::from(self.parent)].clone_from(&children);
        Act::Apply { parent: self.parent, children, fail, reads }
    }

    /// A user takes the name of a child. The object may have another Plugin's label, or belong to another parent.
    fn occupy(&mut self) -> Act {
        let plugin = self.another_plugin();
        let owner = Some(self.chance.u8(0..2 * FINALIZING)).filter(|of| *of < FINALIZING && *of != self.parent);
        let owner = owner.filter(|_| plugin.is_empty());
        Act::Occupy { parent: self.parent, child: self.child, plugin, owner, token: self.chance.u8(0..3) == 0 }
    }

    /// The Plugin whose label an object has that is no child; empty for none.
    pub fn another_plugin(&mut self) -> String {
        ["", OPERATORS[1].name][self.chance.usize(0..2)].to_owned()
    }

    fn config(&mut self) -> Value {
        let keep = [None, Some(0), Some(1), Some(2)][self.chance.usize(0..4)];
        keep.map_or(Value::Null, |keep| json!({ "keepChildren": keep }))
    }

    fn setting(&mut self) -> Value {
        let all = [
            json!({ "adopt": true }),
            json!({ "adopt": true }),
            json!({ "adopt": false }),
            json!({ "deletionGuard": { "maxPercent": 0 } }),
            json!({ "deletionGuard": { "maxPercent": 100 } }),
            json!({ "deletionGuard": null }),
            json!({ "limits": { "children": 2 } }),
            json!({ "limits": { "requestBytes": "1Ki" } }),
            json!({ "limits": null }),
            json!({ "namespaceSelector": { "matchLabels": { "team": "other" } } }),
            json!({ "namespaceSelector": null }),
            json!({ "concurrency": 1 }),
            json!({ "grants": { "children": [{ "apiVersion": "v1", "kind": "ConfigMap" }] } }),
            json!({ "grants": null }),
        ];
        all[self.chance.usize(0..all.len())].clone()
    }

    fn version(&mut self) -> Version {
        [Version::Whole, Version::Empty, Version::Narrow, Version::Missing][self.chance.usize(0..4)]
    }

    fn delete(&mut self) -> Act {
        let policy = ["", "", "Orphan", "Foreground", "Background"][self.chance.usize(0..5)];
        Act::Delete { parent: self.parent, policy: policy.to_owned() }
    }

    fn resource(&mut self) -> String {
        let all = [
            "configmaps",
            "secrets",
            "services",
            "dolls.puppets.example",
            "puppets.puppets.example",
            "plugins.windlass.dev",
            "leases.coordination.k8s.io",
        ];
        all[self.chance.usize(0..all.len())].to_owned()
    }

    fn refuse(&mut self) -> Act {
        let code = [403, 404, 409, 422, 429, 500, 503, 504][self.chance.usize(0..8)];
        let path = ["", "", "/puppets/", "/status", "/configmaps", "/secrets"][self.chance.usize(0..6)];
        Act::Refuse { code, millis: self.millis, path: path.to_owned() }
    }

    fn deny(&mut self) -> Act {
        let verb = ["get", "create", "patch", "delete", "list", "watch"][self.chance.usize(0..6)].to_owned();
        let (host, denied) = (self.chance.u8(0..3) == 0, self.chance.u8(0..3) > 0);
        let all = ["configmaps", "secrets", "services", "puppets.puppets.example", "finalizingpuppets.puppets.example"];
        let resource = all[self.chance.usize(0..all.len())];
        Act::Deny { plugin: None, host, verb, resource: resource.to_owned(), denied }
    }
}
