//! Resolves a plugin's requirements into the objects to read, and decides when its response is final.
//!
//! The component's descriptor, the Plugin and discovery define which kinds and namespaces may be read, never a response. Beyond these
//! checks, the Plugin's ServiceAccount must have the permission before anything is read.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::contract::{Requirement, Selection};
use crate::ids::{Gvk, ObjectKey, is_dns_label, is_object_name};
use crate::object::Object;
use crate::reason::ParentReason;
use crate::reserved::HostNamespace;
use crate::selector::{SELECTOR_MAX, Selector};

/// Maximum number of calls in one reconcile while the plugin's requirements still change.
pub const MAX_ROUNDS: usize = 5;

/// Maximum length of a requirement's ID, in characters.
const ID_MAX: usize = 63;

/// Memory that the host needs for a requirement besides its texts, at most, in bytes: the requirement, and its entries in the indexes.
const BESIDE_TEXTS: usize = 512;

/// Maximum memory for the requirements of one parent, in bytes (see [`size_of`]). It suffices for the default number of requirements,
/// whatever they select, and for twice as many of usual names and selectors.
pub const PARENT_BYTES_MAX: usize = 192 * 1024;

/// The related objects that a plugin may read, resolved against the kinds that the cluster serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadGrants {
    kinds: HashMap<Gvk, ReadGrant>,
    host_namespace: HostNamespace,
}

/// How a related kind may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadGrant {
    /// The kind; shared by all requirements of the kind.
    pub kind: Arc<Gvk>,
    /// Whether the kind is namespaced, according to discovery.
    pub namespaced: bool,
    /// Namespaces in addition to the parent's own. `None`: a namespaced parent may read its own namespace only; a
    /// cluster-scoped parent, which has none, may name any namespace.
    pub namespaces: Option<Box<[Arc<str>]>>,
}

/// One resolved requirement: a kind, a namespace and a selection of objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Need {
    /// The ID that the plugin chose, unique within a response.
    pub id: Arc<str>,
    /// The kind.
    pub kind: Arc<Gvk>,
    /// The namespace; `None` exactly if the kind is cluster-scoped.
    pub namespace: Option<Arc<str>>,
    /// The selected objects.
    pub select: Select,
}

/// All requirements of a response, in the plugin's order.
pub type Needs = Arc<[Need]>;

/// The objects that a [`Need`] selects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Select {
    /// The object with this name.
    Name(Arc<str>),
    /// The objects that match this label selector.
    Labels(Selector),
}

/// Why requirements are rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The response has too many requirements.
    #[error("the response has {count} requirements, more than the limit of {limit}")]
    TooMany {
        /// The number of requirements.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// The requirements are too large together.
    #[error(
        "the requirements in the response take {size} bytes of memory, more than the limit of {PARENT_BYTES_MAX} for one parent; \
         require fewer objects, or use shorter label selectors"
    )]
    TooLarge {
        /// Their memory in the host, in bytes.
        size: usize,
    },
    /// An ID is empty or too long.
    #[error("the id {id:?} of requirement {index} is not 1 to {ID_MAX} characters long")]
    Id {
        /// Index in the response, from 0.
        index: usize,
        /// The ID.
        id: String,
    },
    /// An ID occurs twice.
    #[error("the requirement {id:?} is twice in the response")]
    Duplicate {
        /// The ID.
        id: String,
    },
    /// A namespace, name or selector is invalid.
    #[error("the requirement {id:?} of {kind} {problem}")]
    Malformed {
        /// The requirement's ID.
        id: String,
        /// The required kind.
        kind: Gvk,
        /// Description of the problem.
        problem: String,
    },
    /// The kind is not granted.
    #[error(
        "the requirement {id:?} is of kind {kind}, which this plugin may not read: its descriptor must name it under \
         `related`, and the Plugin must name it under spec.grants.related if it is cluster-scoped"
    )]
    KindNotGranted {
        /// The requirement's ID.
        id: String,
        /// The kind.
        kind: Gvk,
    },
    /// The namespace is the host's own.
    #[error(
        "the requirement {id:?} is of {kind} in namespace {namespace}, which is the host's own: no plugin may read there"
    )]
    HostNamespace {
        /// The requirement's ID.
        id: String,
        /// The kind.
        kind: Gvk,
        /// The namespace.
        namespace: String,
    },
    /// The namespace is not granted.
    #[error(
        "the requirement {id:?} is of {kind} in namespace {namespace}, which is not the parent's and which the Plugin's \
         spec.grants.related does not name for this kind"
    )]
    NamespaceNotGranted {
        /// The requirement's ID.
        id: String,
        /// The kind.
        kind: Gvk,
        /// The namespace.
        namespace: String,
    },
}

/// A permission that the Plugin's ServiceAccount lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// The reviewed user, such as `system:serviceaccount:windlass-system:windlass-plugin-echo`.
    pub user: String,
    /// `get` or `list`.
    pub verb: &'static str,
    /// The kind.
    pub kind: Gvk,
    /// The namespace; `None` for a cluster-scoped object.
    pub namespace: Option<Arc<str>>,
    /// The object's name, for `get`; `None` for `list`.
    pub name: Option<Arc<str>>,
    /// The API server's explanation; may be empty.
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

