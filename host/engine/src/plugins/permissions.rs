//! Reviews the permissions of a Plugin's ServiceAccount: on the plugin's children, on the kinds that it may require,
//! and on parents whose kind is not its own. Runs at every reconcile of the Plugin; the condition `Granted` reports
//! missing permissions.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use kube::core::ApiResource;
use windlass_core::contract::desired::Grant;
use windlass_core::object::reason::PluginReason;
use windlass_core::reconcile::terms::StatusWriter;
use windlass_core::value::ids::Gvk;

use super::crd::ParentKind;
use super::grants::Granted;
use super::problem::{Problem, Step};
use crate::cluster::access_review::{
    Ask, CHILD_VERBS, FINALIZER_VERB, FINALIZERS, PARENT_VERB, Question, READ_VERBS, STATUS, STATUS_VERB,
};
use crate::cluster::account::Account;
use crate::live::{CrdOwner, Live};

/// Number of namespaces that are reviewed at once, and that a message names, if a permission is not granted
/// cluster-wide.
const NAMESPACES: usize = 16;
/// Largest number of namespaces that are reviewed while none has the permission, to find out if any parent can be
/// served.
const MOST_NAMESPACES: usize = 256;
/// Number of kinds that are reviewed at once.
const PARALLEL: usize = 8;

/// Verbs on children without which a component does not go live. A missing permission to delete may be intended.
const VITAL_CHILD_VERBS: [&str; 2] = ["create", "patch"];

/// The permissions that a ServiceAccount lacks.
#[derive(Debug, Clone)]
pub(super) struct Lacking {
    user: String,
    of: Vec<Missing>,
}

/// A kind, and the verbs that are denied on it.
#[derive(Debug, Clone)]
struct Missing {
    kind: Kind,
    verbs: Vec<&'static str>,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    /// Not granted cluster-wide, and the kind is cluster-scoped, or there is no parent whose namespace could be reviewed.
    ClusterWide,
    /// Denied in every namespace with parents.
    Everywhere,
    /// Denied in some namespaces with parents.
    In(Vec<Arc<str>>),
}

impl Missing {
    /// Whether the missing verbs prevent every write of a child of the kind, or every read of a parent.
    fn is_vital(&self) -> bool {
        let is_missing = match self.place {
            Place::Everywhere => true,
            Place::ClusterWide => self.kind.is_doubted || !self.kind.namespaced,
            Place::In(_) => false,
        };
        is_missing && self.verbs.iter().any(|verb| self.kind.vital.contains(verb))
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verbs.join(", "), self.kind.gvk)?;
        if let Some(subresource) = self.kind.subresource {
            write!(f, "/{subresource}")?;
        }
        match &self.place {
            Place::ClusterWide => write!(f, " cluster-wide"),
            Place::Everywhere => write!(f, " in any namespace of its parents"),
            Place::In(namespaces) => write!(f, " in {}", namespaces.join(", ")),
        }
    }
}

impl std::fmt::Display for Lacking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list: Vec<_> = self.of.iter().map(ToString::to_string).collect();
        write!(
            f,
            "{} may not {}. Grant it with a Role or ClusterRole, as `windlass push --create-rbac` writes it",
            self.user,
            list.join("; ")
        )?;
        if self.of.iter().any(|missing| missing.kind.subresource == Some(STATUS)) {
            f.write_str(
                ". Without permission to patch their status, which `windlass push` does not grant where another owner installed the \
                 CustomResourceDefinition, the status of parents is not written",
            )?;
        }
        Ok(())
    }
}

impl Lacking {
    /// The missing permissions that prevent all work on some kind, as a problem.
    pub(super) fn vital(&self) -> Option<Problem> {
        let of: Vec<_> = self.of.iter().filter(|missing| missing.is_vital()).cloned().collect();
        let vital = Self { user: self.user.clone(), of };
        (!vital.of.is_empty()).then(|| Problem::new(Step::Granted, PluginReason::Forbidden, vital.to_string()))
    }
}

