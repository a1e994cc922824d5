//! Sets of fields, and their form in `managedFields`, `FieldsV1` (KEP 555).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

/// How a field or an item is found in the object or list that contains it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// A field of an object.
    Field(String),
    /// The item of a list whose key fields have these values; in the order of their names.
    Key(Vec<(String, Scalar)>),
    /// The item of a set that has this value.
    Value(Scalar),
    /// The item at this place. The API server writes none, but accepts them.
    Index(u64),
}

/// A number, text or boolean, in the API server's order: numbers before texts before booleans.
#[derive(Clone, Debug)]
pub(crate) struct Scalar(pub Value);

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |value: &Value| match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) | Value::Object(_) | Value::Null => 3,
        };
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
            },
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scalar {}

/// As the API server writes a path in a message: `.spec.ports[port=80,protocol="TCP"]`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let keys: Vec<_> = keys.iter().map(|(name, value)| format!("{name}={}", value.0)).collect();
                write!(f, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", value.0),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Step {
    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let keys: Map<_, _> = keys.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
                format!("k:{}", Value::Object(keys))
            }
            Self::Value(value) => format!("v:{}", value.0),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// `None` if it is of an unknown type or unreadable.
    fn decode(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "k" => {
                let keys: BTreeMap<String, Value> = serde_json::from_str(rest).ok()?;
                Some(Self::Key(keys.into_iter().map(|(name, value)| (name, Scalar(value))).collect()))
            }
            "v" => Some(Self::Value(Scalar(serde_json::from_str(rest).ok()?))),
            "i" => Some(Self::Index(rest.parse().ok()?)),
            _ => None,
        }
    }
}

/// A set of fields: a tree, some of whose nodes are in the set. No branch ends in a node that is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(pub BTreeMap<Step, Node>);

/// A field, and the fields below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Whether the field itself is in the set.
    pub is_member: bool,
    /// The fields in the set that are below this one.
    pub below: FieldSet,
}

impl FieldSet {
    /// The fields that `FieldsV1` names. Unreadable names are left out, as the API server does with those of unknown types.
    pub fn decode(fields: &Value) -> Self {
        let Value::Object(fields) = fields else { return Self::default() };
        let nodes = fields.iter().filter_map(|(name, inner)| {
            let below = Self::decode(inner);
            let is_member = below.is_empty() || inner.get(".").is_some();
            Some((Step::decode(name)?, Node { is_member, below }))
        });
        Self(nodes.collect())
    }

    /// The set as `FieldsV1`.
    pub fn encode(&self) -> Value {
        let nodes = self.0.iter().map(|(step, node)| {
            let mut below = node.below.encode();
            if let (Value::Object(below), true, false) = (&mut below, node.is_member, node.below.is_empty()) {
                below.insert(".".into(), Value::Object(Map::new()));
            }
            (step.encode(), below)
        });
        Value::Object(nodes.collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a field. The whole object (an empty path) cannot be in a set.
    pub fn insert(&mut self, path: &[Step]) {
        match path {
            [] => {}
            [last] => self.0.entry(last.clone()).or_default().is_member = true,
            [first, rest @ ..] => self.0.entry(first.clone()).or_default().below.insert(rest),
        }
    }

    pub fn has(&self, step: &Step) -> bool {
        self.0.get(step).is_some_and(|node| node.is_member)
    }

    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (step, node) in &other.0 {
            let same = all.0.entry(step.clone()).or_default();
            same.is_member |= node.is_member;
            same.below = same.below.union(&node.below);
        }
        all
    }

    pub fn intersection(&self, other: &Self) -> Self {
        self.combined(other, |ours, theirs| Node {
            is_member: ours.is_member && theirs.is_member,
            below: ours.below.intersection(&theirs.below),
        })
    }

    /// The fields that are not in `other`; fields below those in `other` stay.
    pub fn difference(&self, other: &Self) -> Self {
        self.combined(other, |ours, theirs| Node {
            is_member: ours.is_member && !theirs.is_member,
            below: ours.below.difference(&theirs.below),
        })
    }

    /// The fields that are neither in `other` nor below one of its fields.
    pub fn without(&self, other: &Self) -> Self {
        self.combined(other, |ours, theirs| {
            if theirs.is_member {
                return Node::default();
            }
            Node { is_member: ours.is_member, below: ours.below.without(&theirs.below) }
        })
    }

    fn combined(&self, other: &Self, combine: impl Fn(&Node, &Node) -> Node) -> Self {
        let none = Node::default();
        let nodes = self.0.iter().map(|(step, node)| (step.clone(), combine(node, other.0.get(step).unwrap_or(&none))));
        Self(nodes.filter(|(_, node)| node.is_member || !node.below.is_empty()).collect())
    }

    /// The paths of all fields, as text: those of a level before those below it.
    pub fn paths(&self) -> Vec<String> {
        let members = self.0.iter().filter(|(_, node)| node.is_member).map(|(step, _)| step.to_string());
        let below = self
            .0
            .iter()
            .flat_map(|(step, node)| node.below.paths().into_iter().map(move |path| format!("{step}{path}")));
        members.chain(below).collect()
    }
}
