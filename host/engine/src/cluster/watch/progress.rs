//! Detects whether watches make progress. kube's watcher reports events and errors, but not bookmarks and the ends of
//! requests; this module finds them in the responses that the watcher receives.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt, stream};
use http_body_util::{BodyStream, StreamBody};
use hyper::body::{Bytes, Frame};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube::runtime::watcher;
use parking_lot::Mutex;
use tower::service_fn;
use windlass_core::hosts::progress::{Progress, Stall};
use windlass_core::reconcile::outcome::bounded;
use windlass_core::value::ids::Gvk;

use super::{refusal, response_of};
use crate::clock;
use crate::cluster::plain_cause;
use crate::telemetry;

/// Prefix of an event by which the API server reports that the watch failed.
const ERROR_EVENT: &[u8] = br#"{"type":"ERROR""#;

/// The progress of all watches of the host, for metrics and readiness. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct AllProgress(Arc<Mutex<Vec<Weak<WatchProgress>>>>);

/// The progress of one watch.
#[derive(Debug)]
pub struct WatchProgress {
    kind: String,
    progress: Mutex<Progress>,
    /// Whether `stalled` is set; read in each reconcile.
    is_stalled: AtomicBool,
    stalled: Mutex<Option<Stalled>>,
}

/// A watch without progress, as users see it. Its text does not change until the watch makes progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalled {
    /// Time of the last progress.
    pub since: Timestamp,
    /// First error since then; none if the watch is silent.
    pub failure: Option<String>,
    /// Whether the API server answers each request with an error, and would answer another host alike.
    pub is_answer: bool,
}

impl std::fmt::Display for Stalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { since, failure, .. } = self;
        match failure {
            Some(failure) => write!(f, "no progress since {since:.0}: {failure}"),
            None => write!(f, "no progress since {since:.0}: neither an event nor a bookmark came, and no error"),
        }
    }
}

impl AllProgress {
    /// Starts to track the progress of a watch, until the returned reference is dropped.
    pub fn track(&self, kind: &Gvk) -> Arc<WatchProgress> {
        let tracked = Arc::new(WatchProgress {
            kind: kind.to_string(),
            progress: Mutex::new(Progress::new(clock::now())),
            is_stalled: AtomicBool::new(false),
            stalled: Mutex::default(),
        });
        let mut all = self.0.lock();
        all.retain(|watch| watch.strong_count() > 0);
        all.push(Arc::downgrade(&tracked));
        tracked
    }

    fn watches(&self) -> Vec<Arc<WatchProgress>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The kinds whose watches have stalled, sorted.
    pub fn stalled(&self) -> BTreeMap<String, Stalled> {
        let watches = self.watches();
        watches.iter().filter_map(|watch| Some((watch.kind.clone(), watch.stalled()?))).collect()
    }

    /// Returns true if every watch has stalled.
    pub fn have_all_stalled(&self) -> bool {
        self.watches().iter().all(|watch| watch.is_stalled())
    }

    /// Time since the last progress of each kind; the longest one if a kind has several watches.
    pub fn ages(&self, now: Instant) -> BTreeMap<String, Duration> {
        let mut ages = BTreeMap::new();
        for watch in self.watches() {
            let age = watch.progress.lock().age(now);
            let oldest = ages.entry(watch.kind.clone()).or_insert(age);
            *oldest = age.max(*oldest);
        }
        ages
    }

    /// Updates the stall state of all watches.
    pub fn check(&self, now: Instant) {
        for watch in self.watches() {
            watch.check(now);
        }
    }
}

impl WatchProgress {
    /// Why the watch makes no progress, if it has stalled.
    pub fn stalled(&self) -> Option<Stalled> {
        if self.is_stalled() { self.stalled.lock().clone() } else { None }
    }

    /// Whether the watch has stalled.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Updates the stall state of the watch; returns whether it changed.
    pub fn check(&self, now: Instant) -> bool {
        let stall = self.progress.lock().stall(now);
        if stall.is_some() == self.is_stalled() {
            if let (Some(stall), Some(reported)) = (stall, &mut *self.stalled.lock()) {
                reported.is_answer = stall.is_answer;
            }
            return false;
        }
        let kind = &self.kind;
        let stalled =
            stall.map(|Stall { age, failure, is_answer }| Stalled { since: clock::date() - age, failure, is_answer });
        if let Some(stalled) = &stalled {
            tracing::warn!(%kind, %stalled, "watch stalled");
        } else {
            tracing::info!(%kind, "watch makes progress again");
        }
        let mut reported = self.stalled.lock();
        self.is_stalled.store(stalled.is_some(), Ordering::Relaxed);
        *reported = stalled;
        true
    }