/// Reviews the permissions on every kind that the plugin may own or read, and on its parents if their kind is not its
/// own. Returns the missing permissions, if any.
///
/// # Errors
/// If the API server does not respond.
pub(super) async fn review(ask: &Ask, live: &Live) -> Result<Option<Lacking>, Problem> {
    let review = Review { ask, account: &live.account, parent_namespaces: &|| live.caches.parent_namespaces() };
    let kinds = live.terms.grants.iter().filter_map(|grant| {
        let resource = Arc::new(live.caches.child_watch(&grant.kind)?.resource.clone());
        Some(Kind::of_children(grant, resource))
    });
    // A missing read permission is reported on the parents that require the object; other parents may not need it.
    let reads = live.terms.reads.iter().filter_map(|grant| {
        let resource = live.caches.resources.get(&*grant.kind)?.clone();
        let beside = grant.namespaces.iter().flatten().cloned().collect();
        Some(Kind { verbs: &READ_VERBS, beside, ..Kind::new(grant.kind.clone(), resource, grant.namespaced) })
    });
    let namespaced = live.caches.unselected.namespaced;
    let parent_kind =
        || Kind::new(live.terms.parents.clone(), Arc::new(live.caches.parents.resource.clone()), namespaced);
    let parents = (live.crd_owner == CrdOwner::Others).then(|| {
        // A component that carries the CRD of another owner must have this permission before it gets any parents.
        Kind { verbs: &[PARENT_VERB], vital: &[PARENT_VERB], is_doubted: live.terms.owns_kind, ..parent_kind() }
    });
    let status = matches!(live.terms.status_writer, StatusWriter::Account | StatusWriter::Denied)
        .then(|| Kind::of_status(live.terms.parents.clone(), &live.caches.parents.resource, namespaced));
    let finalizers = (live.crd_owner == CrdOwner::Others && live.terms.sets_finalizer()).then(|| Kind {
        verbs: &[FINALIZER_VERB],
        vital: &[FINALIZER_VERB],
        subresource: Some(FINALIZERS),
        is_doubted: live.terms.owns_kind,
        ..parent_kind()
    });
    let all = parents.into_iter().chain(finalizers).chain(status).chain(kinds).chain(reads);
    review.all(all.collect()).await
}

/// Whether the ServiceAccount may patch the status of parents whose kind is not the plugin's own: in all namespaces, or
/// in some namespaces with parents. In other namespaces the API server rejects the write.
///
/// # Errors
/// If the API server does not respond.
pub(super) async fn may_write_status(
    ask: &Ask,
    account: &Account,
    parent_namespaces: &(dyn Fn() -> BTreeSet<Arc<str>> + Sync),
    parent: &ParentKind,
) -> Result<bool, Problem> {
    let status = Kind::of_status(parent.kind.clone(), &parent.resource, parent.namespaced);
    let lacking = Review { ask, account, parent_namespaces }.all(vec![status]).await?;
    let is_partial = |lacking: Lacking| lacking.of.iter().all(|missing| matches!(missing.place, Place::In(_)));
    Ok(lacking.is_none_or(is_partial))
}

/// Reviews the permissions on the children of a component that is not prepared yet.
///
/// # Errors
/// If the API server does not respond.
pub(super) async fn review_children(
    ask: &Ask,
    account: &Account,
    parent_namespaces: &(dyn Fn() -> BTreeSet<Arc<str>> + Sync),
    granted: &Granted,
) -> Result<Option<Lacking>, Problem> {
    let resource = |kind: &Arc<Gvk>| granted.resources.iter().find(|(named, _)| named == kind);
    let kinds = granted.grants.iter().filter_map(|grant| {
        let (_, resource) = resource(&grant.kind)?;
        Some(Kind::of_children(grant, Arc::new(resource.clone())))
    });
    Review { ask, account, parent_namespaces }.all(kinds.collect()).await
}

/// A review of one account's permissions.
struct Review<'a> {
    ask: &'a Ask,
    account: &'a Account,
    /// The namespaces with parents.
    parent_namespaces: &'a (dyn Fn() -> BTreeSet<Arc<str>> + Sync),
}

