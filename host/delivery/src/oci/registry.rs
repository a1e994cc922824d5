//! A client of a registry's HTTP API (OCI distribution specification 1.1): manifests, blobs, and the tokens for them.

use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LINK, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_auth::ChallengeRef;
use parking_lot::Mutex;
use reqwest::{Client, Request, Response, Url};
use serde::Deserialize;
use windlass_core::value::digest::Digest;

use super::clients::{CONNECT, Clients, Http, redirected};
use super::credentials::Credentials;
use super::manifest::{INDEX, MANIFEST};
use super::reach::Reach;
use super::reference::{Reference, Version};
use super::response::{Body, MAX_TALK, checked, header, read, unavailable, unless_silent};
use super::spool::Spool;
use crate::{Cause, DeliveryError};

/// Maximum size of a manifest, or of a list of manifests, in bytes. Manifests of components and signatures have a few
/// KiB. Registries allow 4 MiB, which the host could have to keep for every Plugin at the same time.
const MAX_MANIFEST: u64 = 256 << 10;
/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 5;
/// Maximum number of pages that are read of a list.
const MAX_PAGES: usize = 8;

/// One repository of a registry, accessed with one set of credentials.
pub struct Registry {
    http: Clients,
    /// URL of the registry's server, as in `https://registry.example`.
    root: Url,
    /// The reference of the artifact.
    pub reference: Reference,
    credentials: Option<Credentials>,
    authorization: Mutex<Option<HeaderValue>>,
    /// The address from which its last response came: the registry's own, or that of a proxy.
    sender: Mutex<Option<IpAddr>>,
}

impl Registry {
    /// A client for the repository of a reference. Registries on this machine and those in `plain_http` are reached
    /// without TLS.
    ///
    /// # Errors
    /// If no HTTP client can be created.
    pub fn new(
        http: &Http,
        reference: Reference,
        credentials: Option<Credentials>,
        plain_http: &[String],
    ) -> Result<Self, DeliveryError> {
        let is_plain = reference.is_local() || plain_http.contains(&reference.registry);
        let scheme = if is_plain { "http" } else { "https" };
        let root = Url::parse(&format!("{scheme}://{}", reference.server()));
        let root = root.map_err(|error| DeliveryError::invalid_response(format!("{}: {error}", reference.registry)))?;
        let http = http.clients();
        let http = http.map_err(|error| DeliveryError::no_response(&format!("{error:#}"), None))?;
        Ok(Self { http, root, reference, credentials, authorization: Mutex::default(), sender: Mutex::default() })
    }

    /// Downloads a manifest, or a list of manifests; returns its digest and bytes.
    ///
    /// # Errors
    /// See [`DeliveryError`]; no bytes are returned then.
    pub async fn manifest(&self, version: &Version) -> Result<(Digest, Vec<u8>), DeliveryError> {
        let response = self.ask_for_manifest(Method::GET, version).await?;
        let said = digest_of(response.headers());
        let bytes = read(response, MAX_MANIFEST).await?;
        let found = Digest::of(&bytes);
        let wanted = if let Version::Digest(digest) = version { Some(*digest) } else { said };
        match wanted {
            Some(wanted) if wanted != found => Err(DeliveryError::tampered(wanted, found)),
            _ => Ok((found, bytes)),
        }
    }

    /// The digest of a manifest; `None` if the registry does not give it in a header. Requests no body (`HEAD`),
    /// because some registries meter downloads.
    ///
    /// # Errors
    /// See [`DeliveryError`].
    pub async fn digest(&self, version: &Version) -> Result<Option<Digest>, DeliveryError> {
        Ok(digest_of(self.ask_for_manifest(Method::HEAD, version).await?.headers()))
    }

    async fn ask_for_manifest(&self, method: Method, version: &Version) -> Result<Response, DeliveryError> {
        let mut request = self.request(method, &format!("manifests/{version}"))?;
        for accepted in [MANIFEST, INDEX] {
            request.headers_mut().append(ACCEPT, HeaderValue::from_static(accepted));
        }
        self.send(request, &format!("{}:{version}", self.reference.repository)).await
    }