    /// Records an error that interrupted the watch.
    pub fn interrupted(&self, error: &watcher::Error) {
        let mut progress = self.progress.lock();
        if refusal(error).is_some() {
            return progress.refused();
        }
        // A webhook chooses the text of its error.
        let (now, message) = (clock::now(), bounded(telemetry::one_line(&plain_cause(error)).into_owned()));
        let is_answer = matches!(error, watcher::Error::WatchError(_)) || response_of(error).is_some();
        if is_answer { progress.answered(now, &message) } else { progress.failed(now, &message) }
    }

    /// Records that a whole list was handled.
    pub fn listed(&self) {
        self.progress.lock().listed(clock::now());
    }

    /// A client for this watch alone: its responses count as progress of the watch.
    pub fn of_client(self: &Arc<Self>, client: Client) -> Client {
        let (progress, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = service_fn(move |request: http::Request<Body>| {
            let (client, progress) = (client.clone(), progress.clone());
            async move {
                let response = client.send(request).await?;
                let is_accepted = response.status().is_success();
                if is_accepted {
                    progress.progress.lock().accepted(clock::now());
                }
                Ok::<_, kube::Error>(response.map(|body| progress.of_body(body, is_accepted)))
            }
        });
        Client::new(service, namespace)
    }

    /// Passes the body through. If the API server accepted the request, each event, bookmark and part of a list, and a
    /// clean end, counts as progress.
    fn of_body(
        self: Arc<Self>,
        body: Body,
        is_accepted: bool,
    ) -> impl hyper::body::Body<Data = Bytes, Error = kube::Error> {
        let state = (BodyStream::new(body), self, is_accepted);
        StreamBody::new(stream::unfold(state, |(mut frames, progress, is_good)| async move {
            let next = frames.next().await;
            let is_good = is_good && next.as_ref().is_none_or(|next| next.as_ref().is_ok_and(is_progress));
            if is_good {
                progress.progress.lock().advanced(clock::now());
            }
            next.map(|next| (next, (frames, progress, is_good)))
        }))
    }

    /// Runs a watch's task, and restarts it when it panics. Returns only when the task ends by itself.
    pub async fn supervise<F: Future<Output = ()>>(&self, run: impl Fn() -> F) {
        telemetry::watch_restarted(&self.kind, 0);
        while AssertUnwindSafe(run()).catch_unwind().await.is_err() {
            let wait = self.progress.lock().panicked(clock::now());
            telemetry::watch_restarted(&self.kind, 1);
            let kind = &self.kind;
            tracing::error!(%kind, wait_seconds = wait.as_secs(), "watch task panicked; it is started again");
            tokio::time::sleep(wait).await;
        }
    }
}

/// Whether a part of a body is progress: each part but an error event. The API server sends each event in a part of its
/// own.
fn is_progress(frame: &Frame<Bytes>) -> bool {
    frame.data_ref().is_some_and(|data| !data.starts_with(ERROR_EVENT))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use kube::api::{ListParams, WatchParams};

    use super::*;

    const BOOKMARK: &str =
        r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}"#;
    const LIST: [&str; 1] = [r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#];
    const FAILED: &str = r#"{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd","reason":"x"}}"#;

    fn watch() -> Arc<WatchProgress> {
        AllProgress::default().track(&Gvk::from_api_version("v1", "Pod"))
    }

    /// Sets the last progress to this long ago.
    fn last_was(progress: &WatchProgress, ago: Duration) {
        *progress.progress.lock() =
            Progress::new(Instant::now().checked_sub(ago).expect("the machine has run for longer"));
    }

    fn advanced(progress: &WatchProgress) -> bool {
        progress.progress.lock().age(Instant::now()) < Duration::from_secs(1)
    }

    /// An API server that responds with this status and these parts of a body, and then is silent or ends the body.
    fn server(status: u16, parts: &'static [&'static str], ends: bool) -> Client {
        let service = service_fn(move |_: http::Request<Body>| async move {
            let parts = stream::iter(parts.iter().map(|part| Ok::<_, kube::Error>(Frame::data(Bytes::from(*part)))));
            let rest = if ends { stream::pending().take(0).left_stream() } else { stream::pending().right_stream() };
            let response = http::Response::builder().status(status).body(StreamBody::new(parts.chain(rest)));
            Ok::<_, kube::Error>(response.expect("a response"))
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn bookmarks_lists_and_clean_ends_are_progress_and_silence_and_errors_are_not() {
        for (parts, ends, is_progress) in [
            (&[BOOKMARK, "\n"][..], false, true),
            (&[][..], true, true),
            (&[][..], false, false),
            (&[FAILED][..], false, false),
            (&[FAILED, "\n"][..], true, false),
        ] {
            let progress = watch();
            last_was(&progress, Duration::from_secs(100));
            let api: Api<Pod> = Api::all(progress.of_client(server(200, parts, ends)));
            let mut events = Box::pin(api.watch(&WatchParams::default(), "1").await.expect("the watch begins"));
            // Reads all available events.
            while let Some(Some(_)) = events.next().now_or_never() {}
            tokio::task::yield_now().await;
            assert_eq!(advanced(&progress), is_progress, "{parts:?}, ends: {ends}");
        }
        for (status, is_progress) in [(200, true), (503, false)] {
            let progress = watch();
            last_was(&progress, Duration::from_secs(100));
            let api: Api<Pod> = Api::all(progress.of_client(server(status, &LIST, true)));
            let listed = api.list(&ListParams::default()).await;
            assert_eq!((listed.is_ok(), advanced(&progress)), (is_progress, is_progress), "{status}");
        }
    }

    #[tokio::test]
    async fn error_of_the_api_server_is_passed_on_unchanged() {
        const REFUSED: [&str; 1] =
            [r#"{"kind":"Status","code":403,"message":"no","reason":"Forbidden","status":"Failure"}"#];
        let api: Api<Pod> = Api::all(watch().of_client(server(403, &REFUSED, true)));
        let error = api.list(&ListParams::default()).await.expect_err("refused");
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 403), "{error:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn watch_task_that_panics_is_restarted() {
        let (progress, runs) = (watch(), AtomicUsize::new(0));
        progress
            .supervise(|| {
                let run = runs.fetch_add(1, Ordering::Relaxed);
                async move { assert!(run >= 3, "a defect of the host") }
            })
            .await;
        assert_eq!(runs.load(Ordering::Relaxed), 4);
        let later = Instant::now() + windlass_core::hosts::progress::FAILING_LIMIT;
        assert!(progress.check(later));
        let stalled = progress.stalled().expect("no list was handled since");
        assert!(stalled.to_string().contains("panicked"), "{stalled}");
    }

    #[test]
    fn message_of_a_failing_watch_is_bounded_and_a_change_of_its_cause_is_noticed() {
        let all = AllProgress::default();
        let watch = all.track(&Gvk::from_api_version("v1", "Pod"));
        let long = "conversion webhook: \n".repeat(100_000);
        let status = kube::core::Status { code: 500, message: long, ..kube::core::Status::default() };
        watch.interrupted(&watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))));
        let later = Instant::now() + windlass_core::hosts::progress::FAILING_LIMIT;
        assert!(watch.check(later));
        let stall = watch.stalled().expect("stalled");
        assert!(stall.is_answer && stall.to_string().len() < 10_000, "{} bytes", stall.to_string().len());
        assert!(all.have_all_stalled());
        watch.interrupted(&watcher::Error::NoResourceVersion);
        assert!(!watch.check(later));
        let after = watch.stalled().expect("stalled");
        assert!(!after.is_answer, "the connection fails");
        assert_eq!(after.to_string(), stall.to_string());
    }