/// A kind, and the verbs that are needed on it.
#[derive(Debug, Clone)]
struct Kind {
    gvk: Arc<Gvk>,
    resource: Arc<ApiResource>,
    subresource: Option<&'static str>,
    namespaced: bool,
    verbs: &'static [&'static str],
    /// Verbs without which no parent can be served.
    vital: &'static [&'static str],
    /// Whether a permission that is not granted cluster-wide counts as denied everywhere if no parent shows a namespace
    /// to review.
    is_doubted: bool,
    /// Namespaces, other than those with parents, in which the verbs are needed.
    beside: Vec<Arc<str>>,
}

impl Kind {
    /// A granted child kind, with the verbs that children need.
    fn of_children(grant: &Grant, resource: Arc<ApiResource>) -> Self {
        let kind = Self::new(grant.kind.clone(), resource, grant.namespaced);
        Self { verbs: &CHILD_VERBS, vital: &VITAL_CHILD_VERBS, ..kind }
    }

    /// The parent kind, with the verb that its status needs.
    fn of_status(gvk: Arc<Gvk>, resource: &ApiResource, namespaced: bool) -> Self {
        let kind = Self::new(gvk, Arc::new(resource.clone()), namespaced);
        Self { verbs: &[STATUS_VERB], subresource: Some(STATUS), ..kind }
    }

    /// A kind without any verb.
    fn new(gvk: Arc<Gvk>, resource: Arc<ApiResource>, namespaced: bool) -> Self {
        Self { gvk, resource, subresource: None, namespaced, verbs: &[], vital: &[], is_doubted: false, beside: vec![] }
    }
}

impl Review<'_> {
    /// Reviews all kinds.
    async fn all(&self, kinds: Vec<Kind>) -> Result<Option<Lacking>, Problem> {
        let reviews: Vec<_> = kinds.into_iter().map(|kind| self.kind(kind)).collect();
        let asked: Result<Vec<_>, _> = stream::iter(reviews).buffered(PARALLEL).try_collect().await;
        let user = self.account.user();
        let asked = asked.map_err(|message| {
            let message = format!("the permissions of {user} could not be reviewed: {message}");
            Problem::new(Step::Granted, PluginReason::ApiError, message)
        });
        let of: Vec<_> = asked?.into_iter().flatten().collect();
        Ok((!of.is_empty()).then(|| Lacking { user: user.to_owned(), of }))
    }

    async fn kind(&self, kind: Kind) -> Result<Option<Missing>, String> {
        let anywhere = self.denied(&kind, None).await?;
        if anywhere.is_empty() {
            return Ok(None);
        }
        // Sorted: every reconcile reviews the same namespaces, so that the message does not change by itself.
        let mut all = if kind.namespaced { (self.parent_namespaces)() } else { BTreeSet::new() };
        all.extend(kind.beside.iter().cloned());
        let all: Vec<_> = all.into_iter().collect();
        let mut by_namespace = Vec::new();
        // Verbs that are denied in each reviewed namespace. If there are more namespaces, one of them may allow a verb.
        let mut everywhere = anywhere.clone();
        for namespaces in all.chunks(NAMESPACES).take(MOST_NAMESPACES / NAMESPACES) {
            let denied =
                try_join_all(namespaces.iter().map(|namespace| self.denied(&kind, Some(namespace.clone())))).await?;
            everywhere.retain(|verb| denied.iter().all(|verbs| verbs.contains(verb)));
            by_namespace.extend(namespaces.iter().cloned().zip(denied));
            if everywhere.is_empty() || !kind.beside.is_empty() {
                break;
            }
        }
        let (verbs, place) = if by_namespace.is_empty() {
            (anywhere, Place::ClusterWide)
        } else if by_namespace.len() == all.len() && kind.beside.is_empty() && !everywhere.is_empty() {
            (everywhere, Place::Everywhere)
        } else {
            let lacking = by_namespace.into_iter().filter(|(_, verbs)| !verbs.is_empty());
            let (namespaces, denied): (Vec<_>, Vec<_>) = lacking.take(NAMESPACES).unzip();
            let is_denied = |verb: &&str| denied.iter().any(|verbs| verbs.contains(verb));
            (anywhere.into_iter().filter(is_denied).collect(), Place::In(namespaces))
        };
        Ok((!verbs.is_empty()).then_some(Missing { kind, verbs, place }))
    }

    /// The verbs that are denied in a namespace; without a namespace, cluster-wide.
    async fn denied(&self, kind: &Kind, namespace: Option<Arc<str>>) -> Result<Vec<&'static str>, String> {
        let questions = kind.verbs.iter().map(|&verb| Question {
            subresource: kind.subresource,
            namespace: namespace.clone(),
            ..Question::new(self.account.clone(), verb, kind.resource.clone())
        });
        let reviews = try_join_all(questions.map(|question| (self.ask)(question))).await?;
        let denied = kind.verbs.iter().zip(reviews).filter(|(_, review)| !review.allowed);
        Ok(denied.map(|(verb, _)| *verb).collect())
    }
}

