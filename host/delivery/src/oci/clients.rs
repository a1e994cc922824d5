//! The HTTP clients of registries, and the redirects that they are told.

use std::net::SocketAddr;
use std::time::Duration;

use http::header::{AUTHORIZATION, LOCATION};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use reqwest::{Client, ClientBuilder, Request, Response, redirect};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Timeout of a connection, including TLS.
pub(super) const CONNECT: Duration = Duration::from_secs(10);
/// Timeout of a whole request: over a slow line, the transfer of a component takes minutes.
const WHOLE: Duration = Duration::from_mins(10);

/// The HTTP clients for all registries. They are created at the first request, because the system's certificates take
/// memory.
#[derive(Default)]
pub struct Http(Mutex<Option<Clients>>);

/// Clients that follow no redirects: it must be checked first where a redirect leads.
#[derive(Clone)]
pub(super) struct Clients {
    pub registries: Client,
    tls: ClientConfig,
}

impl Http {
    /// The clients.
    ///
    /// # Errors
    /// If the system's certificates cannot be used.
    pub(super) fn clients(&self) -> anyhow::Result<Clients> {
        let mut clients = self.0.lock();
        if let Some(clients) = &*clients {
            return Ok(clients.clone());
        }
        Ok(clients.insert(Clients::new()?).clone())
    }
}

impl Clients {
    fn new() -> anyhow::Result<Self> {
        let tls = tls()?;
        Ok(Self { registries: builder(&tls).build()?, tls })
    }

    /// A client that connects to a server of this name at these addresses only, whatever its name resolves to later.
    pub fn pinned(&self, name: &str, addresses: &[SocketAddr]) -> reqwest::Result<Client> {
        builder(&self.tls).resolve_to_addrs(name, addresses).build()
    }
}

fn builder(tls: &ClientConfig) -> ClientBuilder {
    Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .connect_timeout(CONNECT)
        .timeout(WHOLE)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
}

fn tls() -> anyhow::Result<ClientConfig> {
    let tls = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    Ok(tls)
}

/// The request that follows a redirect, without the authorization for the server before; or what is wrong with the place. `None` if the
/// response is no redirect.
pub(super) fn redirected(mut request: Request, response: &Response) -> Option<Result<Request, String>> {
    let status = response.status();
    let location = response.headers().get(LOCATION).filter(|_| status.is_redirection())?.to_str().ok()?;
    let changes_method = match status {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => false,
        StatusCode::SEE_OTHER => true,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => request.method() == Method::POST,
        _ => return None,
    };
    let place = match response.url().join(location) {
        Ok(place) => place,
        Err(error) => return Some(Err(format!("{location:?}: {error}"))),
    };
    if response.url().scheme() == "https" && place.scheme() != "https" {
        return Some(Err(format!("{place} is without TLS")));
    }
    if changes_method && request.method() != Method::HEAD {
        *request.method_mut() = Method::GET;
        *request.body_mut() = None;
    }
    request.headers_mut().remove(AUTHORIZATION);
    *request.url_mut() = place;
    Some(Ok(request))
}
