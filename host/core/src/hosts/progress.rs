//! Detects watches that make no progress, so that their caches are outdated. This can happen although no request fails.

use std::mem;
use std::time::{Duration, Instant};

/// Time after which a failing watch has stalled. A single-node API server restarts within less, and a watch that was
/// merely cut is restarted at once.
pub const FAILING_LIMIT: Duration = Duration::from_secs(20);

/// If a watch fails within this time after the API server accepted it, without progress, the earlier failure continues.
const SAME_FAILURE_WINDOW: Duration = Duration::from_secs(10);

/// Time after which a watch that delivers nothing has stalled, although no request fails.
///
/// The API server sends a bookmark about once a minute, and ends a watch after the 90 to 120 s that the host asks for.
/// The host notices within 125 s that a load balancer dropped a connection, and the bookmark of the next watch comes up
/// to 60 s later: 185 s can pass without a fault. The rest is margin for a slow API server.
pub const SILENCE_LIMIT: Duration = Duration::from_mins(4);

/// Delay before a watch's task is restarted after a panic; doubles with each panic in a row.
const RESTART_MIN: Duration = Duration::from_secs(1);
const RESTART_MAX: Duration = Duration::from_mins(5);

/// The progress of a watch.
#[derive(Debug)]
pub struct Progress {
    /// Time of the last event, bookmark or clean end of a list or watch. Initially the start of the watch; after a
    /// rejection, the time at which the watch was accepted again.
    last: Instant,
    state: State,
    /// Number of panics since a list was last handled completely.
    panics: u32,
}

#[derive(Debug)]
enum State {
    /// The API server accepted the last request, and it has not failed. Until the watch makes progress, this holds the
    /// failure before that request, and the time at which the request was accepted: if the watch fails again at once,
    /// the failure continues.
    Running(Option<(Failure, Instant)>),
    Failing(Failure),
    /// The API server rejects the watch until a user changes something, which is reported elsewhere.
    Refused,
}

#[derive(Debug)]
struct Failure {
    since: Instant,
    message: String,
    /// Whether each request since then was answered by the API server, with an error.
    is_answer: bool,
}

/// Why a watch counts as stalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// Time since the last progress.
    pub age: Duration,
    /// The first failure since then; `None` if the watch is silent.
    pub failure: Option<String>,
    /// Whether the API server answers each request with an error, as if the webhook of the kind's CRD fails. It would answer another host
    /// alike.
    pub is_answer: bool,
}

impl Progress {
    /// The progress of a watch that begins.
    pub fn new(now: Instant) -> Self {
        Self { last: now, state: State::Running(None), panics: 0 }
    }

    /// Records an event or a bookmark, or the end of a list or watch without an error.
    pub fn advanced(&mut self, now: Instant) {
        self.last = now;
        if let State::Running(before) = &mut self.state {
            *before = None;
        }
    }

    /// Records that the API server accepted a list or watch. This alone is no progress: a proxy may accept requests and
    /// deliver nothing.
    pub fn accepted(&mut self, now: Instant) {
        self.state = match mem::replace(&mut self.state, State::Refused) {
            State::Refused => {
                self.last = now;
                State::Running(None)
            }
            State::Running(None) => State::Running(None),
            // The API server's acceptance does not fix a panic.
            failing @ (State::Failing(_) | State::Running(Some(_))) if self.panics > 0 => failing,
            State::Failing(failure) | State::Running(Some((failure, _))) => State::Running(Some((failure, now))),
        };
    }

