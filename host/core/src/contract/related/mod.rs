//! Resolves a plugin's requirements into the objects to read, and decides when its response is final.
//!
//! The component's descriptor, the Plugin and discovery define which kinds and namespaces may be read, never a response. Beyond these
//! checks, the Plugin's ServiceAccount must have the permission before anything is read.

mod problem;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

pub use self::problem::{Denied, ReadProblem, Refusal};
use crate::contract::grant::Presence;
use crate::contract::reserved::HostNamespace;
use crate::contract::{Namespaces, Requirement, Selection};
use crate::object::selector::{SELECTOR_MAX, Selector};
use crate::object::{NotAnObject, Object};
use crate::value::ids::{Gvk, ObjectKey, is_dns_label, is_object_name};

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
    kinds: BTreeMap<Gvk, ReadGrant>,
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
    /// Whether the cluster serves the kind.
    pub presence: Presence,
}

/// One resolved requirement: a kind, a namespace and a selection of objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Need {
    /// The ID that the plugin chose. Needs that one requirement becomes have the same, one after the other.
    pub id: Arc<str>,
    /// The kind.
    pub kind: Arc<Gvk>,
    /// Where the objects are.
    pub place: Place,
    /// The selected objects.
    pub select: Select,
    /// Whether the metadata of the objects is enough.
    pub metadata_only: bool,
}

/// Where the objects of a [`Need`] are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// In no namespace: the kind is cluster-scoped, or not served.
    Cluster,
    /// In this namespace.
    In(Arc<str>),
    /// In all namespaces but the host's.
    AllBut(HostNamespace),
}

impl Place {
    fn of(namespace: Option<Arc<str>>) -> Self {
        namespace.map_or(Self::Cluster, Self::In)
    }

    /// The namespace, if it is a single one.
    pub fn namespace(&self) -> Option<&Arc<str>> {
        if let Self::In(namespace) = self { Some(namespace) } else { None }
    }

    /// Whether an object of this namespace, or of none, is there.
    pub fn has(&self, namespace: Option<&str>) -> bool {
        match (self, namespace) {
            (Self::Cluster, None) => true,
            (Self::In(this), Some(namespace)) => **this == *namespace,
            (Self::AllBut(host), Some(namespace)) => !host.is(namespace),
            (Self::Cluster, Some(_)) | (Self::In(_) | Self::AllBut(_), None) => false,
        }
    }
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
    /// None: the cluster need not serve the kind, and does not.
    Nothing,
}

impl ReadGrants {
    /// Creates the grants from the granted kinds and the host's namespace, where nothing may be read.
    pub fn new(host_namespace: HostNamespace, grants: impl IntoIterator<Item = ReadGrant>) -> Self {
        Self { kinds: grants.into_iter().map(|grant| (Gvk::clone(&grant.kind), grant)).collect(), host_namespace }
    }

    /// The grants, sorted by kind.
    pub fn iter(&self) -> impl Iterator<Item = &ReadGrant> {
        self.kinds.values()
    }

    /// Returns true if this kind may be read at all.
    pub fn holds(&self, kind: &Gvk) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Returns true if nothing may be read.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The optional kinds that the cluster serves.
    pub(crate) fn optional_kinds(&self) -> impl Iterator<Item = &Arc<Gvk>> {
        self.iter().filter(|grant| grant.presence == Presence::Served).map(|grant| &grant.kind)
    }

    /// Whether other grants are the same, but for the optional kinds that the cluster serves. The scope of a kind that it does not serve is
    /// not known, and decides whether the kind is granted: so kinds that one of both lacks do not count, if they are optional.
    pub fn are_like(&self, other: &Self) -> bool {
        let has = |of: &Self, grant: &ReadGrant| match (of.kinds.get(&grant.kind), grant.presence.is_optional()) {
            (Some(other), true) => other.presence.is_optional() && other.namespaces == grant.namespaces,
            (Some(other), false) => other == grant,
            (None, is_optional) => is_optional,
        };
        self.host_namespace == other.host_namespace
            && self.iter().all(|grant| has(other, grant))
            && other.iter().all(|grant| has(self, grant))
    }