    /// Downloads a blob of at most `limit` bytes and checks its digest.
    ///
    /// # Errors
    /// See [`DeliveryError`]; no bytes are returned then.
    pub async fn blob(&self, wanted: Digest, limit: u64) -> Result<Vec<u8>, DeliveryError> {
        let bytes = read(self.get_blob(wanted).await?, limit).await?;
        checked_blob(bytes, wanted).await
    }

    /// Downloads a blob of at most `limit` bytes into a spool. Its digest is checked when the spool is read.
    ///
    /// # Errors
    /// See [`DeliveryError`]; no bytes are returned then.
    pub async fn spool_blob(&self, wanted: Digest, limit: u64, mut spool: Spool) -> Result<Spooled, DeliveryError> {
        let mut body = Body::of(self.get_blob(wanted).await?, limit)?;
        while let Some(chunk) = body.next().await? {
            spool = spool.add(chunk.as_ref()).await.map_err(DeliveryError::unkept)?;
        }
        Ok(Spooled { wanted, spool })
    }

    async fn get_blob(&self, wanted: Digest) -> Result<Response, DeliveryError> {
        let request = self.request(Method::GET, &format!("blobs/{wanted}"))?;
        self.send(request, &format!("blob {wanted}")).await
    }

    /// Passes the lists of content that refers to a manifest to `show`, one at a time, with at most one list in memory.
    /// The lists come from the referrers API or, if the registry has none, from the tag that clients maintain instead
    /// ("Unavailable Referrers API").
    ///
    /// # Errors
    /// See [`DeliveryError`]; `show` may have received only some of the lists.
    pub async fn referrers(&self, manifest: Digest, mut show: impl FnMut(&[u8])) -> Result<(), DeliveryError> {
        let mut next = self.request(Method::GET, &format!("referrers/{manifest}"))?;
        let mut shown = 0;
        while shown < MAX_PAGES {
            next.headers_mut().insert(ACCEPT, HeaderValue::from_static(INDEX));
            let response = match self.send(next, &format!("referrers of {manifest}")).await {
                Ok(response) => response,
                // Registries without this API respond in many ways.
                Err(DeliveryError { cause: Cause::NotInRegistry | Cause::InvalidResponse, .. }) if shown == 0 => break,
                Err(error) => return Err(error),
            };
            if !header(response.headers(), CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with(INDEX)) {
                break;
            }
            let following = self.next_page(&response);
            show(&read(response, MAX_MANIFEST).await?);
            shown += 1;
            match following {
                Some(following) => next = following,
                None => return Ok(()),
            }
        }
        if shown == 0
            && let Some(list) = self.tagged(&format!("sha256-{}", manifest.hex())).await?
        {
            show(&list);
        }
        Ok(())
    }

    /// The request for the next page of a list (RFC 8288); `None` if there is none, or if its URL is of another origin.
    fn next_page(&self, response: &Response) -> Option<Request> {
        let link = header(response.headers(), LINK.as_str())?;
        let (target, relation) = link.trim().strip_prefix('<')?.split_once('>')?;
        let target = response.url().join(target).ok()?;
        let is_next = relation.contains("rel=\"next\"") || relation.contains("rel=next");
        (is_next && target.origin() == self.root.origin()).then(|| Request::new(Method::GET, target))
    }

