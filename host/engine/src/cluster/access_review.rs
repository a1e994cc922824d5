//! Access reviews: finds out from the API server whether a Plugin's ServiceAccount has a permission, and caches the
//! outcome.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::core::ApiResource;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use windlass_core::value::bounded::{LruCache, bounded};

use super::account::{Account, AskOwn};
use super::{in_time, plain};

/// Verbs that a plugin's ServiceAccount needs on child kinds. `get` distinguishes a child that lost its labels from a
/// foreign object of the same name.
pub const CHILD_VERBS: [&str; 4] = ["get", "create", "patch", "delete"];

/// Verbs that a plugin's ServiceAccount needs on the kinds that the plugin may require.
pub const READ_VERBS: [&str; 2] = ["get", "list"];

/// Verb that a plugin's ServiceAccount needs on a parent kind that is not the plugin's own; without it the plugin does
/// not see the parents.
pub const PARENT_VERB: &str = "list";

/// Subresource of parents for the plugin's finalizer and for owner references with `blockOwnerDeletion`.
pub const FINALIZERS: &str = "finalizers";
/// Verb that a plugin's ServiceAccount needs on `finalizers`, to set the plugin's finalizer on parents whose kind is
/// not the plugin's own.
pub const FINALIZER_VERB: &str = "update";

/// Subresource with the status of parents.
pub const STATUS: &str = "status";
/// Verb that a plugin's ServiceAccount needs on `status`, where the parent kind is not the plugin's own.
pub const STATUS_VERB: &str = "patch";

/// How long a granted permission is cached: after this a revoked permission takes effect.
const PERMITTED: Duration = Duration::from_mins(1);
/// How long a denial is cached; short, because a user may wait for a permission that was granted meanwhile.
const DENIED: Duration = Duration::from_secs(5);
/// Largest number of cached outcomes of an account, some 300 bytes each. An evicted one is reviewed again.
const MAX_CACHED: usize = 4096;

/// One permission to review.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// The account that needs the permission.
    pub account: Account,
    /// The verb, as in RBAC: `get`, for example.
    pub verb: &'static str,
    /// The kind of the objects.
    pub resource: Arc<ApiResource>,
    /// The subresource, as in RBAC: `status`, for example; none for the objects themselves.
    pub subresource: Option<&'static str>,
    /// The namespace; none for all namespaces, or if the kind is cluster-scoped.
    pub namespace: Option<Arc<str>>,
    /// The name of the object; none for all objects.
    pub name: Option<Arc<str>>,
}

impl Question {
    /// The permission for all objects of a kind, in all namespaces.
    pub fn new(account: Account, verb: &'static str, resource: Arc<ApiResource>) -> Self {
        Self { account, verb, resource, subresource: None, namespace: None, name: None }
    }
}

/// Outcome of an access review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewResult {
    /// Whether the permission is granted.
    pub allowed: bool,
    /// The reason that the API server gives; may be empty.
    pub why: String,
}

/// Why a review has no outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewError {
    /// The request failed: the API server's message.
    Failed(String),
    /// No tokens are left for a review: the time until there are.
    Limited(Duration),
}

/// Performs an access review. The error is the message of the API server or of the failed request.
pub type Ask = Arc<dyn Fn(Question) -> BoxFuture<'static, Result<ReviewResult, String>> + Send + Sync>;

/// Reviews with a `SubjectAccessReview`.
pub fn by_api_server(client: Client) -> Ask {
    Arc::new(move |question| {
        let api: Api<SubjectAccessReview> = Api::all(client.clone());
        let review = review(&question);
        Box::pin(async move {
            // All callers with the same question wait for this response.
            let reviewed = in_time(api.create(&PostParams::default(), &review)).await.map_err(|error| plain(&error))?;
            let status = reviewed.status.ok_or("the API server's response has no status")?;
            let why = [status.reason, status.evaluation_error].into_iter().flatten().filter(|why| !why.is_empty());
            Ok(ReviewResult { allowed: status.allowed, why: why.collect::<Vec<_>>().join("; ") })
        })
    })
}

