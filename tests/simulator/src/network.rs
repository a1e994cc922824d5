//! The network between hosts and the model: each request and each event of a watch takes a while, and may be lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::{Stream, stream};
use http::{Request, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Body, Bytes, Frame};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tower::BoxError;
use windlass_api_model::{ApiServer, Call, Cursor, Response, Target};
use windlass_engine::clock;

use crate::invariants::{Invariants, Writer};
use crate::trace::Trace;

/// The user of a host.
pub const HOST_USER: &str = "system:serviceaccount:windlass-system:windlass";

/// The body of a response: an object, or the events of a watch.
pub type Responded = UnsyncBoxBody<Bytes, BoxError>;

/// Time of a request, or of an event, on its way: in milliseconds.
const WAY: std::ops::Range<u64> = 1..20;
/// How long the kernel of a host tries to deliver a write (`TCP_USER_TIMEOUT` of the connections of writes), less than which a request
/// may be on its way: the margin between the last write of a leader and the expiry of its Lease.
const GIVES_UP: Duration = Duration::from_millis(4_500);
/// The longest time of a write on its way, however slow the requests are. A later one does not arrive ([`GIVES_UP`]); that the API server
/// itself holds it back is beyond the guarantee (SECURITY.md).
const WRITE_ARRIVES: Duration = Duration::from_secs(4);
/// Time between two bookmarks of a watch.
const BOOKMARKS: Duration = Duration::from_mins(1);

/// What goes wrong at the moment.
#[derive(Debug, Default)]
pub struct Faults {
    /// Until when requests are refused whose paths contain this, and with which status.
    refusing: Option<(Instant, u16, String)>,
    /// Until when requests whose paths contain this, and their answers, take up to this many milliseconds.
    slow: Option<(Instant, u64, String)>,
    /// Until when watches of a resource show nothing.
    lagging: BTreeMap<String, Instant>,
    /// Until when watches show each event twice.
    repeating: Option<Instant>,
    /// Until when the garbage collector does nothing.
    uncollected: Option<Instant>,
    /// How many of the next writes are executed without an answer.
    lost_answers: u32,
    /// How many of the next writes do not arrive.
    lost_requests: u32,
    /// Until when a host reaches nothing and hears nothing.
    cut_off: BTreeMap<usize, Instant>,
    /// Until when a host does nothing at all.
    paused: BTreeMap<usize, Instant>,
}

/// The network and the model, shared by all hosts.
#[derive(Clone)]
pub struct Network(Arc<Inner>);

struct Inner {
    server: Mutex<ApiServer>,
    chance: Mutex<fastrand::Rng>,
    faults: Mutex<Faults>,
    trace: Mutex<Trace>,
    invariants: Mutex<Invariants>,
    /// Wakes watches, in the order in which they wait: an object has changed, or watches were cut.
    changed: Notify,
    /// How often all watches were cut.
    cuts: AtomicU64,
    /// Number of hosts that were started.
    hosts: AtomicUsize,
}

impl Network {
    /// A network whose delays follow from a seed.
    pub fn new(server: ApiServer, seed: u64) -> Self {
        Self(Arc::new(Inner {
            server: Mutex::new(server),
            chance: Mutex::new(fastrand::Rng::with_seed(seed)),
            faults: Mutex::default(),
            trace: Mutex::new(Trace::begin()),
            invariants: Mutex::default(),
            changed: Notify::new(),
            cuts: AtomicU64::new(0),
            hosts: AtomicUsize::new(0),
        }))
    }

    /// Looks at the model, or changes it as somebody beside the hosts.
    pub fn with_server<T>(&self, look: impl FnOnce(&mut ApiServer) -> T) -> T {
        let (found, is_changed) = {
            let mut server = self.0.server.lock();
            let before = server.changes().len();
            let found = look(&mut server);
            (found, server.changes().len() != before)
        };
        if is_changed {
            self.0.changed.notify_waiters();
        }
        found
    }

    /// Looks at what went wrong in the world, and at the trace.
    pub fn with_trace<T>(&self, look: impl FnOnce(&mut Trace) -> T) -> T {
        look(&mut self.0.trace.lock())
    }

    /// The parents whose change no host has answered for a minute.
    pub fn unanswered(&self, calm_since: Instant) -> Vec<String> {
        self.with_server(|server| self.0.invariants.lock().unanswered(server, calm_since))
    }

    /// Notes that a host starts; hosts are numbered from 0.
    pub fn note_host(&self, host: usize) {
        self.0.hosts.fetch_max(host + 1, Ordering::Relaxed);
    }