/// Why required objects cannot be read. Such a failure is never reported to the plugin as an empty result, because the
/// plugin would decide on data that was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadProblem {
    /// The requirements are invalid or not granted.
    #[error("The plugin's requirements were rejected, and nothing was written: {0}")]
    Refused(#[from] Refusal),
    /// The Plugin's ServiceAccount lacks a permission.
    #[error("{0}, which the plugin requires; grant it with a Role and a RoleBinding")]
    Denied(Box<Denied>),
    /// The host cannot watch the kind.
    #[error(
        "the host may not watch {kind}, which the plugin requires: {message}. Grant it with an aggregated ClusterRole, as \
         `windlass push --create-rbac` writes it"
    )]
    NotWatched {
        /// The kind.
        kind: Gvk,
        /// HTTP status code.
        code: u16,
        /// The API server's message.
        message: String,
    },
    /// The kind's cache is not filled yet.
    #[error("the cache of {kind}, which the plugin requires, is not filled after {} s", .waited.as_secs())]
    NotFilled {
        /// The kind.
        kind: Gvk,
        /// Time since the watch was started.
        waited: Duration,
    },
    /// The kind's watch makes no progress, so its cache may be outdated.
    #[error("the host's watch of {kind}, which the plugin requires, has stalled: {message}")]
    Stalled {
        /// The kind.
        kind: Gvk,
        /// Since when the watch has stalled, and why.
        message: String,
    },
    /// The requirements of all parents of the plugin together are too large.
    #[error(
        "the requirements of the plugin's parents take more than {limit} bytes of memory, so the objects that this parent requires are \
         not read; require fewer objects or use shorter label selectors, or raise --requirements-memory of the host (docs/limits.md)"
    )]
    Full {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The selected objects are larger than a request may be.
    #[error(
        "the objects that the plugin requires are larger than {limit} bytes, the limit of a request; require fewer or smaller objects, \
         or raise spec.limits.requestBytes"
    )]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The comparison of label selectors with objects took too long.
    #[error(
        "comparing the plugin's label selectors with the objects in their namespaces took longer than {} ms, the deadline of a call; \
         require fewer label selectors, or raise spec.limits.deadline",
        .deadline.as_millis()
    )]
    Slow {
        /// The deadline of a call.
        deadline: Duration,
    },
    /// The plugin's rate limit for access reviews is used up.
    #[error(
        "the plugin asked to read more different objects than its rate of access reviews allows (docs/limits.md); the \
         parent is reconciled again as soon as reviews are allowed"
    )]
    Limited {
        /// Time until the next review is allowed.
        wait: Duration,
    },
    /// The API server could not be asked to review a permission.
    #[error("whether {user} may read {kind} could not be reviewed: {message}")]
    NotReviewed {
        /// The user whose permission was to be reviewed.
        user: String,
        /// The kind.
        kind: Gvk,
        /// Description of the failure.
        message: String,
    },
    /// The requirements changed in every round.
    #[error(
        "the plugin's requirements still changed after {MAX_ROUNDS} calls, and nothing was written; a response must name \
         all objects that it depends on, and the same ones when the plugin is called again with them"
    )]
    Unsettled,
}

impl ReadProblem {
    /// The reason for the conditions.
    pub fn reason(&self) -> ParentReason {
        match self {
            Self::Refused(
                Refusal::KindNotGranted { .. } | Refusal::NamespaceNotGranted { .. } | Refusal::HostNamespace { .. },
            )
            | Self::Denied(_)
            | Self::NotWatched { code: 401 | 403, .. } => ParentReason::ReadForbidden,
            Self::Refused(
                Refusal::TooMany { .. }
                | Refusal::TooLarge { .. }
                | Refusal::Id { .. }
                | Refusal::Duplicate { .. }
                | Refusal::Malformed { .. },
            ) => ParentReason::ResponseRejected,
            Self::Full { .. } | Self::TooLarge { .. } => ParentReason::LimitExceeded,
            Self::Slow { .. } => ParentReason::DeadlineExceeded,
            Self::NotWatched { .. } | Self::NotFilled { .. } | Self::Stalled { .. } | Self::NotReviewed { .. } => {
                ParentReason::ApiError
            }
            Self::Limited { .. } => ParentReason::RateLimited,
            Self::Unsettled => ParentReason::RequirementsUnsettled,
        }
    }
}

impl ReadGrants {
    /// Creates the grants from the granted kinds and the host's namespace, where nothing may be read.
    pub fn new(host_namespace: HostNamespace, grants: impl IntoIterator<Item = ReadGrant>) -> Self {
        Self { kinds: grants.into_iter().map(|grant| (Gvk::clone(&grant.kind), grant)).collect(), host_namespace }
    }

