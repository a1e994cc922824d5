//! A model of several hosts with one list of Leases: in every order of events, no parent is reconciled by two hosts at
//! once, and when nothing changes any more, each parent has one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Members, Membership, Seen, Shard};
use crate::value::ids::{ObjectKey, PluginName};

const SHARDS: Shard = 3;
const PARENTS: usize = 12;

/// An event of the model, at the host of a shard.
#[derive(Debug, Clone, Copy)]
enum Event {
    Join(Shard),
    /// The host ends, and its shard is released.
    Leave(Shard),
    /// The host does not renew its Lease, so it writes nothing more, and another one clears the holder.
    Expire(Shard),
    /// The watch of a host shows the next write of a Lease.
    Show(Shard),
    Adopt(Shard),
    /// A host writes its view, if no reconcile runs that it forbids.
    Write(Shard),
    /// A host begins to reconcile all parents that it may reconcile.
    Begin(Shard),
    /// All reconciles of a host end.
    End(Shard),
}

fn event() -> impl Strategy<Value = Event> {
    let shard = || 0..SHARDS;
    prop_oneof![
        2 => shard().prop_map(Event::Join),
        1 => shard().prop_map(Event::Leave),
        1 => shard().prop_map(Event::Expire),
        16 => shard().prop_map(Event::Show),
        6 => shard().prop_map(Event::Adopt),
        6 => shard().prop_map(Event::Write),
        8 => shard().prop_map(Event::Begin),
        4 => shard().prop_map(Event::End),
    ]
}

/// A write of a Lease: the shard, and its holder's view with its number; none if it has no holder.
type LeaseWrite = (Shard, Option<(Members, u64)>);

#[derive(Default)]
struct Model {
    writes: Vec<LeaseWrite>,
    hosts: BTreeMap<Shard, Host>,
}

struct Host {
    membership: Membership,
    /// Number of writes that the watch has shown.
    shown: usize,
    /// Where the host's own writes begin.
    since: usize,
    written: u64,
    running: Vec<usize>,
}

fn plugin() -> PluginName {
    "echo".parse().expect("a name")
}

fn parent(at: usize) -> ObjectKey {
    ObjectKey::new(Some("n"), &format!("web-{at}"))
}

impl Host {
    fn may_reconcile(&self, at: usize) -> bool {
        self.membership.claims().may_reconcile(&plugin(), &parent(at))
    }

    fn show(&mut self, own: Shard, writes: &[LeaseWrite]) -> bool {
        let Some((shard, lease)) = writes.get(self.shown) else { return false };
        match lease {
            Some((_, number)) if *shard == own && self.shown >= self.since => self.membership.see_own(*number),
            Some((view, _)) => self.membership.see(*shard, Seen::View(view.clone())),
            None => self.membership.see(*shard, Seen::Free),
        }
        self.shown += 1;
        true
    }

    fn write(&mut self, own: Shard, writes: &mut Vec<LeaseWrite>) -> bool {
        let (view, number) = self.membership.view();
        let view = view.clone();
        if number == self.written || self.running.iter().any(|at| !self.may_reconcile(*at)) {
            return false;
        }
        self.written = number;
        writes.push((own, Some((view, number))));
        true
    }
}

impl Model {
    fn apply(&mut self, event: Event) {
        let Self { writes, hosts } = self;
        match event {
            Event::Join(shard) => {
                hosts.entry(shard).or_insert_with(|| {
                    writes.push((shard, Some((Members::default(), 0))));
                    let since = writes.len() - 1;
                    Host { membership: Membership::new(shard), shown: 0, since, written: 0, running: Vec::new() }
                });
            }
            Event::Leave(shard) => {
                if hosts.get(&shard).is_some_and(|host| host.running.is_empty()) {
                    hosts.remove(&shard);
                    writes.push((shard, None));
                }
            }
            Event::Expire(shard) => {
                if hosts.remove(&shard).is_some() {
                    writes.push((shard, None));
                }
            }
            Event::Show(shard) => {
                hosts.get_mut(&shard).map(|host| host.show(shard, writes));
            }
            Event::Adopt(shard) => {
                hosts.get_mut(&shard).map(|host| host.membership.adopt());
            }
            Event::Write(shard) => {
                hosts.get_mut(&shard).map(|host| host.write(shard, writes));
            }
            Event::Begin(shard) => {
                if let Some(host) = hosts.get_mut(&shard) {
                    let begun = (0..PARENTS).filter(|at| !host.running.contains(at) && host.may_reconcile(*at));
                    let begun: Vec<_> = begun.collect();
                    host.running.extend(begun);
                }
            }
            Event::End(shard) => {
                if let Some(host) = hosts.get_mut(&shard) {
                    host.running.clear();
                }
            }
        }
    }

    fn reconciled_by(&self, at: usize) -> Vec<Shard> {
        self.hosts.iter().filter(|(_, host)| host.running.contains(&at)).map(|(shard, _)| *shard).collect()
    }

    /// Lets everything happen that can happen without a host that joins or leaves.
    fn settle(&mut self) {
        for host in self.hosts.values_mut() {
            host.running.clear();
        }
        // Each host writes a few views at most, so this ends.
        let (mut goes_on, mut rounds) = (true, 0);
        while goes_on && rounds < 100 {
            (goes_on, rounds) = (false, rounds + 1);
            for (shard, host) in &mut self.hosts {
                while host.show(*shard, &self.writes) {
                    goes_on = true;
                }
                goes_on |= host.membership.adopt();
                goes_on |= host.write(*shard, &mut self.writes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn h03_parent_is_never_reconciled_by_two_hosts_and_in_the_end_by_one(
        events in proptest::collection::vec(event(), 0..400)
    ) {
        let mut model = Model::default();
        for event in events {
            model.apply(event);
            for at in 0..PARENTS {
                let owners = model.reconciled_by(at);
                prop_assert!(owners.len() <= 1, "{owners:?} reconcile parent {at}");
            }
        }
        model.settle();
        for at in 0..PARENTS {
            let owners = model.hosts.values().filter(|host| host.may_reconcile(at)).count();
            prop_assert_eq!(owners, usize::from(!model.hosts.is_empty()));
        }
    }
}