    /// Notes that a host has exited because another one was running, when it did that while no other host was.
    pub fn note_refused_host(&self, host: usize, started: Instant) {
        let faults = self.0.faults.lock();
        let had_ended = |until: &Instant| is_ended(*until) && *until <= started + FOR_EVER;
        let mut others = (0..self.0.hosts.load(Ordering::Relaxed)).filter(|other| *other != host);
        let is_alone = others.all(|other| faults.cut_off.get(&other).is_some_and(had_ended));
        drop(faults);
        if is_alone {
            let problem = format!("host {host} exited, although no other host has run since it started");
            self.0.invariants.lock().violate(problem);
        }
    }

    /// What hosts did that they may not do.
    pub fn violations(&self) -> Vec<String> {
        self.0.invariants.lock().violations().to_vec()
    }

    /// Waits until the model has more changes than this; returns their number.
    pub async fn changed_since(&self, seen: usize) -> usize {
        loop {
            let changed = self.0.changed.notified();
            let count = self.0.server.lock().changes().len();
            if count > seen {
                return count;
            }
            changed.await;
        }
    }

    /// Sends a request of somebody beside the hosts; it arrives at once.
    pub fn send(&self, call: &Call) -> Response {
        if call.method != "GET" {
            self.with_server(|server| self.0.invariants.lock().note_user(server, &call.path, call.body.as_ref()));
        }
        let answer = self.with_server(|server| server.respond(call));
        self.with_trace(|trace| trace.note(&format!("{} {} {} {}", call.user, call.method, call.path, answer.code)));
        answer
    }

    /// Refuses every request whose path contains this with this status for a while; or every write, if the status is about writes.
    pub fn refuse(&self, code: u16, path: &str, time: Duration) {
        self.0.faults.lock().refusing = Some((Instant::now() + time, code, path.to_owned()));
    }

    /// Makes requests whose paths contain this, and their answers, take up to this many milliseconds for a while.
    pub fn slow_down(&self, most: u64, path: &str, time: Duration) {
        self.0.faults.lock().slow = Some((Instant::now() + time, most, path.to_owned()));
    }

    /// Stops the watches of a resource for a while, and its lists.
    pub fn lag(&self, resource: &str, time: Duration) {
        self.0.faults.lock().lagging.insert(resource.to_owned(), Instant::now() + time);
    }

    /// Shows each event of a watch twice for a while.
    pub fn repeat(&self, time: Duration) {
        self.0.faults.lock().repeating = Some(Instant::now() + time);
    }

    /// Stops the garbage collector for a while.
    pub fn stop_collector(&self, time: Duration) {
        self.0.faults.lock().uncollected = Some(Instant::now() + time);
    }

    /// When the garbage collector goes on, if it stands still.
    pub fn collects_from(&self) -> Option<Instant> {
        self.0.faults.lock().uncollected.filter(|until| *until > Instant::now())
    }

    /// Loses the answers of the next writes.
    pub fn lose_answers(&self, count: u32) {
        self.0.faults.lock().lost_answers += count;
    }

    /// Loses the next writes.
    pub fn lose_requests(&self, count: u32) {
        self.0.faults.lock().lost_requests += count;
    }

    /// Cuts a host off for a while. One that has been cut off for ever stays so.
    pub fn cut_off(&self, host: usize, time: Duration) {
        let now = Instant::now();
        let mut faults = self.0.faults.lock();
        let until = faults.cut_off.entry(host).or_insert(now);
        if !is_ended(*until) {
            *until = now + time;
        }
    }

    /// Pauses a host for a while.
    pub fn pause(&self, host: usize, time: Duration) {
        self.0.faults.lock().paused.insert(host, Instant::now() + time);
    }

    /// Ends all watches.
    pub fn cut_watches(&self) {
        self.0.cuts.fetch_add(1, Ordering::Relaxed);
        self.0.changed.notify_waiters();
    }

    /// Ends all faults, except that hosts stay cut off that were so for ever.
    pub fn heal(&self) {
        let mut faults = self.0.faults.lock();
        let cut_off = std::mem::take(&mut faults.cut_off).into_iter().filter(|(_, until)| is_ended(*until)).collect();
        *faults = Faults { cut_off, ..Faults::default() };
    }

    /// Waits as long as a request to this path is on its way, or its response; or an event, which has no path.
    pub async fn sleep_on_the_way(&self, path: &str) {
        let way = self.way(path);
        sleep(way).await;
    }

    fn way(&self, path: &str) -> Duration {
        let faults = self.0.faults.lock();
        let slow = faults.slow.as_ref().filter(|(until, _, of)| *until > Instant::now() && path.contains(of));
        let range = slow.map_or(WAY, |(_, most, _)| 1..(*most).max(2));
        drop(faults);
        Duration::from_millis(self.0.chance.lock().u64(range))
    }

