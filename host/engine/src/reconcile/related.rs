//! Related objects: watched while a parent requires them, and served from the caches if the Plugin's ServiceAccount may
//! read them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::core::ApiResource;
use windlass_core::contract::related::{Denied, Need, Needs, ReadProblem, Refusal, Select, watched};
use windlass_core::guard::budget::Cost;
use windlass_core::object::parent::ParentRef;
use windlass_core::reconcile::outcome::{Rejection, WriteProblem};
use windlass_core::reconcile::world::Selected;
use windlass_core::value::ids::{Gvk, ObjectKey};

use super::selection::{Bounds, select};
use crate::clock;
use crate::cluster::access_review::{
    Ask, FINALIZER_VERB, FINALIZERS, PARENT_VERB, Question, ReviewError, ReviewResult, Reviews,
};
use crate::cluster::watch::{Health, Store, Watches};
use crate::live::interests::{Followed, Full, Interests};
use crate::live::registry::Registry;
use crate::live::{CrdOwner, Live};

/// How long a reconcile waits for a related cache to be filled. The time counts from the first requirement of the kind,
/// so that a kind that hangs occupies a worker once.
const FILLED_WITHIN: Duration = Duration::from_secs(10);
/// Largest number of concurrent access reviews for one parent.
const PARALLEL_REVIEWS: usize = 8;

/// Related objects of all plugins.
pub struct Related {
    registry: Registry<Live>,
    watches: Arc<Watches>,
    pub(super) interests: Interests,
    reviews: Reviews,
}

impl Related {
    /// Uses the shared watches, the index of requirements, and `ask` for access reviews.
    pub fn new(registry: Registry<Live>, watches: Arc<Watches>, interests: Interests, ask: Ask) -> Self {
        Self { registry, watches, interests, reviews: Reviews::new(ask) }
    }

    /// The objects that a parent requires. From now on, a change of them queues the parent.
    ///
    /// # Errors
    /// If an object may not or cannot be read; then no object is served.
    pub(super) async fn serve(&self, live: &Live, parent: &ParentRef, needs: &Needs) -> Result<Selected, ReadProblem> {
        if needs.is_empty() {
            return Ok(Selected::default());
        }
        self.review(live, &parent.key, needs).await?;
        // The watches are followed before the objects are read: a change in between is an event.
        let known = self.interests.followed(&live.terms.name, &parent.key, needs);
        let followed = match known.filter(|known| is_of(live, needs, known)) {
            Some(followed) => followed,
            None => self.follow(live, &parent.key, needs)?,
        };
        self.forget_what_is_gone(live, &parent.key);
        for (need, followed) in watched(needs).zip(&followed) {
            filled(need, followed).await?;
        }
        let stores: Vec<&Store> = followed.iter().map(|followed| &*followed.watch.store).collect();
        // The call has at least the other half: a plugin is not blamed for time that it did not have.
        let bounds = Bounds { deadline: live.terms.limits.deadline / 2, bytes: live.terms.limits.request_bytes };
        select(needs, &stores, bounds, clock::now).await
    }

    /// Checks that the Plugin's ServiceAccount may read a parent whose CRD the Plugin did not install: in all
    /// namespaces, or in the parent's own. A component chooses the kind of its parents, and must not thereby choose
    /// what it may read.
    ///
    /// # Errors
    /// If it may not, or the review fails.
    pub(super) async fn review_parent(&self, live: &Live, parent: &ParentRef) -> Result<(), ReadProblem> {
        if live.crd_owner == CrdOwner::Plugin {
            return Ok(());
        }
        let review = self.of_parent(live, parent, PARENT_VERB, None).await;
        let (user, kind) = (live.account.user().to_owned(), Gvk::clone(&live.terms.parents));
        let review =
            review.map_err(|message| ReadProblem::NotReviewed { user: user.clone(), kind: kind.clone(), message })?;
        if review.allowed {
            return Ok(());
        }
        let namespace = parent.key.namespace.clone();
        let denied = Denied { user, verb: PARENT_VERB, kind, namespace, name: None, why: review.why };
        Err(ReadProblem::Denied(Box::new(denied)))
    }

    /// Checks that the plugin's finalizer may be set on a parent whose CRD the Plugin did not install. The host could
    /// set it with its permissions for other Plugins, and would block the deletion of other owners' objects.
    ///
    /// # Errors
    /// If the Plugin's ServiceAccount may not, or the review fails.
    pub(super) async fn review_finalizer(&self, live: &Live, parent: &ParentRef) -> Result<(), WriteProblem> {
        if live.crd_owner == CrdOwner::Plugin {
            return Ok(());
        }
        let review = self.of_parent(live, parent, FINALIZER_VERB, Some(FINALIZERS)).await;
        let (user, kind) = (live.account.user(), &live.terms.parents);
        match review {
            Ok(review) if review.allowed => Ok(()),
            Ok(_) => Err(WriteProblem::Rejected {
                code: 403,
                message: format!(
                    "{user} may not {FINALIZER_VERB} {kind}/{FINALIZERS}, so the host writes neither the plugin's finalizer nor \
                     notes about children that are created once: the kind is not the plugin's own. Grant it with a Role or ClusterRole, as `windlass push --create-rbac` writes it"
                ),
                rejection: Rejection::Other,
            }),
            Err(message) => Err(WriteProblem::Unavailable {
                message: format!(
                    "whether {user} may {FINALIZER_VERB} {kind}/{FINALIZERS} could not be reviewed: {message}"
                ),
                retry_after: None,
            }),
        }
    }