#[cfg(test)]
mod tests {
    use kube::core::GroupVersionKind;

    use super::*;
    use crate::cluster::access_review::ReviewResult;

    fn pods() -> Kind {
        let gvk = GroupVersionKind::gvk("", "v1", "Pod");
        let resource = Arc::new(ApiResource::from_gvk_with_plural(&gvk, "pods"));
        Kind::new(Arc::new(Gvk::from_api_version("v1", "Pod")), resource, true)
    }

    /// The message for a plugin that owns Pods and has parents in these namespaces. `allowed` gives the permissions by
    /// verb and namespace, `*` for all namespaces.
    async fn missing(namespaces: &[&str], allowed: fn(&str, &str) -> bool) -> Option<(String, bool)> {
        missing_of(Kind { verbs: &CHILD_VERBS, vital: &VITAL_CHILD_VERBS, ..pods() }, namespaces, allowed).await
    }

    /// The message for a plugin that reads this kind.
    async fn missing_reads(kind: Kind, namespaces: &[&str], allowed: fn(&str, &str) -> bool) -> Option<(String, bool)> {
        missing_of(Kind { verbs: &READ_VERBS, ..kind }, namespaces, allowed).await
    }

    async fn missing_of(kind: Kind, namespaces: &[&str], allowed: fn(&str, &str) -> bool) -> Option<(String, bool)> {
        let ask: Ask = Arc::new(move |question| {
            let allowed = allowed(question.verb, question.namespace.as_deref().unwrap_or("*"));
            Box::pin(async move { Ok(ReviewResult { allowed, why: String::new() }) })
        });
        let account = Account::new("windlass-system", "echo").expect("a name");
        let namespaces: BTreeSet<Arc<str>> = namespaces.iter().map(|namespace| Arc::from(*namespace)).collect();
        let review = Review { ask: &ask, account: &account, parent_namespaces: &|| namespaces.clone() };
        let found = review.kind(kind).await.expect("an outcome")?;
        Some((found.to_string(), found.is_vital()))
    }

    #[tokio::test]
    async fn permissions_in_all_namespaces_or_in_those_of_the_parents_are_enough() {
        assert_eq!(missing(&["shop"], |_, _| true).await, None);
        assert_eq!(missing(&["shop", "web"], |_, place| place != "*").await, None);
    }

    #[tokio::test]
    async fn missing_write_permission_for_all_parents_is_vital_and_missing_delete_is_not() {
        let all = "get, create, patch, delete Pod.v1 in any namespace of its parents";
        assert_eq!(missing(&["shop", "web"], |_, _| false).await, Some((all.to_owned(), true)));
        let never_deleted = missing(&["shop"], |verb, _| verb != "delete").await;
        assert_eq!(never_deleted, Some(("delete Pod.v1 in any namespace of its parents".to_owned(), false)));
    }

    #[tokio::test]
    async fn namespace_without_permissions_is_named_and_blocks_no_other() {
        let of_web = "get, create, patch, delete Pod.v1 in web".to_owned();
        assert_eq!(missing(&["shop", "web"], |_, place| place == "shop").await, Some((of_web, false)));
    }

