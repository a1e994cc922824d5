//! Connects to the API server: the client of the host and of the commands.

use std::time::Duration;

use anyhow::Context as _;
use http::header::USER_AGENT;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tower::filter::FilterLayer;
use tower::layer::layer_fn;
use tower::util::AndThenLayer;
use tower::{BoxError, Service, ServiceBuilder};

use super::lease::{GateFilter, Pools, WriteGate, fenced};
use super::requests::{self, RequestArgs};
use super::retry_after::into_status;
use super::writer::audit::LogAndCount;
use super::writer::observed::Observed;
use super::writer::warnings::HandsOver;

/// A client for a command of a user.
///
/// # Errors
/// If the configuration is not usable.
pub fn of_user(config: Config, requests: RequestArgs) -> anyhow::Result<Client> {
    connect(config, SILENCE, None, requests).context("the client cannot be set up")
}

/// A client for the host. It sends requests as the host itself or as a plugin's ServiceAccount, and no write without the Lease.
///
/// # Errors
/// If the configuration is not usable or impersonates a user, or if this system cannot hold back late writes.
pub fn of_host(config: Config, requests: RequestArgs, gate: GateFilter) -> anyhow::Result<Client> {
    if cfg!(not(target_os = "linux")) {
        anyhow::bail!(
            "`run` and `dev` need Linux, whose kernel gives up writes that the network does not deliver in time (TCP_USER_TIMEOUT). \
             `windlass install` runs a host in the cluster; all other commands work here"
        );
    }
    check_impersonation(&config)?;
    connect(config, SILENCE, Some(gate), requests).context("the client cannot be set up")
}

/// Rejects a configuration that impersonates a user. A kubeconfig's impersonation would be sent with each request, so
/// its groups would add their permissions to those of each plugin's ServiceAccount.
fn check_impersonation(config: &Config) -> anyhow::Result<()> {
    let user = config.auth_info.impersonate.as_deref();
    let groups = config.auth_info.impersonate_groups.as_deref().unwrap_or_default();
    if user.is_none() && groups.is_empty() {
        return Ok(());
    }
    anyhow::bail!(
        "the client would impersonate {} (--as, or `as` and `as-groups` of the kubeconfig's user): the host impersonates the plugins' \
         ServiceAccounts itself, and those permissions would be added to theirs. Leave it out, and give the kubeconfig's user the \
         host's permissions",
        user.map(str::to_owned).into_iter().chain(groups.iter().cloned()).collect::<Vec<_>>().join(", ")
    )
}

/// How long a connection may be silent before it is closed: longer than a watch without events lasts (see
/// `watch::stream`), because such a watch may send nothing between its first byte and its end. Without this limit a
/// request on a connection that a node or a load balancer dropped would never end: a list, and with it the watch of the
/// kind, or a worker's request.
const SILENCE: Duration = Duration::from_secs(150);

/// Bytes that a connection reads at once. By default, the buffer of a connection grows with what it reads, and a watch would keep a large
/// one of the list before it. TLS has at most 16 KiB in a record, so a larger one hardly makes lists faster.
const READ_BUFFER: usize = 8 * 1024;

/// A client that identifies itself, sends each request once and without delay, passes on `Retry-After`, and closes
/// connections that are silent for longer than `silence`.
///
/// It equals the client of kube's own builder, except for a TCP option that the builder does not set
/// ([kube#2056](https://github.com/kube-rs/kube/issues/2056)), for spans and log lines, which are not used here, and
/// for retries: these would repeat POSTs and block a worker for minutes, and every caller here has its own backoff.
fn connect(
    config: Config,
    silence: Duration,
    gate: Option<GateFilter>,
    requests: RequestArgs,
) -> Result<Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // Without this option the first request of each connection waits 40 ms after the handshake: Nagle's algorithm waits
    // for an acknowledgement that the other side delays.
    tcp.set_nodelay(true);
    let mut of_writes = tcp.clone();
    if let Some(gate) = &gate {
        give_up_after(gate.margin, &mut of_writes);
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(proxy) = proxy(&config, variable) else {
        return through([tcp, of_writes], config, silence, gate, requests);
    };
    if proxy.uri().scheme_str() != Some("http") {
        // An error is better than a connection that bypasses the proxy.
        return Err(kube::Error::ProxyProtocolUnsupported { proxy_url: Box::new(proxy.uri().clone()) });
    }
    let tunnel = |tcp| {
        let tunnel = Tunnel::new(proxy.uri().clone(), tcp);
        match proxy.basic_auth() {
            Some(credentials) => tunnel.with_auth(credentials.clone()),
            None => tunnel,
        }
    };
    through([tunnel(tcp), tunnel(of_writes)], config, silence, gate, requests)
}