    /// Returns true if the grants still permit this requirement of the parent with that key: grants can change while
    /// resolved requirements are kept.
    pub fn permit(&self, need: &Need, parent: &ObjectKey) -> bool {
        self.kinds.get(&need.kind).is_some_and(|grant| {
            if grant.presence == Presence::Absent || need.select == Select::Nothing {
                return grant.presence == Presence::Absent && need.select == Select::Nothing;
            }
            let placed = match &need.place {
                Place::AllBut(_) => self.places(grant, &need.id, parent, &Namespaces::All),
                Place::Cluster => self.places(grant, &need.id, parent, &Namespaces::OfParent),
                Place::In(namespace) => {
                    self.place(grant, &need.id, parent, Some(namespace)).map(|placed| vec![Place::of(placed)])
                }
            };
            placed.is_ok_and(|placed| placed.contains(&need.place))
        })
    }

    /// Checks the requirements of a response for the parent with that key, and resolves them: one that names several namespaces becomes a
    /// need in each of them.
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
            let count = requirements.len();
            let message = format!("the response has {count} requirements, more than the limit of {limit}");
            return Err(Refusal::invalid(message));
        }
        // Before anything is made of them: each need has a copy of the selector.
        let count_of = |one: &Requirement| match &one.namespaces {
            Namespaces::Named(names) => names.len(),
            Namespaces::OfParent => 1,
            Namespaces::All => {
                self.kinds.get(&one.kind).map_or(1, |grant| 1 + grant.namespaces.iter().flatten().count())
            }
        };
        let count: usize = requirements.iter().map(count_of).sum();
        if count > limit {
            let message = format!(
                "the requirements of the response are of {count} namespaces in all, more than the limit of {limit}"
            );
            return Err(Refusal::invalid(message));
        }
        let mut ids = HashSet::with_capacity(requirements.len());
        let resolved = requirements.iter().enumerate().map(|(index, requirement)| {
            let Requirement { id, kind, namespaces, select, metadata_only } = requirement;
            let metadata_only = *metadata_only;
            if id.is_empty() || id.chars().count() > ID_MAX {
                let id: String = id.chars().take(ID_MAX).collect();
                let message = format!("the id {id:?} of requirement {index} is not 1 to {ID_MAX} characters long");
                return Err(Refusal::invalid(message));
            }
            if !ids.insert(id) {
                return Err(Refusal::invalid(format!("the requirement {id:?} is twice in the response")));
            }
            let grant = self.kinds.get(kind).ok_or_else(|| Refusal::of_kind(id, kind))?;
            let (id, kind) = (id.as_str(), grant.kind.clone());
            let select = Select::of(select).map_err(|problem| grant.malformed(id, &problem))?;
            if grant.presence == Presence::Absent {
                let (id, place, select) = (id.into(), Place::Cluster, Select::Nothing);
                return Ok(vec![Need { id, kind, place, select, metadata_only }]);
            }
            let id: Arc<str> = id.into();
            let places = self.places(grant, &id, parent, namespaces)?;
            let (kind, select) = (&kind, &select);
            let need =
                |place| Need { id: id.clone(), kind: kind.clone(), place, select: select.clone(), metadata_only };
            Ok(places.into_iter().map(need).collect())
        });
        let needs = resolved.collect::<Result<Vec<Vec<_>>, _>>()?.concat();
        match size_of(&needs) {
            size if size > PARENT_BYTES_MAX => Err(Refusal::invalid(format!(
                "the requirements in the response take {size} bytes of memory, more than the limit of {PARENT_BYTES_MAX} for one \
                 parent; require fewer objects, or use shorter label selectors"
            ))),
            _ => Ok(needs),
        }
    }

    /// Returns where to read, each place once, or why reading in one of them is not allowed.
    fn places(
        &self,
        grant: &ReadGrant,
        id: &str,
        parent: &ObjectKey,
        wanted: &Namespaces,
    ) -> Result<Vec<Place>, Refusal> {
        let own = || Ok(vec![Place::of(self.place(grant, id, parent, None)?)]);
        let names: BTreeSet<&str> = match wanted {
            Namespaces::OfParent => return own(),
            Namespaces::All if !grant.namespaced => return own(),
            Namespaces::All => match (&grant.namespaces, &parent.namespace) {
                (None, None) => return Ok(vec![Place::AllBut(self.host_namespace.clone())]),
                (granted, own) => {
                    let all = granted.iter().flatten().chain(own).map(|name| &**name);
                    all.filter(|name| !self.host_namespace.is(name)).collect()
                }
            },
            Namespaces::Named(names) => match &**names {
                // Contract 0.1 has always taken it for none.
                [empty] if empty.is_empty() => return own(),
                [] => return Err(grant.malformed(id, "names no namespace: leave out the requirement, or name one")),
                names => names.iter().map(|name| &**name).collect(),
            },
        };
        names.into_iter().map(|name| Ok(Place::of(self.place(grant, id, parent, Some(name))?))).collect()
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
            Some(namespace) => Err(Refusal::forbidden(format!(
                "the requirement {id:?} is of {} in namespace {namespace}, which is the host's own: no plugin may read there",
                grant.kind
            ))),
            None => Ok(namespace),
        }
    }
}