    #[test]
    fn stall_and_recovery_of_a_watch_are_each_reported_once_and_the_message_is_stable() {
        let all = AllProgress::default();
        let (pods, secrets) = (Gvk::from_api_version("v1", "Pod"), Gvk::from_api_version("v1", "Secret"));
        let (stuck, _well) = (all.track(&pods), all.track(&secrets));
        let status = kube::core::Status { code: 503, message: "try later".to_owned(), ..kube::core::Status::default() };
        stuck.interrupted(&watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status))));
        let later = Instant::now() + windlass_core::hosts::progress::FAILING_LIMIT;
        assert!(!stuck.check(Instant::now()) && stuck.check(later) && !stuck.check(later));
        let stall = stuck.stalled().expect("stalled");
        assert!(stall.to_string().contains("try later") && stall.is_answer, "{stall}");
        stuck.check(later + Duration::from_mins(1));
        assert_eq!(stuck.stalled(), Some(stall.clone()));
        assert_eq!(all.stalled(), BTreeMap::from([("Pod.v1".to_owned(), stall)]));
        stuck.listed();
        assert!(stuck.check(Instant::now()) && !stuck.check(Instant::now()));
        assert!(!stuck.is_stalled() && stuck.stalled().is_none() && all.stalled().is_empty());
        drop(stuck);
        assert_eq!(all.ages(Instant::now()).into_keys().collect::<Vec<_>>(), ["Secret.v1"]);
    }
}