/// Lets the kernel give up a write that the network does not deliver, so that it cannot arrive after another host has taken the Lease.
#[cfg(target_os = "linux")]
fn give_up_after(margin: Duration, tcp: &mut HttpConnector) {
    tcp.set_tcp_user_timeout(Some(margin));
}

/// [`of_host`] has refused already.
#[cfg(not(target_os = "linux"))]
fn give_up_after(_: Duration, _: &mut HttpConnector) {}

/// The proxy for an API server: the kubeconfig's, or else the environment's (`HTTPS_PROXY`), except for servers that
/// `NO_PROXY` names. None if the client connects directly, as a host in a Pod does.
///
/// kube returns both proxies in the same field, and compares `NO_PROXY` with the address of the proxy, not of the
/// server.
fn proxy(config: &Config, variable: impl Fn(&str) -> Option<String>) -> Option<Intercept> {
    let named = config.proxy_url.as_ref()?;
    let either = |upper: &str, lower: &str| variable(upper).or_else(|| variable(lower));
    let environments =
        either("HTTPS_PROXY", "https_proxy").filter(|value| value.parse().is_ok_and(|uri: Uri| uri == *named));
    let exceptions = environments.and_then(|_| either("NO_PROXY", "no_proxy")).unwrap_or_default();
    // The matcher applies `*` to names only; curl and kubectl apply it to addresses, too.
    let are_all_excepted = exceptions.split(',').any(|exception| exception.trim() == "*");
    let matcher = Matcher::builder().all(named.to_string()).no(exceptions).build();
    matcher.intercept(&config.cluster_url).filter(|_| !are_all_excepted)
}