impl ReadGrant {
    fn malformed(&self, id: &str, problem: &str) -> Refusal {
        Refusal::invalid(format!("the requirement {id:?} of {} {problem}", self.kind))
    }

    /// Returns the namespace to read in, or why reading there is not allowed.
    fn place(&self, id: &str, parent: &ObjectKey, wanted: Option<&str>) -> Result<Option<Arc<str>>, Refusal> {
        match (self.namespaced, &parent.namespace, wanted) {
            (false, _, None) => Ok(None),
            (false, _, Some(namespace)) => {
                Err(self.malformed(id, &format!("names namespace {namespace:?}, but the kind is cluster-scoped")))
            }
            (true, Some(own), None) => Ok(Some(own.clone())),
            (true, None, None) => {
                Err(self.malformed(id, "names no namespace, and its parent is cluster-scoped, so it must"))
            }
            (true, _, Some(namespace)) if !is_dns_label(namespace) => {
                Err(self.malformed(id, &format!("names namespace {namespace:?}, which is no valid name (RFC 1123)")))
            }
            (true, Some(own), Some(namespace)) if **own == *namespace => Ok(Some(own.clone())),
            (true, own, Some(namespace)) => match &self.namespaces {
                None if own.is_none() => Ok(Some(namespace.into())),
                granted => {
                    let granted = granted.iter().flatten().find(|granted| ***granted == *namespace);
                    granted.cloned().map(Some).ok_or_else(|| {
                        Refusal::forbidden(format!(
                            "the requirement {id:?} is of {} in namespace {namespace}, which is not the parent's and which the \
                             Plugin's spec.grants.related does not name for this kind",
                            self.kind
                        ))
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
        self.place.has(object.key.namespace.as_deref())
            && *object.kind == *self.kind
            && match &self.select {
                Select::Name(name) => *name == object.key.name,
                Select::Labels(selector) => object.with_labels(|labels| selector.matches(labels)),
                Select::Nothing => false,
            }
    }

    /// A whole object as the requirement serves it.
    ///
    /// # Errors
    /// If its metadata cannot be read.
    pub fn part_of(&self, object: Arc<Object>) -> Result<Arc<Object>, NotAnObject> {
        if self.metadata_only { object.metadata_alone().map(Arc::new) } else { Ok(object) }
    }
}

/// Those of these requirements whose kinds are watched: all but those of kinds that the cluster does not serve.
pub fn watched(needs: &[Need]) -> impl Iterator<Item = &Need> {
    needs.iter().filter(|need| need.select != Select::Nothing)
}

/// Memory that the host needs to keep these requirements, at most, in bytes.
pub fn size_of(needs: &[Need]) -> usize {
    let texts = |need: &Need| {
        let select = match &need.select {
            Select::Name(name) => name.len(),
            // An index contains the required term.
            Select::Labels(selector) => selector.size() + selector.required_term().map_or(0, str::len),
            Select::Nothing => 0,
        };
        need.id.len() + need.place.namespace().map_or(0, |namespace| namespace.len()) + select
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
    /// order does not matter, so that a plugin may keep them in a hash map. `is_answered`: whether the call had the answers to its
    /// requests to other systems.
    pub fn answered(&mut self, required: Vec<Need>, is_answered: bool) -> Next {
        self.answered += 1;
        if is_answered && is_same(&self.served, &required) {
            return Next::Final;
        }
        if self.answered >= MAX_ROUNDS {
            return Next::Unsettled;
        }
        self.served = required.into();
        Next::Again
    }
}

/// Compares requirements regardless of their order; none is twice in either.
fn is_same(served: &[Need], required: &[Need]) -> bool {
    served == required || served.len() == required.len() && served.iter().all(|need| required.contains(need))
}

#[cfg(test)]
mod tests;
