//! The list and watch of the host: settings of every watch, and the error handling that kube's watcher leaves to
//! callers.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::{WatchProgress, response_of};

/// Seconds after which the API server ends a watch and the watcher resumes it, chosen at random from this range.
///
/// A connection that went silent (because a node or a load balancer dropped it) is not detected otherwise: the client
/// sets no TCP keepalive, and kube's watcher considers a watch dead only five seconds after its timeout, which is 295 s
/// by default. Two minutes of outdated state are acceptable to users. A shorter time would cost a request per kind
/// every few seconds in the steady state. The time is random, because watches that began together would otherwise end
/// together forever.
const LASTS: std::ops::Range<u32> = 90..120;

/// Backoff after errors: a quarter of kube's own. kube's longest backoff is 30 s, plus as much jitter: for so long a
/// cache would lag behind an API server that has recovered.
#[derive(Default)]
struct Waits(DefaultBackoff);

impl Iterator for Waits {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|wait| wait / 4)
    }
}

impl Backoff for Waits {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// Settings of a watch with this label selector.
///
/// The watch starts with a list. `streaming_lists` would save the API server the list, but starts at resourceVersion 0,
/// which means any version that the API server instance has. After a reconnect to an instance that lags, the cache
/// would go back in time, to a state from before the host's own writes (rule R3). A list without a version is
/// consistent, and since Kubernetes 1.31 it is served from the API server's cache all the same (KEP-2340).
pub fn settings(labels: Option<String>) -> watcher::Config {
    watcher::Config { label_selector: labels, timeout: Some(fastrand::u32(LASTS)), ..watcher::Config::default() }
}

/// Events of the objects that this label selector matches; all watches of the host use this function. It records the
/// progress of the watch. A list counts as handled when the next event is requested.
pub fn events<K>(
    api: Api<K>,
    labels: Option<String>,
    progress: Arc<WatchProgress>,
) -> impl Stream<Item = watcher::Result<Event<K>>>
where
    K: Clone + Debug + DeserializeOwned + Resource + Send + 'static,
{
    let start = move || watcher::watcher(api.clone(), settings(labels.clone()));
    let stalled = progress.clone();
    let events = Box::pin(lasting(start, move || stalled.is_stalled()));
    stream::unfold((events, progress, false), |(mut events, progress, is_listed)| async move {
        if is_listed {
            progress.listed();
        }
        let event = events.next().await?;
        if let Err(error) = &event {
            progress.interrupted(error);
        }
        let is_listed = matches!(event, Ok(Event::InitDone));
        Some((event, (events, progress, is_listed)))
    })
}

/// Events of a watch that is restarted when its version is outdated, and that waits after errors. The stream ends only
/// when the watcher does.
///
/// kube's watcher lists again after "410 Gone" in a watch, but not after HTTP status 410 of the request: it would
/// request the same outdated version forever. A watch that fails while it `has_stalled` also lists again: an accepted
/// watch shows nothing before its first bookmark, a minute later, while a list shows the current state at once.
fn lasting<K, S>(start: impl Fn() -> S, has_stalled: impl Fn() -> bool) -> impl Stream<Item = watcher::Result<Event<K>>>
where
    S: Stream<Item = watcher::Result<Event<K>>>,
{
    let events = stream::unfold((start, has_stalled, None), |(start, has_stalled, running)| async move {
        let mut events = running.unwrap_or_else(|| Box::pin(start()));
        let event = events.next().await?;
        let is_outdated = |error| response_of(error).is_some_and(|response| response.code == 410);
        let lists_again = event.as_ref().is_err_and(|error| is_outdated(error) || is_of_watch(error) && has_stalled());
        Some((event, (start, has_stalled, (!lists_again).then_some(events))))
    });
    events.backoff(Waits::default())
}

/// Whether the error is of a watch, and not of a list, which continues where it failed.
fn is_of_watch(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::WatchStartFailed(_) | watcher::Error::WatchFailed(_) | watcher::Error::WatchError(_)
    )
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn failed(code: u16) -> watcher::Result<Event<u32>> {
        let status = kube::core::Status { code, ..kube::core::Status::default() };
        Err(watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status))))
    }

    #[tokio::test(start_paused = true)]
    async fn failing_watch_is_retried_within_seconds_however_long_it_fails() {
        let began = tokio::time::Instant::now();
        let errors = StreamExt::take(lasting(|| stream::iter((0..40).map(|_| failed(503))), || false), 40);
        let times: Vec<_> = errors.map(|_| began.elapsed()).collect().await;
        let waits: Vec<_> =
            times.iter().zip(times.iter().skip(1)).map(|(before, after)| after.saturating_sub(*before)).collect();
        // The wait includes the jitter that keeps watches from returning together.
        assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(15)), "{waits:?}");
        assert!(waits.iter().rev().take(10).all(|wait| *wait >= Duration::from_secs(5)), "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn watch_with_an_expired_resource_version_begins_with_a_new_list() {
        let started = Cell::new(0);
        let events = lasting(
            || {
                started.set(started.get() + 1);
                let first = started.get() == 1;
                // If polled again after the 410, the first stream only repeats it.
                let events = if first { vec![failed(500), failed(410), failed(410)] } else { vec![Ok(Event::Init)] };
                stream::iter(events)
            },
            || false,
        );
        let seen: Vec<_> = events.map(|event| event.is_ok()).collect().await;
        assert_eq!(seen, [false, false, true]);
        assert_eq!(started.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_fails_after_it_has_stalled_begins_with_a_new_list() {
        let (started, stalled) = (Cell::new(0), Cell::new(false));
        let start = || {
            started.set(started.get() + 1);
            stream::iter((0..3).map(|_| failed(503)))
        };
        let mut events = std::pin::pin!(lasting(start, || stalled.get()));
        events.next().await;
        events.next().await;
        assert_eq!(started.get(), 1);
        stalled.set(true);
        events.next().await;
        events.next().await;
        assert_eq!(started.get(), 2);
    }

    #[test]
    fn watches_have_different_timeouts_well_below_five_minutes() {
        let ends: std::collections::HashSet<_> = (0..100).map(|_| settings(None).timeout).collect();
        assert!(ends.len() > 1);
        assert!(ends.iter().all(|end| end.is_some_and(|end| LASTS.contains(&end))));
    }
}