    /// Waits until a time that is looked up again and again has passed.
    async fn until(&self, of: impl Fn(&Faults) -> Option<Instant>) {
        loop {
            let until = of(&self.0.faults.lock()).filter(|until| *until > Instant::now());
            match until {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    /// Waits until a host is no longer cut off.
    async fn reach(&self, host: usize) {
        self.until(|faults| faults.cut_off.get(&host).copied()).await;
    }

    /// Waits until a host is no longer paused.
    pub async fn until_awake(&self, host: usize) {
        self.until(|faults| faults.paused.get(&host).copied()).await;
    }

    /// Waits until what is on its way to a host arrives, and the host looks at it.
    async fn reach_back(&self, host: usize) {
        self.reach(host).await;
        self.until_awake(host).await;
    }

    /// Responds to a request of a host.
    pub async fn respond<B>(self, host: usize, request: Request<B>) -> Result<http::Response<Responded>, BoxError>
    where
        B: Body<Error: Into<BoxError>>,
    {
        let call = decode(request).await?;
        if call.query.contains("watch=") {
            return self.watch(host, call).await;
        }
        let is_write = call.method != "GET" && !call.path.contains("review");
        let sent = Instant::now();
        let way = self.way(&call.path);
        sleep(if is_write { way.min(WRITE_ARRIVES) } else { way }).await;
        self.reach(host).await;
        if is_write && sent.elapsed() > GIVES_UP {
            return Err("the kernel gave up the connection".into());
        }
        let listed = Target::of(&call.path).filter(|target| call.method == "GET" && target.name.is_empty());
        if let Some(target) = listed {
            self.until(|faults| faults.lagging.get(&target.resource()).copied()).await;
        }
        if let Some(refusal) = self.refusal(&call.path, is_write) {
            self.note(host, &call, refusal.code);
            self.sleep_on_the_way(&call.path).await;
            return response(&refusal);
        }
        if is_write && self.takes_one(|faults| &mut faults.lost_requests) {
            self.note(host, &call, 0);
            return Err("the connection was reset before the request arrived".into());
        }
        let arrived = Call { now: clock::date(), ..call };
        let answer = self.with_server(|server| {
            let before = server.changes().len();
            let answer = server.respond(&arrived);
            if is_write {
                let writer = Writer { host, user: &arrived.user, sent };
                let mut invariants = self.0.invariants.lock();
                invariants.check(server, &arrived, writer, before);
                invariants.note_refused(server, &arrived, writer, answer.code);
            }
            answer
        });
        self.note(host, &arrived, answer.code);
        if is_write && self.takes_one(|faults| &mut faults.lost_answers) {
            return Err("the connection was reset before the answer arrived".into());
        }
        self.sleep_on_the_way(&arrived.path).await;
        self.reach_back(host).await;
        if is_write {
            self.0.invariants.lock().note_answered(host, &arrived, answer.code);
        }
        response(&answer)
    }

    fn takes_one(&self, of: impl FnOnce(&mut Faults) -> &mut u32) -> bool {
        let mut faults = self.0.faults.lock();
        let left = of(&mut faults);
        let takes = *left > 0;
        *left = left.saturating_sub(1);
        takes
    }

    /// The refusal of every request, or of every write if its status is about one.
    fn refusal(&self, path: &str, is_write: bool) -> Option<Response> {
        let (until, code, of) = self.0.faults.lock().refusing.clone()?;
        let (reason, is_about_writes) = match code {
            403 => ("Forbidden", false),
            404 => ("NotFound", true),
            409 => ("Conflict", true),
            422 => ("Invalid", true),
            429 => ("TooManyRequests", false),
            _ => ("ServiceUnavailable", false),
        };
        let message = "refused by the history";
        let refuses = until > Instant::now() && path.contains(&of) && (is_write || !is_about_writes);
        refuses.then(|| Response::failure(code, reason, message, &serde_json::json!({})))
    }

    fn note(&self, host: usize, call: &Call, code: u16) {
        let as_plugin = if call.user == HOST_USER { "" } else { " as its plugin" };
        let Call { method, path, .. } = call;
        self.with_trace(|trace| trace.note(&format!("host {host}{as_plugin}: {method} {path} {code}")));
    }

    async fn watch(self, host: usize, call: Call) -> Result<http::Response<Responded>, BoxError> {
        self.sleep_on_the_way("").await;
        self.reach(host).await;
        let begun = match self.refusal(&call.path, false) {
            Some(refusal) => Err(refusal),
            None => self.0.server.lock().watch(&call),
        };
        self.note(host, &call, begun.as_ref().map_or_else(|refusal| refusal.code, |_| 200));
        self.sleep_on_the_way("").await;
        let cursor = match begun {
            Ok(cursor) => cursor,
            Err(refusal) => return response(&refusal),
        };
        let events = Events {
            network: self.clone(),
            host,
            ends: Instant::now() + Duration::from_secs(cursor.seconds),
            bookmark: Instant::now() + BOOKMARKS,
            cuts: self.0.cuts.load(Ordering::Relaxed),
            again: None,
            cursor,
        };
        let body = StreamBody::new(events.stream()).boxed_unsync();
        Ok(http::Response::builder().header(header::CONTENT_TYPE, "application/json").body(body)?)
    }
}

/// Longer than any history.
pub const FOR_EVER: Duration = Duration::from_hours(1_000);

/// Whether a host that is cut off until then has ended.
fn is_ended(until: Instant) -> bool {
    until > Instant::now() + FOR_EVER / 2
}

/// The events of a watch on their way to a host.
struct Events {
    network: Network,
    host: usize,
    cursor: Cursor,
    ends: Instant,
    bookmark: Instant,
    /// How often all watches had been cut when this one began.
    cuts: u64,
    /// The event that is shown once more.
    again: Option<Value>,
}

impl Events {
    fn stream(self) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> {
        stream::unfold(self, |mut events| async move {
            let event = events.next().await?;
            // The API server writes the type first, and a reader of raw objects needs that.
            let (what, object) = (event.get("type")?, event.get("object")?);
            let line = Bytes::from(format!("{{\"type\":{what},\"object\":{object}}}\n"));
            Some((Ok(Frame::data(line)), events))
        })
    }

    /// The next event; none when the watch ends.
    async fn next(&mut self) -> Option<Value> {
        let network = self.network.clone();
        loop {
            network.reach_back(self.host).await;
            let changed = network.0.changed.notified();
            if network.0.cuts.load(Ordering::Relaxed) != self.cuts || self.ends <= Instant::now() {
                return None;
            }
            let lags_until = self.lags_until();
            if lags_until.is_none() {
                if let Some(event) = self.take_event() {
                    network.sleep_on_the_way("").await;
                    network.reach_back(self.host).await;
                    self.note(&event);
                    return Some(event);
                }
                if self.bookmark <= Instant::now() {
                    self.bookmark = Instant::now() + BOOKMARKS;
                    return Some(network.0.server.lock().bookmark(&self.cursor));
                }
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(self.ends.min(lags_until.unwrap_or(self.bookmark))) => {}
            }
        }
    }

    /// The next event that the server has, or the last one once more.
    fn take_event(&mut self) -> Option<Value> {
        if let Some(again) = self.again.take() {
            return Some(again);
        }
        let event = self.network.0.server.lock().next_event(&mut self.cursor)?;
        let repeats = self.network.0.faults.lock().repeating.is_some_and(|until| until > Instant::now());
        self.again = repeats.then(|| event.clone());
        Some(event)
    }

    fn note(&self, event: &Value) {
        let text = |at: &str| event.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (what, name, version) =
            (text("/type"), text("/object/metadata/name"), text("/object/metadata/resourceVersion"));
        let line = format!("host {} sees {what} {} {name} {version}", self.host, self.cursor.resource());
        self.network.with_trace(|trace| trace.note(&line));
    }

    fn lags_until(&self) -> Option<Instant> {
        let faults = self.network.0.faults.lock();
        faults.lagging.get(self.cursor.resource()).copied().filter(|until| *until > Instant::now())
    }
}

async fn decode<B: Body<Error: Into<BoxError>>>(request: Request<B>) -> Result<Call, BoxError> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(Into::into)?.to_bytes();
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Ok(Call {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        content_type: header("content-type").to_owned(),
        metadata_only: header("accept").contains("as=PartialObjectMetadata"),
        user: Some(header("impersonate-user")).filter(|user| !user.is_empty()).unwrap_or(HOST_USER).to_owned(),
        body: if body.is_empty() { None } else { Some(serde_json::from_slice(&body)?) },
        now: clock::date(),
    })
}

fn response(answer: &Response) -> Result<http::Response<Responded>, BoxError> {
    let body = Full::from(serde_json::to_vec(&answer.body)?).map_err(|never| match never {}).boxed_unsync();
    Ok(http::Response::builder().status(answer.code).header(header::CONTENT_TYPE, "application/json").body(body)?)
}