    #[tokio::test]
    async fn different_permissions_missing_in_different_namespaces_are_all_named() {
        let either = |verb: &str, place: &str| match place {
            "shop" => verb != "delete",
            "web" => verb != "create",
            _ => false,
        };
        let message = "create, delete Pod.v1 in shop, web".to_owned();
        assert_eq!(missing(&["shop", "web"], either).await, Some((message, false)));
    }

    #[tokio::test]
    async fn permission_missing_in_many_namespaces_is_vital_unless_one_of_them_has_it() {
        const MANY: [&str; 17] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"];
        let (_, vital) = missing(&MANY, |_, place| place == "q").await.expect("a permission is missing");
        assert!(!vital, "parents in the last one can be served");
        let (message, vital) = missing(&MANY, |_, _| false).await.expect("every permission is missing");
        assert!(vital, "{message}");
    }

    #[tokio::test]
    async fn permission_is_not_reported_missing_in_any_namespace_if_only_some_were_reviewed() {
        let namespaces: Vec<_> = (0..=MOST_NAMESPACES).map(|number| format!("team-{number:04}")).collect();
        let namespaces: Vec<_> = namespaces.iter().map(String::as_str).collect();
        let (message, vital) =
            missing(&namespaces, |_, place| place == "team-0256").await.expect("a permission is missing");
        assert!(!vital && !message.contains("any namespace"), "{message}");
    }

    #[tokio::test]
    async fn without_parents_missing_permissions_are_reported_cluster_wide_and_not_vital() {
        let of_all = "get, create, patch, delete Pod.v1 cluster-wide".to_owned();
        assert_eq!(missing(&[], |_, _| false).await, Some((of_all, false)));
    }

    #[tokio::test]
    async fn unknown_permission_for_parents_of_another_owners_crd_counts_as_missing() {
        let parents = |is_doubted| Kind { verbs: &[PARENT_VERB], vital: &[PARENT_VERB], is_doubted, ..pods() };
        let message = "list Pod.v1 cluster-wide".to_owned();
        assert_eq!(missing_of(parents(true), &[], |_, _| false).await, Some((message.clone(), true)));
        assert_eq!(missing_of(parents(false), &[], |_, _| false).await, Some((message, false)));
        assert_eq!(missing_of(parents(true), &[], |_, _| true).await, None);
    }

    #[tokio::test]
    async fn missing_read_permission_is_named_with_its_namespaces_and_does_not_block_activation() {
        let everywhere = "get, list Pod.v1 in any namespace of its parents".to_owned();
        assert_eq!(missing_reads(pods(), &["shop", "web"], |_, _| false).await, Some((everywhere, false)));
        let of_web = |verb: &str, place: &str| place == "shop" || place == "web" && verb == "list";
        assert_eq!(
            missing_reads(pods(), &["shop", "web"], of_web).await,
            Some(("get Pod.v1 in web".to_owned(), false))
        );
        let of_cluster = Kind { namespaced: false, ..pods() };
        let message = "get, list Pod.v1 cluster-wide".to_owned();
        assert_eq!(missing_reads(of_cluster, &["shop"], |_, _| false).await, Some((message, false)));
    }

    #[tokio::test]
    async fn reads_in_other_namespaces_need_permissions_there() {
        let beside = || Kind { beside: vec!["shared".into()], ..pods() };
        assert_eq!(missing_reads(beside(), &["shop"], |_, place| place != "*").await, None);
        let at_home = missing_reads(beside(), &["shop"], |_, place| place == "shop").await;
        assert_eq!(at_home, Some(("get, list Pod.v1 in shared".to_owned(), false)));
        let nowhere = missing_reads(beside(), &["shop"], |_, _| false).await;
        assert_eq!(nowhere, Some(("get, list Pod.v1 in shared, shop".to_owned(), false)));
    }

    #[tokio::test]
    async fn missing_write_permission_for_a_cluster_scoped_kind_is_vital() {
        let kind = Kind { namespaced: false, verbs: &CHILD_VERBS, vital: &VITAL_CHILD_VERBS, ..pods() };
        let all = "get, create, patch, delete Pod.v1 cluster-wide".to_owned();
        assert_eq!(missing_of(kind, &["shop"], |_, _| false).await, Some((all, true)));
    }
}