    /// Records that a whole list was handled.
    pub fn listed(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// Records a request that failed without an answer of the API server.
    pub fn failed(&mut self, now: Instant, message: &str) {
        self.fail(now, message, false);
    }

    /// Records that the API server answered a request with an error, or sent an error event.
    pub fn answered(&mut self, now: Instant, message: &str) {
        self.fail(now, message, true);
    }

    fn fail(&mut self, now: Instant, message: &str, is_answer: bool) {
        let new = || Failure { since: now, message: message.to_owned(), is_answer };
        let failure = match mem::replace(&mut self.state, State::Refused) {
            State::Failing(failure) => failure,
            State::Running(Some((failure, accepted)))
                if now.saturating_duration_since(accepted) < SAME_FAILURE_WINDOW =>
            {
                failure
            }
            State::Running(_) | State::Refused => new(),
        };
        self.state = State::Failing(Failure { is_answer: failure.is_answer && is_answer, ..failure });
    }

    /// Records a panic of the watch's task. Returns the delay before the task is restarted.
    pub fn panicked(&mut self, now: Instant) -> Duration {
        self.failed(now, "the watch's task panicked; the host's log says where");
        let wait = RESTART_MIN.saturating_mul(2_u32.saturating_pow(self.panics)).min(RESTART_MAX);
        self.panics = self.panics.saturating_add(1);
        wait
    }

    /// Records that the API server rejects the watch.
    pub fn refused(&mut self) {
        self.state = State::Refused;
    }

    /// Time since the last progress.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last)
    }