/// Asks the API server for the user name of a client.
pub fn own_user(client: Client) -> AskOwn {
    Box::new(move || {
        let api: Api<SelfSubjectReview> = Api::all(client.clone());
        Box::pin(async move {
            let response = in_time(api.create(&PostParams::default(), &SelfSubjectReview::default())).await;
            let review = response.map_err(|error| plain(&error))?;
            let user = review.status.and_then(|status| status.user_info?.username);
            user.ok_or_else(|| "it gives no name".to_owned())
        })
    })
}

fn review(question: &Question) -> SubjectAccessReview {
    let Question { account, verb, resource, subresource, namespace, name } = question;
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(account.user().to_owned()),
            groups: Some(account.groups()),
            resource_attributes: Some(ResourceAttributes {
                group: Some(resource.group.clone()),
                version: Some(resource.version.clone()),
                resource: Some(resource.plural.clone()),
                subresource: subresource.map(str::to_owned),
                namespace: namespace.as_deref().map(str::to_owned),
                name: name.as_deref().map(str::to_owned),
                verb: Some((*verb).to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// Access reviews and their cached outcomes.
pub struct Reviews {
    ask: Ask,
    cached: Mutex<CachedReviews>,
}

/// The cached outcomes by account, so that the questions of one plugin evict no outcomes of another account. They stay in the
/// order of their reviews, because reading does not change it.
#[derive(Default)]
struct CachedReviews(HashMap<Account, LruCache<Question, CachedReview>>);

/// The outcome of a question as soon as it is known.
#[derive(Clone)]
struct CachedReview {
    at: Instant,
    response: Arc<OnceCell<ReviewResult>>,
}

impl Reviews {
    /// An empty cache.
    pub fn new(ask: Ask) -> Self {
        Self { ask, cached: Mutex::default() }
    }

    /// Finds whether an account has a permission, from the cache or by reviews. `spend` takes the tokens for a review.
    ///
    /// For a question about one object, the permission on all objects of the kind in the namespace is reviewed first.
    /// Where the account has that permission, for example by a Role without `resourceNames`, one review serves any
    /// number of names.
    ///
    /// # Errors
    /// If there is no outcome.
    pub async fn find(
        &self,
        mut question: Question,
        now: Instant,
        spend: impl Fn() -> Result<(), Duration>,
    ) -> Result<ReviewResult, ReviewError> {
        let Some(name) = question.name.take() else { return self.ask_within(question, now, &spend).await };
        if let Some(allowed) = self.known(&question, now).filter(|of_all| of_all.allowed) {
            return Ok(allowed);
        }
        let named = Question { name: Some(name), ..question.clone() };
        if let Some(known) = self.known(&named, now) {
            return Ok(known);
        }
        let of_all = self.ask_within(question, now, &spend).await?;
        if of_all.allowed { Ok(of_all) } else { self.ask_within(named, now, &spend).await }
    }

    async fn ask_within(
        &self,
        question: Question,
        now: Instant,
        spend: &impl Fn() -> Result<(), Duration>,
    ) -> Result<ReviewResult, ReviewError> {
        if let Some(known) = self.known(&question, now) {
            return Ok(known);
        }
        // Tokens are spent before the question enters the cache, so that a flood of questions cannot evict outcomes.
        spend().map_err(ReviewError::Limited)?;
        self.review(question, now).await.map_err(ReviewError::Failed)
    }

    fn known(&self, question: &Question, now: Instant) -> Option<ReviewResult> {
        let cached = self.cached.lock();
        cached.valid(question, now)?.get().cloned()
    }

    /// The outcome for a question. Of several concurrent callers with the same question, one sends the review, and all
    /// get its outcome.
    ///
    /// # Errors
    /// Why the API server gave no outcome. Errors are not cached.
    pub async fn review(&self, question: Question, now: Instant) -> Result<ReviewResult, String> {
        let response = self.cached.lock().of(&question, now);
        response.get_or_try_init(|| (self.ask)(question)).await.cloned()
    }
}

impl CachedReviews {
    /// The cell for the outcome of a question: the cached one, or a new one.
    fn of(&mut self, question: &Question, now: Instant) -> Arc<OnceCell<ReviewResult>> {
        if let Some(cell) = self.valid(question, now) {
            return cell.clone();
        }
        self.0.retain(|_, reviews| {
            while reviews.peek_lru().is_some_and(|(_, oldest)| oldest.age(now) >= PERMITTED) {
                reviews.pop_lru();
            }
            !reviews.is_empty()
        });
        let review = CachedReview { at: now, response: Arc::default() };
        let reviews = self.0.entry(question.account.clone()).or_insert_with(|| bounded(MAX_CACHED));
        reviews.put(question.clone(), review.clone());
        review.response
    }

    /// The cached cell, unless it has expired.
    fn valid(&self, question: &Question, now: Instant) -> Option<&Arc<OnceCell<ReviewResult>>> {
        let review = self.0.get(&question.account)?.peek(question)?;
        let is_denied = review.response.get().is_some_and(|review| !review.allowed);
        (review.age(now) < if is_denied { DENIED } else { PERMITTED }).then_some(&review.response)
    }
}

impl CachedReview {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::core::GroupVersionKind;

    use super::*;

    fn account(name: &str) -> Account {
        Account::new("windlass-system", name).expect("a name")
    }

    fn question(name: &str) -> Question {
        let secret = GroupVersionKind::gvk("", "v1", "Secret");
        Question {
            account: account("reader"),
            verb: "get",
            resource: Arc::new(ApiResource::from_gvk_with_plural(&secret, "secrets")),
            subresource: None,
            namespace: Some("shop".into()),
            name: Some(name.into()),
        }
    }

    /// Allows `db` only, fails for `broken`, and counts the reviews.
    fn counting() -> (Reviews, Arc<AtomicUsize>) {
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        let ask: Ask = Arc::new(move |question| {
            counter.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                // Lets other tasks run while this one waits for the API server.
                tokio::task::yield_now().await;
                match question.name.as_deref() {
                    Some("broken") => Err("timeout".to_owned()),
                    name => Ok(ReviewResult { allowed: name == Some("db"), why: String::new() }),
                }
            })
        });
        (Reviews::new(ask), requests)
    }

    #[tokio::test]
    async fn permission_is_cached_for_a_minute_and_a_denial_for_seconds() {
        let (reviews, requests) = counting();
        let start = Instant::now();
        for (name, allowed, lifetime) in [("db", true, PERMITTED), ("mq", false, DENIED)] {
            requests.store(0, Ordering::SeqCst);
            let second = Duration::from_secs(1);
            for (after, times) in [
                (Duration::ZERO, 1),
                (second, 1),
                (lifetime.saturating_sub(second), 1),
                (lifetime, 2),
                (lifetime + second, 2),
            ] {
                let review = reviews.review(question(name), start + after).await;
                assert_eq!(review.map(|review| review.allowed), Ok(allowed));
                assert_eq!(requests.load(Ordering::SeqCst), times, "{name} after {after:?}");
            }
        }
    }

    #[tokio::test]
    async fn concurrent_equal_reviews_send_one_request_and_different_ones_one_each() {
        let (reviews, requests) = counting();
        let now = Instant::now();
        let found = futures::future::join_all((0..16).map(|_| reviews.review(question("db"), now))).await;
        assert!(found.iter().all(|review| review.as_ref().is_ok_and(|review| review.allowed)));
        assert_eq!(requests.load(Ordering::SeqCst), 1);
        let others = [
            Question { verb: "list", ..question("db") },
            Question { subresource: Some("status"), ..question("db") },
            Question { namespace: Some("other".into()), ..question("db") },
            Question { account: account("other"), ..question("db") },
            question("mq"),
        ];
        for other in others {
            reviews.review(other, now).await.expect("a response");
        }
        assert_eq!(requests.load(Ordering::SeqCst), 6);
    }

    #[tokio::test]
    async fn account_that_may_read_a_whole_kind_needs_one_review_for_all_names() {
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        let reviews = Reviews::new(Arc::new(move |question| {
            counter.fetch_add(1, Ordering::SeqCst);
            let allowed = question.namespace.as_deref() == Some("shop") || question.name.as_deref() == Some("db");
            Box::pin(async move { Ok(ReviewResult { allowed, why: String::new() }) })
        }));
        let now = Instant::now();
        let of = |namespace: &str, name: &str| Question { namespace: Some(namespace.into()), ..question(name) };
        for at in 0..1000 {
            let found = reviews.find(of("shop", &at.to_string()), now, || Ok(())).await;
            assert!(found.is_ok_and(|review| review.allowed));
        }
        assert_eq!(requests.load(Ordering::SeqCst), 1);
        // If the account may read only some objects, each is reviewed, and the denial for all objects is cached.
        for (name, allowed, times) in [("db", true, 3), ("db", true, 3), ("mq", false, 4), ("mq", false, 4)] {
            let found = reviews.find(of("web", name), now, || Ok(())).await;
            assert_eq!(
                (found.map(|review| review.allowed), requests.load(Ordering::SeqCst)),
                (Ok(allowed), times),
                "{name}"
            );
        }
        let later = now + DENIED;
        assert!(reviews.find(of("web", "db"), later, || Ok(())).await.is_ok_and(|review| review.allowed));
        assert_eq!(requests.load(Ordering::SeqCst), 4, "a granted permission is cached for a minute");
    }

    #[tokio::test]
    async fn reviews_stop_when_no_tokens_are_left_and_cached_outcomes_need_none() {
        let (reviews, requests) = counting();
        let (now, tokens) = (Instant::now(), std::cell::Cell::new(2));
        let spend = || {
            if tokens.get() == 0 {
                return Err(Duration::from_secs(7));
            }
            tokens.set(tokens.get() - 1);
            Ok(())
        };
        assert!(reviews.find(question("db"), now, spend).await.is_ok_and(|review| review.allowed));
        assert_eq!(
            (tokens.get(), requests.load(Ordering::SeqCst)),
            (0, 2),
            "one review of all objects, and one of this object"
        );
        let in_cache = || reviews.cached.lock().0[&account("reader")].len();
        let cached = in_cache();
        let limited = reviews.find(question("fresh"), now, spend).await;
        assert_eq!(limited, Err(ReviewError::Limited(Duration::from_secs(7))));
        assert!(reviews.find(question("db"), now, spend).await.is_ok());
        assert_eq!((requests.load(Ordering::SeqCst), in_cache()), (2, cached));
    }

    #[tokio::test]
    async fn failed_review_is_not_cached() {
        let (reviews, requests) = counting();
        let now = Instant::now();
        for times in 1..3 {
            assert_eq!(reviews.review(question("broken"), now).await, Err("timeout".to_owned()));
            assert_eq!(requests.load(Ordering::SeqCst), times);
        }
    }

    #[test]
    fn cached_outcomes_are_evicted_when_they_expire_or_an_account_has_too_many() {
        let mut cached = CachedReviews::default();
        let start = Instant::now();
        let of_other = Question { account: account("other"), ..question("db") };
        cached.of(&of_other, start);
        for at in 0..MAX_CACHED * 2 {
            cached.of(&question(&at.to_string()), start);
        }
        let is_cached = |cached: &CachedReviews, question: &Question| {
            cached.0.get(&question.account).is_some_and(|reviews| reviews.contains(question))
        };
        let len = |cached: &CachedReviews| cached.0.get(&account("reader")).map(LruCache::len);
        assert_eq!(len(&cached), Some(MAX_CACHED));
        let (oldest, newest) = (question(&MAX_CACHED.to_string()), question(&(MAX_CACHED * 2 - 1).to_string()));
        cached.of(&oldest, start);
        assert!(is_cached(&cached, &oldest), "a cached review evicts nothing");
        assert!(is_cached(&cached, &newest), "the oldest outcomes are evicted first");
        assert!(is_cached(&cached, &of_other), "an account evicts no outcomes of another one");
        cached.of(&question("db"), start + PERMITTED);
        assert_eq!(len(&cached), Some(1));
        assert!(!cached.0.contains_key(&account("other")), "an account without outcomes is forgotten");
    }

    #[test]
    fn review_names_the_service_account_and_its_groups() {
        let json = |question| serde_json::to_value(review(&question)).expect("JSON");
        let of_status = json(Question { subresource: Some("status"), ..question("db") });
        assert_eq!(of_status["spec"]["resourceAttributes"]["subresource"], "status");
        let review = json(question("db"));
        assert_eq!(
            review["spec"],
            serde_json::json!({
                "user": "system:serviceaccount:windlass-system:reader",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:windlass-system", "system:authenticated"],
                "resourceAttributes": {"group": "", "version": "v1", "resource": "secrets", "namespace": "shop",
                    "name": "db", "verb": "get"},
            })
        );
    }
}
