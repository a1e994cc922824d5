//! How the host watches: the settings of every watch, and what kube's watcher leaves to its users.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::WatchProgress;

/// Seconds after which the API server ends a watch and the watcher takes it up again, at a random point between these.
///
/// A connection that went silent (a node or a load balancer that dropped it) shows in nothing else: the client sets no
/// TCP keepalive, and kube's watcher takes a watch for dead only five seconds after its time is over, by default after
/// 295 s. Two minutes of old state is what a person would bear. Shorter would cost a request a kind every few seconds
/// on a host at rest. At random, or the watches that began together would end together for ever.
const LASTS: std::ops::Range<u32> = 90..120;

/// Waits after errors: kube's own, a quarter as long. Its longest is 30 s and as much again by chance, by which a cache would
/// lag behind an API server that has recovered.
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

/// The settings of a watch on what this label selector selects.
///
/// Lists first and then watches. `streaming_lists` would spare the API server a list, but opens at resourceVersion 0,
/// which means any version that the answering API server happens to have: after a reconnect to one that lags, the cache
/// would go back in time and show the host a state from before its own writes (rule R3). A list without a version is
/// consistent, and since Kubernetes 1.31 comes from the API server's cache all the same (KEP-2340).
pub fn settings(labels: Option<String>) -> watcher::Config {
    watcher::Config { label_selector: labels, timeout: Some(fastrand::u32(LASTS)), ..watcher::Config::default() }
}

/// Events of the objects of an API that this label selector selects: the one list/watch machine of the host. It marks the
/// progress of the watch; a list counts as handled when the next event is asked for.
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

/// Events of a watch that is started again when its version is outdated, and waits after errors. It ends only when the
/// watcher does.
///
/// "410 Gone" inside a watch makes kube's watcher list again. As the HTTP status of the request it does not: the watcher
/// would ask for the same outdated version for ever. One that fails while it `has_stalled` lists again, too: a watch that is
/// accepted shows nothing before its first bookmark, a minute later, and a list shows at once what is so.
fn lasting<K, S>(start: impl Fn() -> S, has_stalled: impl Fn() -> bool) -> impl Stream<Item = watcher::Result<Event<K>>>
where
    S: Stream<Item = watcher::Result<Event<K>>>,
{
    let events = stream::unfold((start, has_stalled, None), |(start, has_stalled, running)| async move {
        let mut events = running.unwrap_or_else(|| Box::pin(start()));
        let event = events.next().await?;
        let lists_again = event.as_ref().is_err_and(|error| is_outdated(error) || is_of_watch(error) && has_stalled());
        Some((event, (start, has_stalled, (!lists_again).then_some(events))))
    });
    events.backoff(Waits::default())
}

/// Not of a list, which goes on where it failed.
fn is_of_watch(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::WatchStartFailed(_) | watcher::Error::WatchFailed(_) | watcher::Error::WatchError(_)
    )
}

fn is_outdated(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            | watcher::Error::WatchFailed(kube::Error::Api(status)) if status.code == 410
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
    async fn watch_is_tried_again_within_seconds_however_long_it_failed() {
        let began = tokio::time::Instant::now();
        let errors = StreamExt::take(lasting(|| stream::iter((0..40).map(|_| failed(503))), || false), 40);
        let times: Vec<_> = errors.map(|_| began.elapsed()).collect().await;
        let waits: Vec<_> =
            times.iter().zip(times.iter().skip(1)).map(|(before, after)| after.saturating_sub(*before)).collect();
        // With the chance that keeps watches from coming back together.
        assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(15)), "{waits:?}");
        assert!(waits.iter().rev().take(10).all(|wait| *wait >= Duration::from_secs(5)), "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_whose_version_is_outdated_begins_with_a_new_list() {
        let started = Cell::new(0);
        let events = lasting(
            || {
                started.set(started.get() + 1);
                let first = started.get() == 1;
                // Polled again after the 410, the first one would only repeat it.
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
    fn every_watch_has_its_own_end_well_before_five_minutes() {
        let ends: std::collections::HashSet<_> = (0..100).map(|_| settings(None).timeout).collect();
        assert!(ends.len() > 1);
        assert!(ends.iter().all(|end| end.is_some_and(|end| LASTS.contains(&end))));
    }
}
