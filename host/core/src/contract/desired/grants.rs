//! The children that a plugin may have.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ResponseRejection;
use crate::contract::UpdateStrategy;
use crate::contract::grant::{Presence, SpecGrants, Withheld, are_in};
use crate::contract::reserved::{HostNamespace, SYSTEM_NAMESPACES};
use crate::value::ids::Gvk;

/// The children that a plugin may have, resolved against the kinds that the cluster serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    kinds: Vec<Grant>,
    withheld: Vec<(Gvk, Withheld)>,
    pub(super) host_namespace: HostNamespace,
}

/// How a granted kind may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The kind; shared by all children of the kind.
    pub kind: Arc<Gvk>,
    /// Whether the kind is namespaced, according to discovery. Of a kind that the cluster does not serve, it means nothing.
    pub namespaced: bool,
    /// How existing children are updated.
    pub update: UpdateStrategy,
    /// The namespaces in which a cluster-scoped parent may have such children; `None` means all but those of the
    /// control plane.
    pub namespaces: Option<Box<[Arc<str>]>>,
    /// Whether children may be Secrets of the types in `TOKENS`: service account tokens and bootstrap tokens.
    pub tokens: bool,
    /// Whether the cluster serves the kind.
    pub presence: Presence,
}

impl Grants {
    /// Creates the grants from the granted kinds and the host's namespace, where no children are allowed. If a kind
    /// occurs twice, the last one applies.
    pub fn new(host_namespace: HostNamespace, grants: impl IntoIterator<Item = Grant>) -> Self {
        let by_kind: BTreeMap<_, _> = grants.into_iter().map(|grant| (grant.kind.clone(), grant)).collect();
        Self { kinds: by_kind.into_values().collect(), withheld: Vec::new(), host_namespace }
    }

    /// Passes on everything that decides about a child, in parts for a hash that is the same in every release, and whether or not the
    /// cluster serves the optional kinds.
    pub(crate) fn for_each_part(&self, mut part: impl FnMut(&str)) {
        let Self { kinds, withheld, host_namespace } = self;
        part(&host_namespace.to_string());
        for Grant { kind, namespaced, update, namespaces, tokens, presence } in kinds {
            part("grant");
            part(&kind.api_version());
            part(&kind.kind);
            part(match (presence.is_optional(), namespaced) {
                (true, _) => "optional",
                (false, true) => "namespaced",
                (false, false) => "cluster-scoped",
            });
            update.for_each_part(&mut part);
            part(if *tokens { "tokens" } else { "no tokens" });
            match namespaces {
                None => part("all namespaces"),
                Some(namespaces) => {
                    part("namespaces");
                    namespaces.iter().for_each(|namespace| part(namespace));
                }
            }
        }
        for (kind, why) in withheld {
            part("withheld");
            part(&kind.api_version());
            part(&kind.kind);
            part(match why {
                Withheld::NotNamed => "NotNamed",
                Withheld::MustBeNamed => "MustBeNamed",
                Withheld::OutOfScope => "OutOfScope",
                Withheld::NotReadable => "NotReadable",
                Withheld::ParentMustBeNamed => "ParentMustBeNamed",
                Withheld::FinalizerMustBeNamed => "FinalizerMustBeNamed",
            });
        }
    }

    /// The namespaces in which the plugin may have no children: the host's, and those of the control plane that no grant names.
    pub(crate) fn closed_namespaces(&self) -> Vec<Arc<str>> {
        let named = |namespace: &str| {
            self.kinds.iter().filter_map(|grant| grant.namespaces.as_deref()).flatten().any(|name| **name == *namespace)
        };
        let system = SYSTEM_NAMESPACES.into_iter().filter(|namespace| !named(namespace)).map(Arc::from);
        self.host_namespace.name().into_iter().chain(system).collect()
    }

    /// Records the kinds that the descriptor declares and the Plugin does not grant, so that a rejection can say why.
    #[must_use]
    pub fn with_withheld(self, withheld: Vec<(Gvk, Withheld)>) -> Self {
        Self { withheld, ..self }
    }

    /// The child kinds that the component requests and the Plugin does not grant.
    pub fn withheld(&self) -> impl Iterator<Item = &Gvk> {
        self.withheld.iter().map(|(kind, _)| kind)
    }

    /// The optional kinds that the cluster serves.
    pub(crate) fn optional_kinds(&self) -> impl Iterator<Item = &Arc<Gvk>> {
        self.kinds.iter().filter(|grant| grant.presence == Presence::Served).map(|grant| &grant.kind)
    }

    /// Returns true if a Plugin with these grants grants all of this: the kinds, the namespaces and the tokens.
    pub fn are_held_by(&self, spec: &SpecGrants) -> bool {
        self.kinds.iter().all(|before| {
            let now = spec.owned(&before.kind);
            let is_in_namespaces = match (&before.namespaces, now.and_then(|now| now.namespaces.as_ref())) {
                (_, None) => {
                    let named = before.namespaces.iter().flatten();
                    named.into_iter().all(|namespace| !SYSTEM_NAMESPACES.contains(&&**namespace))
                }
                (None, Some(_)) => false,
                (Some(before), Some(now)) => are_in(before, now),
            };
            let has_tokens = !before.tokens || now.is_some_and(|now| now.tokens);
            spec.may_own(&before.kind).is_ok() && is_in_namespaces && has_tokens
        })
    }

    /// The reason to reject children of a kind that is not granted.
    pub(super) fn rejection(&self, name: &str, api_version: &str, kind: &str) -> ResponseRejection {
        let kind = Gvk::from_api_version(api_version, kind);
        let why = match self.withheld.iter().find(|(withheld, _)| *withheld == kind) {
            Some((_, why)) => why.to_string(),
            None => {
                "the component's descriptor does not declare: its author must add it to the descriptor's `children`"
                    .to_owned()
            }
        };
        ResponseRejection::not_allowed(format!("child {name:?} is of kind {kind}, which {why}"))
    }

    /// The granted kinds, sorted.
    pub fn kinds(&self) -> Vec<&Gvk> {
        self.kinds.iter().map(|grant| &*grant.kind).collect()
    }

    /// The grants, sorted by kind.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.kinds.iter()
    }

    /// The grant for an object's `apiVersion` and `kind`. A linear search, as there are only a few grants.
    pub(super) fn of(&self, api_version: &str, kind: &str) -> Option<&Grant> {
        self.kinds.iter().find(|grant| grant.kind.is(api_version, kind))
    }
}