/// Builds the client of [`connect`] on connections that `free` opens, and `of_writes` for writes of the host.
fn through<C>(
    [free, of_writes]: [C; 2],
    mut config: Config,
    silence: Duration,
    gate: Option<GateFilter>,
    requests: RequestArgs,
) -> Result<Client, kube::Error>
where
    C: Service<Uri, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin,
{
    // Identifies the client in audit logs and the API server's metrics.
    let agent = HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    let pool = |tcp: C, gate: Option<WriteGate>| {
        let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(fenced(tcp, gate))?);
        connector.set_connect_timeout(config.connect_timeout);
        connector.set_read_timeout(Some(silence));
        connector.set_write_timeout(config.write_timeout);
        // Idle time of a pooled connection before a request does not count as silence of the API server.
        connector.set_reset_reader_on_write(true);
        let mut client = legacy::Client::builder(TokioExecutor::new());
        client.http1_read_buf_exact_size(READ_BUFFER);
        Ok::<_, kube::Error>(client.build::<_, Body>(connector))
    };
    let fence = gate.as_ref().map(|filter| filter.gate.clone());
    let pools = Pools { free: pool(free, None)?, fenced: pool(of_writes, fence)? };
    // Only the host's writes are logged, and only its requests are counted, not those of a user's command.
    let log_and_count = gate.is_some().then(|| {
        let observer = LogAndCount::new(config.cluster_url.host().unwrap_or_default());
        layer_fn(move |inner| Observed { observer: observer.clone(), inner })
    });
    let requests = requests::layer(requests, gate.is_some());
    let service = ServiceBuilder::new()
        .option_layer(gate.map(FilterLayer::new))
        .option_layer(log_and_count)
        .layer(layer_fn(|inner| Observed { observer: HandsOver, inner }))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .option_layer(requests)
        .map_err(BoxError::from)
        .service(pools);
    Ok(ClientBuilder::new(service, config.default_namespace).with_layer(&AndThenLayer::new(into_status)).build())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::{HeaderMap, Request, StatusCode, header};

    use super::*;

    #[test]
    fn kubeconfig_with_impersonation_is_rejected_for_the_host() {
        let with = |user: Option<&str>, groups: &[&str]| {
            let mut config = Config::new("https://10.1.2.3:6443".parse().expect("a URL"));
            config.auth_info.impersonate = user.map(str::to_owned);
            config.auth_info.impersonate_groups = Some(groups.iter().map(ToString::to_string).collect());
            check_impersonation(&config).map_err(|error| error.to_string())
        };
        assert_eq!(with(None, &[]), Ok(()));
        for (user, groups) in [(None, &["system:masters"][..]), (Some("root"), &[]), (Some("root"), &["a", "b"])] {
            let refused = with(user, groups).expect_err("impersonates");
            assert!(groups.iter().copied().chain(user).all(|named| refused.contains(named)), "{refused}");
        }
    }

    fn config(address: std::net::SocketAddr) -> Config {
        Config::new(format!("http://{address}").parse().expect("a URL"))
    }

    #[tokio::test]
    async fn r13_post_that_gets_429_is_sent_once_with_the_hosts_user_agent() {
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        let busy = axum::Router::new().fallback(move |headers: HeaderMap| {
            let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
            counter.fetch_add(usize::from(agent.starts_with("windlass/")), Ordering::Relaxed);
            async { (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "3")], "later") }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async { axum::serve(listener, busy).await });

        let client = connect(config(address), SILENCE, None, RequestArgs::default()).expect("a client");
        let request = Request::post("/api/v1/namespaces/default/pods").body(Vec::new()).expect("a request");
        let error = client.request_text(request).await.expect_err("refused");
        let kube::Error::Api(status) = error else { panic!("{error}") };
        assert_eq!((status.code, status.details.map(|details| details.retry_after_seconds)), (429, Some(3)));
        assert_eq!(requests.load(Ordering::Relaxed), 1);
        serving.abort();
    }

    #[tokio::test]
    async fn unsupported_proxy_is_an_error_and_is_not_bypassed() {
        let mut config = config("127.0.0.1:1".parse().expect("an address"));
        config.proxy_url = Some("https://proxy.example:3128".parse().expect("a URL"));
        let refused =
            connect(config, SILENCE, None, RequestArgs::default()).err().expect("the proxy is unsupported").to_string();
        assert!(refused.contains("proxy.example"), "{refused}");
    }

    #[test]
    fn no_proxy_applies_to_the_environments_proxy_and_not_to_the_kubeconfigs() {
        let proxy_of = |proxy_url: Option<&str>, https_proxy: &'static str, no_proxy: &'static str| {
            let mut config = Config::new("https://10.1.2.3:6443".parse().expect("a URL"));
            config.proxy_url = proxy_url.map(|url| url.parse().expect("a URL"));
            let variable = |name: &str| match name {
                "https_proxy" => Some(https_proxy.to_owned()),
                "NO_PROXY" => Some(no_proxy.to_owned()),
                _ => None,
            };
            proxy(&config, variable).map(|proxy| (proxy.uri().to_string(), proxy.basic_auth().is_some()))
        };
        let expected = Some(("http://proxy.example:3128/".to_owned(), false));
        let url = "http://proxy.example:3128";
        assert_eq!(proxy_of(None, url, ""), None, "kube passes no proxy");
        assert_eq!(proxy_of(Some(url), url, "example.org,10.2.0.0/16"), expected);
        assert_eq!(proxy_of(Some(url), url, "example.org,10.1.0.0/16"), None);
        assert_eq!(proxy_of(Some(url), url, "*"), None);
        assert_eq!(
            proxy_of(Some(url), "http://other.example:3128", "10.1.2.3"),
            expected,
            "NO_PROXY does not apply to the kubeconfig's proxy"
        );
        let with_password = proxy_of(Some("http://ann:secret@proxy.example:3128"), "", "");
        assert_eq!(with_password, Some(("http://proxy.example:3128/".to_owned(), true)));
    }

    #[tokio::test]
    async fn request_on_a_silent_connection_times_out() {
        // The listener accepts connections and never responds.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let client =
            connect(config(address), Duration::from_millis(20), None, RequestArgs::default()).expect("a client");
        let request = Request::get("/api/v1/pods").body(Vec::new()).expect("a request");
        let ended = tokio::time::timeout(Duration::from_mins(1), client.request_text(request)).await;
        let error = ended.expect("the request ends").expect_err("no response");
        assert!(!matches!(error, kube::Error::Api(_)), "{error}");
    }

    #[test]
    fn watch_without_events_ends_before_its_connection_counts_as_silent() {
        for _ in 0..100 {
            let timeout = crate::cluster::watch::settings(None).timeout.expect("a time");
            assert!(Duration::from_secs(timeout.into()) + Duration::from_secs(10) < SILENCE);
        }
    }
}
