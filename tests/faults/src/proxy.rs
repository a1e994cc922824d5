//! The proxy itself.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use futures::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::call::parameters;
use crate::rules::Rules;
use crate::stream::{Lines, call_of};
use crate::{Call, Fault, Match, Outcome, Passed, Rule, RuleId, SEED_VARIABLE, Verb};

/// The proxy, listening on a free loopback port. Dropping it closes all connections.
pub struct Faults {
    address: SocketAddr,
    shared: Arc<Shared>,
    // The last field: everything that runs on it uses the others. An Option, because its end may not block.
    runtime: Option<tokio::runtime::Runtime>,
}

struct Shared {
    upstream: String,
    client: reqwest::Client,
    seed: u64,
    state: Mutex<State>,
    /// Changes whenever rules change or watches are cut.
    changed: watch::Sender<u64>,
}

struct State {
    rules: Rules,
    hooks: Vec<Armed>,
    cuts: Vec<(u64, Match)>,
    journal: Vec<Passed>,
}

/// When a hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the request would be sent to the API server; the proxy does not send it.
    Before,
    /// After the API server has executed the request; the reply never reaches the host.
    After,
}

type Action = Box<dyn FnOnce(&Call) + Send>;

struct Armed {
    which: Match,
    left: usize,
    moment: Moment,
    action: Action,
    hit: Arc<Mutex<Option<Call>>>,
}

/// A hook that was set with [`Faults::at_request`].
#[derive(Clone, Debug)]
pub struct Hook {
    hit: Arc<Mutex<Option<Call>>>,
}

impl Hook {
    /// The request at which the hook was called, once it was called.
    pub fn hit(&self) -> Option<Call> {
        lock(&self.hit).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Faults {
    /// Starts a proxy in front of the API server at `upstream` (`https://…`), whose certificate this CA signed.
    pub fn start(upstream: &str, ca_pem: &[u8], seed: u64) -> Result<Self> {
        // An error means that this process has one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let ca = reqwest::Certificate::from_pem_bundle(ca_pem).context("the API server's CA cannot be read")?;
        let client = reqwest::Client::builder().no_proxy().tls_certs_only(ca);
        let client = client.build().context("no client for the API server")?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).context("no port for a proxy")?;
        let address = listener.local_addr()?;
        let state = State { rules: Rules::new(seed), hooks: Vec::new(), cuts: Vec::new(), journal: Vec::new() };
        let shared = Arc::new(Shared {
            upstream: upstream.trim_end_matches('/').to_owned(),
            client,
            seed,
            state: Mutex::new(state),
            changed: watch::Sender::new(0),
        });
        runtime.spawn(accept(listener, shared.clone()));
        Ok(Self { address, shared, runtime: Some(runtime) })
    }

    /// The value of a kubeconfig's `server`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The seed of its random draws.
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// Adds a rule. If several match, the first one that was added counts.
    pub fn add(&self, rule: Rule) -> RuleId {
        let id = lock(&self.shared.state).rules.add(rule);
        self.shared.notify();
        id
    }

    /// Removes a rule.
    pub fn remove(&self, id: RuleId) {
        lock(&self.shared.state).rules.remove(id);
        self.shared.notify();
    }

    /// Removes all rules.
    pub fn clear(&self) {
        lock(&self.shared.state).rules.clear();
        self.shared.notify();
    }

    /// Cuts the connections of the open watches that match.
    pub fn cut(&self, which: Match) {
        let epoch = *self.shared.changed.borrow() + 1;
        lock(&self.shared.state).cuts.push((epoch, which));
        self.shared.notify();
    }

    /// Calls `action` at the n-th request from now on (counted from 1) that matches. The host gets no response to it;
    /// for [`Moment::Before`] the request is not sent either.
    pub fn at_request(
        &self,
        which: Match,
        number: usize,
        moment: Moment,
        action: impl FnOnce(&Call) + Send + 'static,
    ) -> Hook {
        let hit = Arc::new(Mutex::new(None));
        let armed = Armed { which, left: number, moment, action: Box::new(action), hit: hit.clone() };
        lock(&self.shared.state).hooks.push(armed);
        Hook { hit }
    }

    /// Removes the hooks that were not called.
    pub fn clear_hooks(&self) {
        lock(&self.shared.state).hooks.clear();
    }

    /// The requests that reached the proxy so far, in the order in which they ended. An open watch is included once it
    /// was opened.
    pub fn journal(&self) -> Vec<Passed> {
        lock(&self.shared.state).journal.clone()
    }

    /// The number of requests that ended so far: an argument of [`Faults::since`].
    pub fn mark(&self) -> usize {
        lock(&self.shared.state).journal.len()
    }

    /// The requests that ended since then.
    pub fn since(&self, mark: usize) -> Vec<Passed> {
        lock(&self.shared.state).journal.get(mark..).unwrap_or_default().to_vec()
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed of the faults: {SEED_VARIABLE}={}", self.shared.seed);
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

type Reply = Response<BoxBody<Bytes, std::io::Error>>;

/// The connection is closed without a reply.
#[derive(Debug)]
struct Close;

impl std::fmt::Display for Close {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("closed without a reply")
    }
}

impl std::error::Error for Close {}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        // Events are small, and none may wait for the next one.
        let _ = stream.set_nodelay(true);
        let shared = shared.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| serve(shared.clone(), request));
            // The client may disconnect at any time, or a rule closes the connection.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn serve(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Reply, Close> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Close)?.to_bytes();
    let call = Call::read(&head.method, &head.uri, &head.headers, &body);
    let (fault, hook) = {
        let mut state = lock(&shared.state);
        (state.rules.of_request(&call), state.hook(&call))
    };
    let (before, after) = match hook {
        Some(hook) if hook.moment == Moment::Before => (Some(hook), None),
        other => (None, other),
    };
    if let Some(hook) = before {
        shared.note(&call, Outcome::NotSent);
        hook.call(&call).await;
        return Err(Close);
    }
    match fault {
        Some(Fault::CloseBefore) => {
            shared.note(&call, Outcome::NotSent);
            return Err(Close);
        }
        Some(Fault::Status(code)) => {
            shared.note(&call, Outcome::Injected(code));
            return Ok(status(code, shared.seed));
        }
        Some(Fault::ServeOlder(version)) if call.verb == Verb::Get => {
            return shared.older_get(&call, &head.uri, &head.headers, version).await;
        }
        _ => {}
    }
    let uri = match fault {
        Some(Fault::ServeOlder(version)) if call.verb == Verb::List => at_version(&head.uri, version, ""),
        _ => head.uri.to_string(),
    };
    let sent = shared.client.request(head.method, format!("{}{uri}", shared.upstream));
    let sent = sent.headers(passed_on(&head.headers)).body(body).send().await;
    let Ok(response) = sent else {
        // The API server is down: for the host, so is this proxy.
        shared.note(&call, Outcome::NotSent);
        return Err(Close);
    };
    let code = response.status().as_u16();
    if call.verb == Verb::Watch && code == 200 && after.is_none() {
        shared.note(&call, Outcome::Replied(code));
        return Ok(shared.stream(call, response));
    }
    let (status, headers) = (response.status(), passed_on(response.headers()));
    let body = response.bytes().await.map_err(|_| Close)?;
    if let Some(hook) = after {
        shared.note(&call, Outcome::ReplyLost(code));
        hook.call(&call).await;
        return Err(Close);
    }
    if let Some(Fault::Delay(delay)) = fault {
        tokio::time::sleep(delay).await;
    }
    shared.note(&call, Outcome::Replied(code));
    Ok(reply(status, headers, body))
}

