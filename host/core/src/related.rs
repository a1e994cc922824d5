//! What a plugin requires beside its own children → what is to be read for it, and when its answer is final.
//!
//! Which kinds and namespaces may be read comes from the Plugin and from discovery, never from a plugin's text. What
//! this passes must still be allowed to the Plugin's ServiceAccount before anything is read.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::contract::{Requirement, Selection};
use crate::ids::{Gvk, ObjectKey, is_dns_label, is_object_name};
use crate::names::parent_reason as reason;
use crate::object::Object;
use crate::reserved::HostNamespace;
use crate::selector::{Labels, SELECTOR_MAX, Selector};

/// How often a plugin is called for one reconcile at most, while its requirements still change.
pub const MAX_ROUNDS: usize = 5;

/// Longest id of a requirement.
const ID_MAX: usize = 63;

/// What a plugin may read, resolved against what the cluster serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadGrants {
    kinds: HashMap<Gvk, ReadGrant>,
    host_namespace: HostNamespace,
}

/// How one related kind may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadGrant {
    /// The kind; shared by all that is required of it.
    pub kind: Arc<Gvk>,
    /// Whether its objects live in namespaces, as discovery says.
    pub namespaced: bool,
    /// Namespaces beside the parent's own. None were named: a namespaced parent has its own alone, a cluster-scoped one,
    /// which has no own, may name any.
    pub namespaces: Option<Box<[Arc<str>]>>,
}

/// One thing that an answer depends on, resolved: in which namespace, and which objects there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Need {
    /// Chosen by the plugin, unique in one answer.
    pub id: Arc<str>,
    /// The kind.
    pub kind: Arc<Gvk>,
    /// The namespace; none exactly if the kind is cluster-scoped.
    pub namespace: Option<Arc<str>>,
    /// Which objects.
    pub select: Select,
}

/// All that an answer depends on, in the plugin's order.
pub type Needs = Arc<[Need]>;

/// Which objects a [`Need`] finds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Select {
    /// The one with this name.
    Name(Arc<str>),
    /// Those that the selector selects.
    Labels(Selector),
}

/// Why requirements are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// More requirements than the limit allows.
    #[error("the answer has {count} requirements, more than the limit of {limit}")]
    TooMany {
        /// How many.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// An id that is none.
    #[error("the id {id:?} of requirement {index} is not 1 to {ID_MAX} characters long")]
    Id {
        /// Its place in the answer, from 0.
        index: usize,
        /// The id.
        id: String,
    },
    /// The same id twice.
    #[error("the requirement {id:?} stands twice in the answer")]
    Duplicate {
        /// The id.
        id: String,
    },
    /// A namespace, name or selector that makes no sense.
    #[error("the requirement {id:?} of {kind} {problem}")]
    Malformed {
        /// The requirement.
        id: String,
        /// What it wants.
        kind: Gvk,
        /// What is wrong.
        problem: String,
    },
    /// A kind that was not granted.
    #[error(
        "the requirement {id:?} is of kind {kind}, which this plugin may not read: its descriptor must name it under \
         `related`, and the Plugin must name it under spec.grants.related if it is cluster-scoped"
    )]
    KindNotGranted {
        /// The requirement.
        id: String,
        /// The kind.
        kind: Gvk,
    },
    /// The host's own namespace.
    #[error(
        "the requirement {id:?} is of {kind} in namespace {namespace}, which is the host's own: no plugin may read there"
    )]
    HostNamespace {
        /// The requirement.
        id: String,
        /// The kind.
        kind: Gvk,
        /// The namespace.
        namespace: String,
    },
    /// A namespace that was not granted.
    #[error(
        "the requirement {id:?} is of {kind} in namespace {namespace}, which is not the parent's and which the Plugin's \
         spec.grants.related does not name for this kind"
    )]
    NamespaceNotGranted {
        /// The requirement.
        id: String,
        /// The kind.
        kind: Gvk,
        /// The namespace.
        namespace: String,
    },
}

/// Something that the Plugin's ServiceAccount may not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// Whom the API server was asked about, as in `system:serviceaccount:windlass-system:windlass-plugin-echo`.
    pub user: String,
    /// `get` or `list`.
    pub verb: &'static str,
    /// Of this kind.
    pub kind: Gvk,
    /// In this namespace; none if the kind is cluster-scoped.
    pub namespace: Option<Arc<str>>,
    /// The object, for `get`.
    pub name: Option<Arc<str>>,
    /// What the API server said; may be empty.
    pub why: String,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, verb, kind, namespace, name, why } = self;
        write!(f, "{user} may not {verb} {kind}")?;
        if let Some(name) = name {
            write!(f, " {name}")?;
        }
        match namespace {
            Some(namespace) => write!(f, " in namespace {namespace}")?,
            None => f.write_str(" in the cluster")?,
        }
        if why.is_empty() { Ok(()) } else { write!(f, " ({why})") }
    }
}