    /// The manifest under a tag; `None` if the tag does not exist.
    ///
    /// # Errors
    /// See [`DeliveryError`].
    pub async fn tagged(&self, tag: &str) -> Result<Option<Vec<u8>>, DeliveryError> {
        match self.manifest(&Version::Tag(tag.to_owned())).await {
            Ok((_, bytes)) => Ok(Some(bytes)),
            Err(DeliveryError { cause: Cause::NotInRegistry, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Uploads a blob, unless the registry has it already.
    ///
    /// # Errors
    /// See [`DeliveryError`].
    pub async fn put_blob(&self, bytes: Vec<u8>) -> Result<(), DeliveryError> {
        let digest = Digest::of(&bytes);
        let what = format!("blob {digest}");
        let known = self.request(Method::HEAD, &format!("blobs/{digest}"))?;
        match self.send(known, &what).await {
            Ok(_) => return Ok(()),
            Err(DeliveryError { cause: Cause::NotInRegistry, .. }) => {}
            Err(error) => return Err(error),
        }
        let begun = self.send(self.request(Method::POST, "blobs/uploads/")?, "place for uploads").await?;
        let location = header(begun.headers(), LOCATION.as_str()).unwrap_or_default();
        let invalid =
            |problem: &str| DeliveryError::invalid_response(format!("invalid upload location {location:?}: {problem}"));
        let mut place = begun.url().join(location).map_err(|error| invalid(&error.to_string()))?;
        if location.is_empty() || self.root.scheme() == "https" && place.scheme() != "https" {
            return Err(invalid("not an HTTPS URL"));
        }
        place.query_pairs_mut().append_pair("digest", &digest.to_string());
        let mut request = Request::new(Method::PUT, place);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        *request.body_mut() = Some(bytes.into());
        self.send(request, &what).await.map(drop)
    }

    /// Uploads a manifest, under the reference's tag if it has one. Returns the manifest's digest.
    ///
    /// # Errors
    /// See [`DeliveryError`].
    pub async fn put_manifest(&self, bytes: Vec<u8>) -> Result<Digest, DeliveryError> {
        let digest = Digest::of(&bytes);
        let version = match &self.reference.version {
            Version::Tag(tag) => tag.clone(),
            Version::Digest(_) => digest.to_string(),
        };
        let mut request = self.request(Method::PUT, &format!("manifests/{version}"))?;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MANIFEST));
        *request.body_mut() = Some(bytes.into());
        self.send(request, &format!("manifest {version}")).await?;
        Ok(digest)
    }

    fn request(&self, method: Method, path: &str) -> Result<Request, DeliveryError> {
        let path = format!("/v2/{}/{path}", self.reference.repository);
        let url = self.root.join(&path).map_err(|error| DeliveryError::invalid_response(format!("{path}: {error}")))?;
        Ok(Request::new(method, url))
    }

    /// Sends a request. If the registry requests authorization, sends the request once more with it.
    async fn send(&self, request: Request, what: &str) -> Result<Response, DeliveryError> {
        let unsendable = || DeliveryError::invalid_response("a request that cannot be repeated".to_owned());
        let again = request.try_clone().ok_or_else(unsendable)?;
        let response = self.send_once(request).await?;
        // After a redirect to another origin, that origin must not get the credentials of this registry.
        let is_asked = response.status() == StatusCode::UNAUTHORIZED && response.url().origin() == self.root.origin();
        if !is_asked {
            return checked(response, what).await;
        }
        let authorization = self.authorize(response.headers()).await?;
        *self.authorization.lock() = Some(authorization);
        checked(self.send_once(again).await?, what).await
    }

    async fn send_once(&self, mut request: Request) -> Result<Response, DeliveryError> {
        for _ in 0..=MAX_REDIRECTS {
            // An upload or a redirect may go to another origin, which must not get the credentials of this registry.
            if request.url().origin() == self.root.origin()
                && let Some(authorization) = self.authorization.lock().clone()
            {
                request.headers_mut().insert(AUTHORIZATION, authorization);
            }
            let again = request.try_clone();
            let response = self.execute(request).await?;
            match again.and_then(|again| redirected(again, &response)) {
                Some(next) => {
                    request =
                        next.map_err(|problem| DeliveryError::invalid_response(format!("its redirection: {problem}")))?;
                }
                None => return Ok(response),
            }
        }
        Err(DeliveryError::no_response("too many redirections", None))
    }

    /// Sends a request to the registry, or to another server that the registry names, if it may lead there.
    async fn execute(&self, request: Request) -> Result<Response, DeliveryError> {
        let is_registry = request.url().host_str() == self.root.host_str();
        let client = if is_registry { self.http.registries.clone() } else { self.client_for(request.url()).await? };
        let is_fetched = request.body().is_none();
        let response = client.execute(request);
        let response = if is_fetched { unless_silent(response).await? } else { response.await };
        let response = response.map_err(unavailable)?;
        if is_registry {
            *self.sender.lock() = response.remote_addr().map(|address| address.ip());
        }
        Ok(response)
    }

    /// A client for a server that the registry names: a token server, or one that it redirects to.
    async fn client_for(&self, url: &Url) -> Result<Client, DeliveryError> {
        let named = url.host_str().zip(url.port_or_known_default());
        let (name, port) = named.ok_or_else(|| DeliveryError::invalid_response(format!("it refers to {url}")))?;
        let addresses = addresses_of(name, port).await;
        // Every registry may lead to public servers, so its own network matters only for others.
        let are_public = addresses.iter().all(|address| Reach::of(address.ip()) == Reach::Public);
        let registry = if are_public { Reach::Public } else { self.reach().await };
        let addresses = registry.permitted(&addresses).map_err(|server| {
            DeliveryError::invalid_response(format!(
                "it refers to the server {name}, which has {server}, while the registry has {registry}: the host sends no request there"
            ))
        })?;
        self.http.pinned(name, &addresses).map_err(unavailable)
    }

    /// The network of the registry.
    async fn reach(&self) -> Reach {
        let name = self.root.host_str().unwrap_or_default();
        if let Some(address) = literal(name) {
            return Reach::of(address);
        }
        let addresses = addresses_of(name, 0).await;
        Reach::of_server(&addresses, *self.sender.lock())
    }

    /// The authorization for the registry's challenges (RFC 9110, section 11).
    async fn authorize(&self, headers: &HeaderMap) -> Result<HeaderValue, DeliveryError> {
        let texts: Vec<_> = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()).collect();
        let challenges: Vec<_> =
            texts.iter().filter_map(|text| http_auth::parse_challenges(text).ok()).flatten().collect();
        let find = |scheme: &str| challenges.iter().find(|challenge| challenge.scheme.eq_ignore_ascii_case(scheme));
        if let Some(challenge) = find("Bearer") {
            return self.token(challenge).await;
        }
        match (&self.credentials, find("Basic")) {
            (Some(Credentials::Basic { user, password }), Some(_)) => basic(user, password),
            (_, Some(_)) => Err(DeliveryError::denied("it requires a user name and a password")),
            (_, None) => Err(DeliveryError::denied("it offers no supported authentication scheme")),
        }
    }

    /// Requests a token for the challenge (the distribution project's "Token Authentication Specification").
    async fn token(&self, challenge: &ChallengeRef<'_>) -> Result<HeaderValue, DeliveryError> {
        let invalid = |problem: String| DeliveryError::invalid_response(format!("its token server: {problem}"));
        let find = |name: &str| {
            let mut found = challenge.params.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.to_unescaped())
        };
        let realm = find("realm").unwrap_or_default();
        let mut realm = Url::parse(&realm).map_err(|error| invalid(format!("{realm:?}: {error}")))?;
        // Credentials of a registry with TLS must not be sent to a realm without TLS.
        if realm.scheme() != "https" && self.root.scheme() == "https" {
            return Err(invalid(format!("{realm} is without TLS")));
        }
        let mut pairs: Vec<(&str, String)> =
            ["service", "scope"].into_iter().filter_map(|name| Some((name, find(name)?))).collect();
        let request = if let Some(Credentials::Identity(token)) = &self.credentials {
            pairs.push(("grant_type", "refresh_token".to_owned()));
            pairs.push(("client_id", "windlass".to_owned()));
            pairs.push(("refresh_token", token.clone()));
            let mut form = Url::parse("form:").map_err(|error| invalid(error.to_string()))?;
            form.query_pairs_mut().extend_pairs(&pairs);
            let mut request = Request::new(Method::POST, realm);
            let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
            request.headers_mut().insert(CONTENT_TYPE, kind);
            *request.body_mut() = Some(form.query().unwrap_or_default().to_owned().into());
            request
        } else {
            realm.query_pairs_mut().extend_pairs(&pairs);
            let mut request = Request::new(Method::GET, realm);
            if let Some(Credentials::Basic { user, password }) = &self.credentials {
                request.headers_mut().insert(AUTHORIZATION, basic(user, password)?);
            }
            request
        };
        // A redirect is not followed: the request may contain secrets for this server.
        let response = unless_silent(self.execute(request)).await??;
        let response = read(checked(response, "token for that").await?, MAX_TALK).await?;
        let response: Token =
            serde_json::from_slice(&response).map_err(|_| invalid("its response is no token".to_owned()))?;
        let token = [response.token, response.access_token].into_iter().flatten().find(|token| !token.is_empty());
        let value = token.and_then(|token| secret(&format!("Bearer {token}")));
        value.ok_or_else(|| invalid("its response is no token".to_owned()))
    }
}