    /// The access review of the ServiceAccount for a parent: in all namespaces, or else in the parent's own.
    async fn of_parent(
        &self,
        live: &Live,
        parent: &ParentRef,
        verb: &'static str,
        subresource: Option<&'static str>,
    ) -> Result<ReviewResult, String> {
        let resource = Arc::new(live.caches.parents.resource.clone());
        let question = Question { subresource, ..Question::new(live.account.clone(), verb, resource) };
        let now = clock::now();
        let anywhere = self.reviews.review(question.clone(), now).await?;
        if anywhere.allowed || parent.key.namespace.is_none() {
            return Ok(anywhere);
        }
        self.reviews.review(Question { namespace: parent.key.namespace.clone(), ..question }, now).await
    }

    fn follow(&self, live: &Live, parent: &ObjectKey, needs: &Needs) -> Result<Vec<Followed>, ReadProblem> {
        let lease = |need: &Need| {
            let resource = resource_of(live, need)?;
            Ok(if need.metadata_only {
                self.watches.lease_metadata(&need.kind, resource)
            } else {
                self.watches.lease(&need.kind, resource, None)
            })
        };
        let leases = watched(needs).map(lease).collect::<Result<Vec<_>, ReadProblem>>()?;
        let followed = self.interests.follow(&live.terms.name, parent, needs, leases, clock::now());
        followed.map_err(|Full(limit)| ReadProblem::Full(limit))
    }

    /// Forgets the requirements again if the plugin or the parent went away while this reconcile ran.
    fn forget_what_is_gone(&self, live: &Live, parent: &ObjectKey) {
        if self.registry.get(&live.terms.name).is_none() {
            self.interests.forget_plugin(&live.terms.name);
        } else if live.caches.parents.store.get(parent).is_none() {
            self.interests.forget(&live.terms.name, parent);
        }
    }

    /// Checks that the Plugin's ServiceAccount may read all required objects.
    async fn review(&self, live: &Live, parent: &ObjectKey, needs: &Needs) -> Result<(), ReadProblem> {
        let now = clock::now();
        let reviews: Vec<_> = watched(needs).map(|need| self.review_one(live, parent, need, now)).collect();
        // Reviewed in the order of the requirements, so that of several problems the same one is reported each time.
        let mut reviewed = futures::stream::iter(reviews).buffered(PARALLEL_REVIEWS);
        while let Some(result) = reviewed.next().await {
            result?;
        }
        Ok(())
    }

    async fn review_one(&self, live: &Live, parent: &ObjectKey, need: &Need, now: Instant) -> Result<(), ReadProblem> {
        let (verb, name) = match &need.select {
            Select::Name(name) => ("get", Some(name.clone())),
            Select::Labels(_) | Select::Nothing => ("list", None),
        };
        let user = || live.account.user().to_owned();
        let question = Question {
            namespace: need.place.namespace().cloned(),
            name: name.clone(),
            ..Question::new(live.account.clone(), verb, resource_of(live, need)?.clone())
        };
        let kind = || Gvk::clone(&need.kind);
        let spend = || live.shared.budget.lock().spend(Cost::Review, 1, parent.namespace.as_ref(), clock::date());
        match self.reviews.find(question, now, spend).await {
            Ok(review) if review.allowed => Ok(()),
            Ok(review) => {
                let namespace = need.place.namespace().cloned();
                let denied = Denied { user: user(), verb, kind: kind(), namespace, name, why: review.why };
                Err(ReadProblem::Denied(Box::new(denied)))
            }
            Err(ReviewError::Limited(wait)) => Err(ReadProblem::Limited(wait)),
            Err(ReviewError::Failed(message)) => Err(ReadProblem::NotReviewed { user: user(), kind: kind(), message }),
        }
    }
}

fn resource_of<'a>(live: &'a Live, need: &Need) -> Result<&'a Arc<ApiResource>, ReadProblem> {
    live.caches.resources.get(&*need.kind).ok_or_else(|| Refusal::of_kind(&need.id, &need.kind).into())
}

/// Whether these watches are of the resources that the Plugin's last reconcile found.
fn is_of(live: &Live, needs: &Needs, watches: &[Followed]) -> bool {
    watched(needs)
        .zip(watches)
        .all(|(need, followed)| resource_of(live, need).is_ok_and(|resource| followed.watch.resource == **resource))
}

async fn filled(need: &Need, followed: &Followed) -> Result<(), ReadProblem> {
    let waited = clock::since(followed.since);
    let kind = || Gvk::clone(&need.kind);
    let synced = followed.watch.synced(FILLED_WITHIN.saturating_sub(waited)).await;
    match (synced, followed.watch.stalled()) {
        (Err(Health::Refused { code, message }), _) => Err(ReadProblem::NotWatched { kind: kind(), code, message }),
        (_, Some(stalled)) => Err(ReadProblem::Stalled { kind: kind(), message: stalled.to_string() }),
        (Err(Health::Starting | Health::Synced), None) => {
            Err(ReadProblem::NotFilled { kind: kind(), waited: waited.max(FILLED_WITHIN) })
        }
        (Ok(()), None) => Ok(()),
    }
}