/// Why what a plugin requires is not served. Never "there is none": that would be an answer from what was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadProblem {
    /// The requirements themselves.
    #[error("The plugin's requirements were refused, nothing was written: {0}")]
    Refused(#[from] Refusal),
    /// The Plugin's ServiceAccount lacks a right.
    #[error("{0}, which the plugin requires; grant it with a Role and a RoleBinding")]
    Denied(Box<Denied>),
    /// The host cannot follow the kind.
    #[error(
        "the host may not watch {kind}, which the plugin requires: {message}. Grant it with an aggregated ClusterRole, as \
         `windlass push --create-rbac` writes it"
    )]
    NotWatched {
        /// The kind.
        kind: Gvk,
        /// HTTP status.
        code: u16,
        /// What the API server said.
        message: String,
    },
    /// The kind's cache is not filled yet.
    #[error("the cache of {kind}, which the plugin requires, is not filled after {} s", .waited.as_secs())]
    NotFilled {
        /// The kind.
        kind: Gvk,
        /// How long it has been tried.
        waited: Duration,
    },
    /// The watch of the kind makes no progress, so its cache may be out of date.
    #[error("the host's watch of {kind}, which the plugin requires, has stalled: {message}")]
    Stalled {
        /// The kind.
        kind: Gvk,
        /// Since when, and why.
        message: String,
    },
    /// The plugin has no tokens left for access reviews.
    #[error(
        "the plugin asked to read more different objects than its rate of access reviews allows (docs/limits.md); this object \
         is tried again as soon as reviews are allowed"
    )]
    Limited {
        /// How long it takes until there are tokens.
        wait: Duration,
    },
    /// The API server could not be asked about a right.
    #[error("whether {user} may read {kind} could not be reviewed: {message}")]
    NotReviewed {
        /// Whose right.
        user: String,
        /// The kind.
        kind: Gvk,
        /// What happened.
        message: String,
    },
    /// Round after round other requirements.
    #[error(
        "the plugin's requirements still changed after {MAX_ROUNDS} rounds, nothing was written; an answer must name all \
         that it depends on, and the same again when it is served"
    )]
    Unsettled,
}

impl ReadProblem {
    /// Reason for the conditions; one of [`crate::names::parent_reason`].
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Refused(
                Refusal::KindNotGranted { .. } | Refusal::NamespaceNotGranted { .. } | Refusal::HostNamespace { .. },
            )
            | Self::Denied(_)
            | Self::NotWatched { code: 401 | 403, .. } => reason::READ_FORBIDDEN,
            Self::Refused(
                Refusal::TooMany { .. } | Refusal::Id { .. } | Refusal::Duplicate { .. } | Refusal::Malformed { .. },
            ) => reason::RESPONSE_REJECTED,
            Self::NotWatched { .. } | Self::NotFilled { .. } | Self::Stalled { .. } | Self::NotReviewed { .. } => {
                reason::API_ERROR
            }
            Self::Limited { .. } => reason::RATE_LIMITED,
            Self::Unsettled => reason::REQUIREMENTS_UNSETTLED,
        }
    }
}

impl ReadGrants {
    /// From granted kinds, and the host's namespace, which is closed to all of them.
    pub fn new(host_namespace: HostNamespace, grants: impl IntoIterator<Item = ReadGrant>) -> Self {
        Self { kinds: grants.into_iter().map(|grant| (Gvk::clone(&grant.kind), grant)).collect(), host_namespace }
    }

    /// The grants, sorted by kind.
    pub fn iter(&self) -> impl Iterator<Item = &ReadGrant> {
        let mut grants: Vec<_> = self.kinds.values().collect();
        grants.sort_by(|one, other| one.kind.cmp(&other.kind));
        grants.into_iter()
    }

    /// Whether this kind may be read at all.
    pub fn holds(&self, kind: &Gvk) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Whether nothing may be read.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Whether a parent of that key may still need this: grants change while a list of needs is kept.
    pub fn permit(&self, need: &Need, parent: &ObjectKey) -> bool {
        self.kinds.get(&need.kind).is_some_and(|grant| {
            let namespace = need.namespace.as_deref();
            self.place(grant, &need.id, parent, namespace).is_ok_and(|placed| placed == need.namespace)
        })
    }

    /// Checks the requirements of an answer for a parent of that key and says what exactly is to be read.
    ///
    /// # Errors
    /// The first thing that a plugin may not require; then none of the answer counts.
    pub fn resolve(
        &self,
        requirements: &[Requirement],
        parent: &ObjectKey,
        limit: usize,
    ) -> Result<Vec<Need>, Refusal> {
        if requirements.len() > limit {
            return Err(Refusal::TooMany { count: requirements.len(), limit });
        }
        let mut ids = HashSet::with_capacity(requirements.len());
        let resolved = requirements.iter().enumerate().map(|(index, requirement)| {
            let Requirement { id, kind, namespace, select } = requirement;
            if id.is_empty() || id.chars().count() > ID_MAX {
                return Err(Refusal::Id { index, id: id.chars().take(ID_MAX).collect() });
            }
            if !ids.insert(id) {
                return Err(Refusal::Duplicate { id: id.clone() });
            }
            let grant =
                self.kinds.get(kind).ok_or_else(|| Refusal::KindNotGranted { id: id.clone(), kind: kind.clone() })?;
            Ok(Need {
                id: id.as_str().into(),
                kind: grant.kind.clone(),
                namespace: self.place(grant, id, parent, namespace.as_deref().filter(|name| !name.is_empty()))?,
                select: Select::of(select).map_err(|problem| grant.malformed(id, problem))?,
            })
        });
        resolved.collect()
    }