impl State {
    /// Counts this request, and returns the hook that is due.
    fn hook(&mut self, call: &Call) -> Option<Armed> {
        let mut due = None;
        for (at, hook) in self.hooks.iter_mut().enumerate() {
            if hook.which.matches(call) {
                hook.left = hook.left.saturating_sub(1);
                if hook.left == 0 {
                    due = due.or(Some(at));
                }
            }
        }
        due.map(|at| self.hooks.remove(at))
    }
}

impl Armed {
    /// Calls the hook on a thread that may block: the hook may wait for a process to end.
    async fn call(self, call: &Call) {
        let Self { action, hit, .. } = self;
        let seen = call.clone();
        let _ = tokio::task::spawn_blocking(move || {
            action(&seen);
            *lock(&hit) = Some(seen);
        })
        .await;
    }
}

impl Shared {
    fn notify(&self) {
        self.changed.send_modify(|epoch| *epoch += 1);
    }

    fn note(&self, call: &Call, outcome: Outcome) {
        lock(&self.state).journal.push(Passed { call: call.clone(), outcome });
    }

    /// A get as an older API server would respond to it: the object of this name in a list at that version.
    async fn older_get(&self, call: &Call, uri: &Uri, headers: &HeaderMap, version: u64) -> Result<Reply, Close> {
        let path = uri.path();
        let parent = path.strip_suffix(&format!("/{}", call.name)).ok_or(Close)?;
        let list: Uri = parent.parse().map_err(|_| Close)?;
        let at = at_version(&list, version, &format!("&fieldSelector=metadata.name%3D{}", call.name));
        let asked = self.client.get(format!("{}{at}", self.upstream)).headers(passed_on(headers)).send().await;
        let response = asked.map_err(|_| Close)?;
        let (code, headers) = (response.status(), passed_on(response.headers()));
        let body = response.bytes().await.map_err(|_| Close)?;
        self.note(call, Outcome::Replied(code.as_u16()));
        if code != StatusCode::OK {
            return Ok(reply(code, headers, body));
        }
        let mut list: Value = serde_json::from_slice(&body).map_err(|_| Close)?;
        let kind = list.pointer("/kind").and_then(Value::as_str).unwrap_or_default();
        let (kind, version) = (kind.trim_end_matches("List").to_owned(), list.pointer("/apiVersion").cloned());
        let found = list.pointer_mut("/items/0").map(Value::take);
        Ok(match found {
            Some(Value::Object(mut item)) => {
                item.insert("kind".to_owned(), kind.into());
                item.insert("apiVersion".to_owned(), version.unwrap_or_default());
                reply(code, headers, Value::Object(item).to_string().into())
            }
            _ => status(404, self.seed),
        })
    }