    /// Returns why the watch has stalled, or `None`.
    pub fn stall(&self, now: Instant) -> Option<Stall> {
        let age = self.age(now);
        let has_stalled = |failure: &Failure, at: Instant| at.saturating_duration_since(failure.since) >= FAILING_LIMIT;
        let is_recent = |accepted: Instant| now.saturating_duration_since(accepted) < SAME_FAILURE_WINDOW;
        let failure = match &self.state {
            State::Refused => return None,
            State::Failing(failure) => Some(failure),
            // The watch may fail again at once, and has delivered nothing so far.
            State::Running(Some((failure, accepted))) if has_stalled(failure, *accepted) && is_recent(*accepted) => {
                Some(failure)
            }
            State::Running(_) => None,
        };
        let is_failing = failure.is_some_and(|failure| has_stalled(failure, now));
        let is_answer = failure.is_some_and(|failure| failure.is_answer);
        let failure = failure.map(|failure| failure.message.clone());
        (is_failing || age >= SILENCE_LIMIT).then_some(Stall { age, failure, is_answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn watch_that_keeps_failing_is_stalled_after_twenty_seconds() {
        let began = Instant::now();
        let mut progress = Progress::new(began);
        progress.failed(began + secs(5), "503: try later");
        progress.failed(began + secs(24), "429: too many requests");
        assert_eq!(progress.stall(began + secs(24)), None);
        let stall = Stall { age: secs(25), failure: Some("503: try later".to_owned()), is_answer: false };
        assert_eq!(progress.stall(began + secs(25)), Some(stall), "the message is that of the first failure");
        progress.advanced(began + secs(26));
        progress.listed(began + secs(26));
        assert_eq!(progress.stall(began + secs(26)), None);
    }

    #[test]
    fn stall_is_an_answer_of_the_api_server_only_if_it_answered_each_request() {
        let began = Instant::now();
        let is_answer = |progress: &Progress| progress.stall(began + secs(60)).expect("stalled").is_answer;
        let mut progress = Progress::new(began);
        progress.answered(began, "500: the conversion webhook failed");
        progress.answered(began + secs(30), "500: the conversion webhook failed");
        assert!(is_answer(&progress));
        progress.failed(began + secs(31), "connection refused");
        progress.answered(began + secs(32), "500: the conversion webhook failed");
        assert!(!is_answer(&progress), "another host may have a better connection");
        progress.listed(began + secs(33));
        progress.answered(began + secs(34), "500: the conversion webhook failed");
        assert!(is_answer(&progress));
        progress.panicked(began + secs(35));
        assert!(!is_answer(&progress));
    }

    #[test]
    fn watch_that_is_accepted_and_fails_at_once_each_time_is_stalled_after_twenty_seconds() {
        let began = Instant::now();
        let mut progress = Progress::new(began);
        for second in 5..25 {
            progress.failed(began + secs(second), "the stream was cut");
            assert_eq!(progress.stall(began + secs(second)), None);
            progress.accepted(began + secs(second));
        }
        progress.failed(began + secs(25), "the stream was cut");
        assert!(progress.stall(began + secs(25)).is_some());
        progress.accepted(began + secs(26));
        assert!(progress.stall(began + secs(26)).is_some(), "no event arrived yet, so the cache is outdated");
        progress.failed(began + secs(27), "the stream was cut");
        assert!(progress.stall(began + secs(27)).is_some());
        // An event between two failures is progress, and so is a watch that lasts.
        progress.accepted(began + secs(27));
        progress.advanced(began + secs(27));
        assert_eq!(progress.stall(began + secs(27)), None);
        progress.failed(began + secs(28), "the stream was cut");
        assert_eq!(progress.stall(began + secs(28)), None);
        progress.accepted(began + secs(29));
        progress.failed(began + secs(60), "the stream was cut");
        assert_eq!(progress.stall(began + secs(79)), None);
        assert!(progress.stall(began + secs(80)).is_some());
        progress.accepted(began + secs(81));
        assert_eq!(progress.stall(began + secs(91)), None);
    }

    #[test]
    fn watch_that_is_accepted_and_delivers_nothing_is_stalled_after_four_minutes() {
        let began = Instant::now();
        let mut progress = Progress::new(began);
        for at in 0..4 {
            // A dead connection is replaced again and again.
            progress.failed(began + secs(60 * at), "connection reset");
            progress.accepted(began + secs(60 * at));
            assert_eq!(progress.stall(began + secs(60 * at)), None);
        }
        assert_eq!(
            progress.stall(began + SILENCE_LIMIT),
            Some(Stall { age: SILENCE_LIMIT, failure: None, is_answer: false })
        );
        progress.advanced(began + SILENCE_LIMIT);
        assert_eq!(progress.stall(began + SILENCE_LIMIT), None);
        assert_eq!(progress.age(began + SILENCE_LIMIT + secs(1)), secs(1));
    }

    #[test]
    fn quiet_watch_with_a_bookmark_a_minute_never_stalls() {
        let began = Instant::now();
        let mut progress = Progress::new(began);
        for minute in 1..600 {
            progress.advanced(began + secs(60 * minute));
            assert_eq!(progress.stall(began + secs(60 * minute + 59)), None);
        }
    }

    #[test]
    fn refused_watch_is_not_stalled_until_it_is_accepted_and_fails_again() {
        let began = Instant::now();
        let mut progress = Progress::new(began);
        progress.refused();
        assert_eq!(progress.stall(began + secs(3600)), None, "the Plugin's status reports the refusal instead");
        assert_eq!(progress.age(began + secs(3600)), secs(3600));
        progress.accepted(began + secs(3600));
        assert_eq!(progress.stall(began + secs(3600)), None, "the time of the refusal does not count");
        progress.failed(began + secs(3600), "503");
        assert!(progress.stall(began + secs(3620)).is_some());
    }

    #[test]
    fn watch_that_panicked_and_was_rejected_is_stalled_again_if_it_stays_silent_once_accepted() {
        let start = Instant::now();
        let mut watch = Progress::new(start);
        watch.panicked(start);
        watch.refused();
        let accepted = start + Duration::from_hours(1);
        assert_eq!(watch.stall(accepted), None, "the Plugin's condition reports the rejection");
        watch.accepted(accepted);
        assert_eq!(watch.stall(accepted), None);
        assert!(watch.stall(accepted + SILENCE_LIMIT).is_some());
    }

    #[test]
    fn panicking_task_is_restarted_with_backoff_and_is_stalled_until_it_handles_a_list() {
        let began = Instant::now();
        let mut progress = Progress::new(began);
        let waits: Vec<_> = (0..11).map(|_| progress.panicked(began).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        // The API server accepts each start, and delivers part of the list.
        progress.accepted(began);
        progress.advanced(began + secs(25));
        assert!(progress.stall(began + secs(25)).is_some_and(|stall| stall.failure.is_some()));
        progress.listed(began + secs(30));
        assert_eq!(progress.stall(began + secs(60)), None);
        assert_eq!(progress.panicked(began), secs(1), "the backoff starts from the beginning");
    }
}