    /// The grants, sorted by kind.
    pub fn iter(&self) -> impl Iterator<Item = &ReadGrant> {
        let mut grants: Vec<_> = self.kinds.values().collect();
        grants.sort_by(|one, other| one.kind.cmp(&other.kind));
        grants.into_iter()
    }

    /// Returns true if this kind may be read at all.
    pub fn holds(&self, kind: &Gvk) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Returns true if nothing may be read.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Returns true if the grants still permit this requirement of the parent with that key: grants can change while
    /// resolved requirements are kept.
    pub fn permit(&self, need: &Need, parent: &ObjectKey) -> bool {
        self.kinds.get(&need.kind).is_some_and(|grant| {
            let namespace = need.namespace.as_deref();
            self.place(grant, &need.id, parent, namespace).is_ok_and(|placed| placed == need.namespace)
        })
    }

    /// Checks the requirements of a response for the parent with that key, and resolves them.
    ///
    /// # Errors
    /// The first requirement that is not allowed; the caller then rejects the whole response.
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
        let needs: Vec<_> = resolved.collect::<Result<_, _>>()?;
        match size_of(&needs) {
            size if size > PARENT_BYTES_MAX => Err(Refusal::TooLarge { size }),
            _ => Ok(needs),
        }
    }

    /// Returns the namespace to read in, or why reading there is not allowed.
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

    /// Returns the namespace to read in, or why reading there is not allowed.
    fn place(&self, id: &str, parent: &ObjectKey, wanted: Option<&str>) -> Result<Option<Arc<str>>, Refusal> {
        match (self.namespaced, &parent.namespace, wanted) {
            (false, _, None) => Ok(None),
            (false, _, Some(namespace)) => {
                Err(self.malformed(id, format!("names namespace {namespace:?}, but the kind is cluster-scoped")))
            }
            (true, Some(own), None) => Ok(Some(own.clone())),
            (true, None, None) => {
                Err(self.malformed(id, "names no namespace, and its parent is cluster-scoped, so it must".to_owned()))
            }
            (true, _, Some(namespace)) if !is_dns_label(namespace) => {
                Err(self.malformed(id, format!("names namespace {namespace:?}, which is no valid name (RFC 1123)")))
            }
            (true, Some(own), Some(namespace)) if **own == *namespace => Ok(Some(own.clone())),
            (true, own, Some(namespace)) => match &self.namespaces {
                None if own.is_none() => Ok(Some(namespace.into())),
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
            Selection::Name(name) => Err(format!("names {name:?}, which is not a valid object name")),
            // The selector is kept while the parent exists, and matched with every changed object of the kind.
            Selection::Labels(text) if text.len() > SELECTOR_MAX => {
                Err(format!("selects by labels with {} bytes, more than the limit of {SELECTOR_MAX}", text.len()))
            }
            Selection::Labels(text) => text.parse().map(Self::Labels).map_err(|error| error.to_string()),
        }
    }
}

impl Need {
    /// Returns true if the requirement selects this object.
    pub fn selects(&self, object: &Object) -> bool {
        object.key.namespace == self.namespace
            && *object.kind == *self.kind
            && match &self.select {
                Select::Name(name) => *name == object.key.name,
                Select::Labels(selector) => object.with_labels(|labels| selector.matches(labels)),
            }
    }
}

/// Memory that the host needs to keep these requirements, at most, in bytes.
pub fn size_of(needs: &[Need]) -> usize {
    let texts = |need: &Need| {
        let select = match &need.select {
            Select::Name(name) => name.len(),
            // An index contains the required term.
            Select::Labels(selector) => selector.size() + selector.required_term().map_or(0, str::len),
        };
        need.id.len() + need.namespace.as_ref().map_or(0, |namespace| namespace.len()) + select
    };
    needs.iter().map(|need| BESIDE_TEXTS + texts(need)).sum()
}

/// The calls of one reconcile: the requirements whose objects the next call is served, and the number of calls so far.
#[derive(Debug)]
pub struct Rounds {
    served: Needs,
    answered: usize,
}

/// The step that follows a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The response requires exactly the objects that the call was served, so it is final.
    Final,
    /// The plugin must be called again with the objects that it requires now.
    Again,
    /// The maximum number of calls is reached, and the requirements still change.
    Unsettled,
}

impl Rounds {
    /// Starts with the requirements of the last final response.
    pub fn starting_with(needs: Needs) -> Self {
        Self { served: needs, answered: 0 }
    }

    /// The requirements whose objects the next call is served; after [`Next::Final`], the requirements of the final
    /// response.
    pub fn served(&self) -> &Needs {
        &self.served
    }

    /// Compares the requirements of a response with those that its call was served, and decides the next step. Their
    /// order does not matter, so that a plugin may keep them in a hash map.
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

/// Compares requirements regardless of their order; IDs are unique in both.
fn is_same(served: &[Need], required: &[Need]) -> bool {
    served == required || served.len() == required.len() && served.iter().all(|need| required.contains(need))
}

#[cfg(test)]
mod tests;