    fn stream(self: &Arc<Self>, call: Call, response: reqwest::Response) -> Reply {
        let (status, headers) = (response.status(), passed_on(response.headers()));
        let (events, body) = mpsc::channel(64);
        let started = *self.changed.borrow();
        let watch = Watch { shared: self.clone(), call, started, events, changed: self.changed.subscribe() };
        tokio::spawn(watch.run(response));
        let body = stream::unfold(body, |mut body| async move {
            let line: Result<Bytes, std::io::Error> = body.recv().await?;
            Some((line.map(Frame::data), body))
        });
        let mut reply = Response::new(StreamBody::new(body).boxed());
        *reply.status_mut() = status;
        *reply.headers_mut() = headers;
        reply
    }
}

/// One open watch.
struct Watch {
    shared: Arc<Shared>,
    call: Call,
    started: u64,
    events: mpsc::Sender<Result<Bytes, std::io::Error>>,
    changed: watch::Receiver<u64>,
}

/// Why a watch ends.
enum End {
    /// The API server ended it, or the client did.
    Over,
    /// The connection is closed in the middle.
    Cut,
}

impl Watch {
    async fn run(mut self, mut response: reqwest::Response) {
        if let End::Cut = self.deliver(&mut response).await {
            let cut = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "cut");
            let _ = self.events.send(Err(cut)).await;
        }
    }

    async fn deliver(&mut self, response: &mut reqwest::Response) -> End {
        let mut lines = Lines::default();
        loop {
            let chunk = tokio::select! {
                chunk = response.chunk() => chunk,
                _ = self.changed.changed() => {
                    if self.is_cut(&self.call) { return End::Cut }
                    continue;
                }
                () = self.events.closed() => return End::Over,
            };
            let Ok(chunk) = chunk else { return End::Cut };
            let Some(chunk) = chunk else {
                // The end of a silent connection is not shown either.
                let call = self.call.clone();
                return self.silence(&call).await.unwrap_or(End::Over);
            };
            for line in lines.push(&chunk) {
                if let Some(end) = self.silence(&call_of(&self.call, &line)).await {
                    return end;
                }
                if self.events.send(Ok(line)).await.is_err() {
                    return End::Over;
                }
            }
        }
    }

    /// Returns when this watch may deliver, or ends.
    async fn silence(&mut self, call: &Call) -> Option<End> {
        loop {
            if self.is_cut(call) {
                return Some(End::Cut);
            }
            if !lock(&self.shared.state).rules.is_silent(call) {
                return None;
            }
            tokio::select! {
                changed = self.changed.changed() => if changed.is_err() { return Some(End::Over) },
                () = self.events.closed() => return Some(End::Over),
            }
        }
    }

    fn is_cut(&self, call: &Call) -> bool {
        let state = lock(&self.shared.state);
        state.cuts.iter().any(|(epoch, which)| *epoch > self.started && which.matches(call))
    }
}

/// The same list at an older version.
fn at_version(uri: &Uri, version: u64, more: &str) -> String {
    if parameters(uri).any(|(name, _)| name == "continue") {
        // The token contains the version.
        return uri.to_string();
    }
    let kept = parameters(uri).filter(|(name, _)| *name != "resourceVersion" && *name != "resourceVersionMatch");
    let kept: Vec<_> = kept.map(|(name, value)| format!("{name}={value}&")).collect();
    format!("{}?{}resourceVersion={version}&resourceVersionMatch=Exact{more}", uri.path(), kept.concat())
}

/// Headers without those of one connection or of one encoding.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    const OWN: [HeaderName; 6] = [
        header::HOST,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::ACCEPT_ENCODING,
        header::UPGRADE,
    ];
    let kept = headers.iter().filter(|(name, _)| !OWN.contains(name));
    // A header may occur more than once: `Impersonate-Group` does.
    kept.fold(HeaderMap::new(), |mut kept, (name, value)| {
        kept.append(name.clone(), value.clone());
        kept
    })
}

fn reply(status: StatusCode, headers: HeaderMap, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body).map_err(|error: Infallible| match error {}).boxed());
    *reply.status_mut() = status;
    *reply.headers_mut() = headers;
    reply
}

/// A failure with the text that the API server uses.
fn status(code: u16, seed: u64) -> Reply {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "code": code,
        "message": format!("injected by the proxy (seed {seed})"), "details": {},
    });
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), headers, body.to_string().into())
}