/// The addresses of a server; none if only a proxy knows its name: then the proxy decides.
async fn addresses_of(name: &str, port: u16) -> Vec<SocketAddr> {
    if let Some(address) = literal(name) {
        return vec![(address, port).into()];
    }
    let found = tokio::time::timeout(CONNECT, tokio::net::lookup_host((name, port))).await;
    found.ok().and_then(Result::ok).map(Iterator::collect).unwrap_or_default()
}

/// The address that a URL has in place of a server's name.
fn literal(name: &str) -> Option<IpAddr> {
    name.trim_matches(['[', ']']).parse().ok()
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, DeliveryError> {
    let value = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
    secret(&value).ok_or_else(|| DeliveryError::denied("the credentials fit in no header"))
}

fn secret(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A downloaded blob whose digest has not been checked yet.
#[derive(Debug)]
pub struct Spooled {
    wanted: Digest,
    spool: Spool,
}

impl Spooled {
    /// The bytes of the blob, after their digest was checked.
    ///
    /// # Errors
    /// If the digest differs, or the bytes cannot be read back.
    pub async fn read(self) -> Result<Vec<u8>, DeliveryError> {
        checked_blob(self.spool.read().await.map_err(DeliveryError::unkept)?, self.wanted).await
    }
}

async fn checked_blob(bytes: Vec<u8>, wanted: Digest) -> Result<Vec<u8>, DeliveryError> {
    // Hashing a component of 64 MiB blocks a thread for a while.
    let hashed = tokio::task::spawn_blocking(move || (Digest::of(&bytes), bytes)).await;
    let (found, bytes) = hashed.map_err(|error| DeliveryError::no_response(&error.to_string(), None))?;
    if found == wanted { Ok(bytes) } else { Err(DeliveryError::tampered(wanted, found)) }
}

fn digest_of(headers: &HeaderMap) -> Option<Digest> {
    header(headers, "docker-content-digest")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::Server;
    use super::*;

    #[tokio::test]
    async fn registry_behind_a_proxy_cannot_lead_the_host_to_a_server_in_the_network_of_the_proxy() {
        let (proxy, internal) = (Server::start().await, Server::start().await);
        let reference = format!("registry.invalid:{}/echo:1", proxy.address.port());
        let reference: Reference = reference.parse().expect("a reference");
        let plain_http = [reference.registry.clone()];
        let mut registry = Registry::new(&Http::default(), reference, None, &plain_http).expect("a client");
        // As with a proxy, the responses come from an address that is not one of the registry's.
        registry.http.registries = registry.http.pinned("registry.invalid", &[proxy.address]).expect("a client");
        let blob = internal.blob(b"component");
        let path = format!("/v2/echo/blobs/{blob}");
        let place = format!("http://{}{path}", internal.address);
        proxy.set_response(&format!("GET {path}"), (307, vec![("location", place)], Vec::new()));
        let error = registry.blob(blob, 100).await.expect_err("a redirect");
        assert!(
            error.to_string().contains("an address of this machine, while the registry has a public address"),
            "{error}"
        );
    }
}
