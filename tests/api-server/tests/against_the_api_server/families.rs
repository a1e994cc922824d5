//! Histories of owners and their dependents, from seeds.

use std::fmt;

use fastrand::Rng;

use crate::kinds::Kind;

/// An object of a history.
pub struct Member {
    pub kind: Kind,
    pub name: &'static str,
    /// Whether it is in the second namespace of the history.
    pub is_elsewhere: bool,
}

const fn member(kind: Kind, name: &'static str) -> Member {
    Member { kind, name, is_elsewhere: false }
}

/// The objects of every history.
pub const MEMBERS: [Member; 9] = [
    member(Kind::ConfigMap, "a"),
    member(Kind::Part, "b"),
    member(Kind::Secret, "c"),
    member(Kind::ConfigMap, "d"),
    member(Kind::Part, "e"),
    member(Kind::ConfigMap, "f"),
    member(Kind::Whole, "g"),
    member(Kind::Whole, "h"),
    Member { kind: Kind::ConfigMap, name: "i", is_elsewhere: true },
];

#[derive(Clone, Debug)]
pub struct Step {
    /// The number of the object.
    pub member: usize,
    pub act: Act,
}

#[derive(Clone, Debug)]
pub enum Act {
    Create {
        owners: Vec<Owner>,
        finalizers: Vec<&'static str>,
    },
    SetOwners(Vec<Owner>),
    SetFinalizers(Vec<&'static str>),
    /// With a propagation policy, if it has one.
    Delete(&'static str),
    /// Of the history's first namespace.
    DeleteNamespace,
}

/// A reference to an owner.
#[derive(Clone, Debug)]
pub struct Owner {
    /// The number of the owner.
    pub member: usize,
    pub is: Reference,
    pub blocks: Option<bool>,
    pub controls: Option<bool>,
}

/// How true a reference is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reference {
    Right,
    WrongUid,
    WrongName,
    WrongKind,
    /// Of a kind that is not served.
    UnknownKind,
}

/// Steps, as people read them.
pub struct Family<'a>(pub &'a [Step]);

impl fmt::Display for Family<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { member, act } in self.0 {
            let Member { kind, name, .. } = &MEMBERS[*member];
            writeln!(f, "  {member}: {kind:?} {name}: {act:?}")?;
        }
        Ok(())
    }
}

/// The history of a seed.
pub fn steps(seed: u64) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed);
    // What the generator takes to exist, to be deleted, or neither.
    let (mut exists, mut is_deleted) = ([false; MEMBERS.len()], [false; MEMBERS.len()]);
    // The garbage collector tries these again and again, later each time.
    let mut is_retried = [false; MEMBERS.len()];
    let mut steps = Vec::new();
    for index in 0..rng.usize(5..18) {
        let member = rng.usize(..MEMBERS.len());
        let act = match rng.u8(..20) {
            _ if !exists[member] => create(&mut rng, &exists, &is_deleted),
            0..=3 if is_retried[member] => continue,
            0..=3 => Act::SetOwners(owners(&mut rng, &exists, &is_deleted)),
            4..=8 => Act::SetFinalizers(finalizers(&mut rng)),
            9 => create(&mut rng, &exists, &is_deleted),
            _ if index < 3 => continue,
            _ => Act::Delete(["", "Background", "Foreground", "Foreground", "Orphan"][rng.usize(..5)]),
        };
        if let Act::Create { owners, .. } | Act::SetOwners(owners) = &act {
            is_retried[member] |= owners.iter().any(|owner| owner.is == Reference::UnknownKind);
        }
        match act {
            Act::Create { .. } => (exists[member], is_deleted[member]) = (true, is_deleted[member] && exists[member]),
            Act::SetFinalizers(_) if is_deleted[member] => exists[member] = false,
            Act::Delete(_) => is_deleted[member] = true,
            _ => {}
        }
        steps.push(Step { member, act });
    }
    if rng.u8(..6) == 0 {
        steps.push(Step { member: 0, act: Act::DeleteNamespace });
        for member in 0..6 {
            steps.push(Step { member, act: Act::SetFinalizers(Vec::new()) });
        }
    }
    steps
}

fn create(rng: &mut Rng, exists: &[bool], is_deleted: &[bool]) -> Act {
    let finalizers = if rng.u8(..3) == 0 { finalizers(rng) } else { Vec::new() };
    Act::Create { owners: owners(rng, exists, is_deleted), finalizers }
}

fn finalizers(rng: &mut Rng) -> Vec<&'static str> {
    let odds =
        [("example.com/x", 3), ("example.com/y", 6), ("orphan", 10), ("foregroundDeletion", 10), ("unqualified", 40)];
    odds.into_iter().filter(|(_, odds)| rng.u8(..*odds) == 0).map(|(name, _)| name).collect()
}

/// References, most of them to objects that exist and stay: when the garbage collector looks at a dependent that an owner gets while it
/// waits for others is a matter of chance.
fn owners(rng: &mut Rng, exists: &[bool], is_deleted: &[bool]) -> Vec<Owner> {
    let count = [0, 1, 1, 1, 2, 2, 3][rng.usize(..7)];
    let mut members: Vec<_> = (0..MEMBERS.len()).collect();
    rng.shuffle(&mut members);
    let mut owners: Vec<Owner> = Vec::new();
    for member in members {
        let is_there = exists[member] && !is_deleted[member];
        if owners.len() < count && (is_there || rng.u8(..12) == 0) {
            let is = match rng.u8(..40) {
                0..=2 => Reference::WrongUid,
                3 => Reference::WrongName,
                4 => Reference::WrongKind,
                5 => Reference::UnknownKind,
                _ => Reference::Right,
            };
            let controls = [None, Some(false), Some(true)][rng.usize(..3)];
            let controls = if owners.iter().all(|owner| owner.controls != Some(true)) || rng.u8(..10) == 0 {
                controls
            } else {
                None
            };
            owners.push(Owner {
                member,
                is,
                blocks: [None, Some(false), Some(true), Some(true)][rng.usize(..4)],
                controls,
            });
        }
    }
    owners
}