    /// The namespace to read in, or why it may not be read.
    fn place(
        &self,
        grant: &ReadGrant,
        id: &str,
        parent: &ObjectKey,
        wanted: Option<&str>,
    ) -> Result<Option<Arc<str>>, Refusal> {
        let namespace = grant.place(id, parent, wanted)?;
        match namespace.as_deref().filter(|namespace| self.host_namespace.is(namespace)) {
            Some(namespace) => Err(Refusal::HostNamespace {
                id: id.to_owned(),
                kind: Gvk::clone(&grant.kind),
                namespace: namespace.to_owned(),
            }),
            None => Ok(namespace),
        }
    }
}

impl ReadGrant {
    fn malformed(&self, id: &str, problem: String) -> Refusal {
        Refusal::Malformed { id: id.to_owned(), kind: Gvk::clone(&self.kind), problem }
    }

    /// The namespace to read in, or why it may not be read.
    fn place(&self, id: &str, parent: &ObjectKey, wanted: Option<&str>) -> Result<Option<Arc<str>>, Refusal> {
        match (self.namespaced, &parent.namespace, wanted) {
            (false, _, None) => Ok(None),
            (false, _, Some(namespace)) => {
                Err(self.malformed(id, format!("names namespace {namespace:?}, but the kind is cluster-scoped")))
            }
            (true, Some(home), None) => Ok(Some(home.clone())),
            (true, None, None) => {
                Err(self.malformed(id, "names no namespace, and its parent is cluster-scoped, so it must".to_owned()))
            }
            (true, _, Some(namespace)) if !is_dns_label(namespace) => {
                Err(self.malformed(id, format!("names namespace {namespace:?}, which is no valid name (RFC 1123)")))
            }
            (true, Some(home), Some(namespace)) if **home == *namespace => Ok(Some(home.clone())),
            (true, home, Some(namespace)) => match &self.namespaces {
                None if home.is_none() => Ok(Some(namespace.into())),
                granted => {
                    let granted = granted.iter().flatten().find(|granted| ***granted == *namespace);
                    granted.cloned().map(Some).ok_or_else(|| Refusal::NamespaceNotGranted {
                        id: id.to_owned(),
                        kind: Gvk::clone(&self.kind),
                        namespace: namespace.to_owned(),
                    })
                }
            },
        }
    }
}

impl Select {
    fn of(selection: &Selection) -> Result<Self, String> {
        match selection {
            Selection::Name(name) if is_object_name(name) => Ok(Self::Name(name.as_str().into())),
            Selection::Name(name) => Err(format!("names {name:?}, which is no object's name")),
            // It is kept for as long as the parent lives, and matched with every object of the kind that changes.
            Selection::Labels(text) if text.len() > SELECTOR_MAX => {
                Err(format!("selects by labels with {} bytes, more than the limit of {SELECTOR_MAX}", text.len()))
            }
            Selection::Labels(text) => text.parse().map(Self::Labels).map_err(|error| error.to_string()),
        }
    }
}

impl Need {
    /// Whether it finds this object.
    pub fn selects(&self, object: &Object) -> bool {
        object.key.namespace == self.namespace
            && *object.kind == *self.kind
            && match &self.select {
                Select::Name(name) => *name == object.key.name,
                Select::Labels(selector) => selector.matches(&Labels::of(&object.json.bytes())),
            }
    }
}

/// The calls of one reconcile: what they are served, and how many there may be.
#[derive(Debug)]
pub struct Rounds {
    served: Needs,
    answered: usize,
}

/// What follows from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The answer depends on nothing but what it was served: it counts.
    Final,
    /// The plugin is to be called again, with what it requires now.
    Again,
    /// It was called often enough.
    Unsettled,
}

impl Rounds {
    /// Begins with what the last final answer required.
    pub fn starting_with(needs: Needs) -> Self {
        Self { served: needs, answered: 0 }
    }

    /// What the next call is served; after [`Next::Final`], what the final answer depends on.
    pub fn served(&self) -> &Needs {
        &self.served
    }

    /// Decides about an answer by what it requires. The order of the requirements says nothing, so that it cannot
    /// unsettle a plugin that keeps them in a hash map.
    pub fn answered(&mut self, required: Vec<Need>) -> Next {
        self.answered += 1;
        if is_same(&self.served, &required) {
            return Next::Final;
        }
        if self.answered >= MAX_ROUNDS {
            return Next::Unsettled;
        }
        self.served = required.into();
        Next::Again
    }
}

/// Ids are unique in both.
fn is_same(served: &[Need], required: &[Need]) -> bool {
    served == required || served.len() == required.len() && served.iter().all(|need| required.contains(need))
}

#[cfg(test)]
mod tests;
