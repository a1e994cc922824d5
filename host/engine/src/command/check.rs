//! `--check`: checks whether a host can run here, and says what is missing and how to get it. It changes
//! nothing in the cluster.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use futures::future::join_all;
use http::{Request, header};
use jiff::SignedDuration;
use jiff::fmt::rfc2822::DateTimeParser;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec,
};
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client, CustomResourceExt as _};
use serde_json::Value;
use windlass_api::{PLUGIN_CRD as CRD, Plugin};
use windlass_core::hosts::lease::Step;
use windlass_core::plugin::schema;

use super::INPUT_REJECTED;
use crate::clock;
use crate::cluster::lease::{Election, Instance, NAME as LEASE, preview};
use crate::cluster::secret_key::SecretKey;
use crate::cluster::{access_review, in_time};
use crate::output::WithCauses;
use crate::plugins::rbac::{self, MARK_KEY_SECRET, RNG_KEY_SECRET};
use crate::run::Settings;
use crate::serve::{DebugAddr, listen, listen_debug};

/// The oldest supported minor version of Kubernetes 1: the first with `ValidatingAdmissionPolicy` v1.
const OLDEST_MINOR: u32 = 30;
/// Tolerated difference between the clocks of this machine and of the API server.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// What to check.
pub struct Setup {
    /// The client, or why there is none.
    pub client: anyhow::Result<Client>,
    /// The settings of the host.
    pub settings: Settings,
    /// Whether the sandbox can use the folder of compiled components.
    pub cache: anyhow::Result<()>,
    /// The addresses to listen on, with their flags, except that of the recent calls.
    pub addresses: Vec<(&'static str, SocketAddr)>,
}

/// Result of one check: what is well, or a problem with what to do. None if it was not checked, because the API server cannot be reached.
type Finding = Option<Result<String, String>>;

/// Checks everything, and prints one line for each check.
pub async fn main(setup: Setup) -> ExitCode {
    let findings = setup.findings().await;
    for (what, finding) in &findings {
        let (state, text) = match finding {
            Some(Ok(fine)) => ("ok", fine.as_str()),
            Some(Err(problem)) => ("PROBLEM", problem.as_str()),
            None => ("skipped", "not checked: the API server cannot be reached"),
        };
        crate::out!("{state:8} {what:13} {text}");
    }
    let problems = findings.iter().filter(|(_, finding)| matches!(finding, Some(Err(_)))).count();
    if problems == 0 {
        return ExitCode::SUCCESS;
    }
    crate::err!("error: {problems} of {} checks found a problem", findings.len());
    ExitCode::from(INPUT_REJECTED)
}

impl Setup {
    async fn findings(self) -> Vec<(&'static str, Finding)> {
        let Settings { namespace, election, cache_dir, plugins, debug_addr, .. } = self.settings;
        let mut findings = vec![
            ("cache folder", Some(cache(&cache_dir, &self.cache))),
            ("addresses", Some(addresses(&self.addresses, debug_addr))),
        ];
        if let Some(folder) = &plugins {
            findings.push(("plugins", Some(files(folder))));
        }
        let reached = match self.client {
            Ok(client) => server(&client).await.map(|found| (client, found)),
            Err(error) => Err(WithCauses(&error).to_string()),
        };
        let (client, Server { version, ahead }) = match reached {
            Ok(reached) => reached,
            Err(problem) => {
                findings.push(("API server", Some(Err(problem))));
                findings.extend(["account", "clock", "CRD", "permissions", "keys", "Lease"].map(|what| (what, None)));
                return findings;
            }
        };
        let (crd, permissions, keys, lease) = tokio::join!(
            crd(&client),
            permissions(&client, &namespace),
            keys(&client, &namespace),
            lease(&client, &namespace, election, &cache_dir),
        );
        findings.extend([
            ("API server", Some(version)),
            ("account", Some(access_review::own_user(client.clone())().await)),
            ("clock", Some(clock(ahead))),
            ("CRD", Some(crd)),
            ("permissions", Some(permissions)),
            ("keys", Some(keys)),
            ("Lease", Some(lease)),
        ]);
        findings
    }
}

fn cache(folder: &Path, usable: &anyhow::Result<()>) -> Result<String, String> {
    match usable {
        Ok(()) => Ok(format!("{} can be used", folder.display())),
        Err(error) => Err(format!(
            "{}. Set --cache-dir to a folder that belongs to the host's user, and that no other user can write to",
            WithCauses(error)
        )),
    }
}

fn addresses(addresses: &[(&'static str, SocketAddr)], debug: Option<DebugAddr>) -> Result<String, String> {
    let mut free = Vec::new();
    // Kept to the end, so that two flags with one address are found.
    let mut listeners = Vec::new();
    for (flag, address) in addresses {
        listeners.push(listen(flag, *address).map_err(|error| error.to_string())?);
        free.push(format!("{flag} {address}"));
    }
    if let Some(debug) = debug {
        let listener = listen_debug(debug).map_err(|error| error.to_string())?;
        free.push(format!("--debug-addr {}", listener.local_addr().map_err(|error| error.to_string())?));
    }
    Ok(format!("free: {}", free.join(", ")))
}

fn files(folder: &Path) -> Result<String, String> {
    let count = || -> io::Result<usize> { Ok(std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?.len()) };
    let files = count().map_err(|error| format!("--plugins {} cannot be read: {error}", folder.display()))?;
    Ok(format!("--plugins {} has {files} files", folder.display()))
}

/// What the API server says of itself.
struct Server {
    /// The version, or why it is not supported.
    version: Result<String, String>,
    /// How far this machine's clock is ahead of the server's; none if the server does not send its time.
    ahead: Option<SignedDuration>,
}

async fn server(client: &Client) -> Result<Server, String> {
    let unreachable = |error: &dyn fmt::Display| format!("the API server cannot be reached: {error}");
    let request = Request::get("/version").body(Body::empty()).map_err(|error| unreachable(&error))?;
    let response = in_time(client.send(request)).await.map_err(|error| unreachable(&WithCauses(&error.into())))?;
    let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
    let ahead = date.map(|date| clock::date().duration_since(date));
    if !response.status().is_success() {
        return Err(format!(
            "the API server rejects the request for its version: {}. Check the credentials in the kubeconfig",
            response.status()
        ));
    }
    let body = response.into_body().collect_bytes().await.map_err(|error| unreachable(&error))?;
    let info: Value = serde_json::from_slice(&body).map_err(|error| unreachable(&error))?;
    let text = |key: &str| info.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let minor: u32 = text("minor").trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or_default();
    let version = text("gitVersion");
    let version = if minor < OLDEST_MINOR {
        Err(format!("Kubernetes {version} is too old: Windlass needs 1.{OLDEST_MINOR} or newer"))
    } else {
        Ok(format!("Kubernetes {version}"))
    };
    Ok(Server { version, ahead })
}

fn clock(ahead: Option<SignedDuration>) -> Result<String, String> {
    let Some(ahead) = ahead else { return Ok("the API server sends no Date header".to_owned()) };
    if ahead.abs() > CLOCK_SKEW {
        let direction = if ahead.is_negative() { "behind" } else { "ahead of" };
        return Err(format!(
            "this machine's clock is {} s {direction} the API server's: certificates, tokens and timestamps will be wrong. Set \
             the clock, for example by NTP",
            ahead.abs().as_secs()
        ));
    }
    Ok("agrees with the API server's".to_owned())
}

/// Checks that the installed CRD of Plugins is not older than this version; each text says so, for users.
pub async fn crd(client: &Client) -> Result<String, String> {
    const APPLY: &str = "apply it with `windlass crd | kubectl apply --server-side -f -`";
    let found = in_time(Api::<CustomResourceDefinition>::all(client.clone()).get_opt(CRD)).await;
    let found = found.map_err(|error| format!("{CRD} cannot be read: {error}"))?;
    let Some(found) = found else { return Err(format!("{CRD} is not installed: {APPLY}")) };
    let conditions = found.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    if !conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
        return Err(format!("{CRD} is not established yet: see `kubectl describe crd {CRD}`"));
    }
    let own = Plugin::crd();
    let json = |spec: &CustomResourceDefinitionSpec| {
        serde_json::to_value(spec).map_err(|error| format!("{CRD} cannot be compared: {error}"))
    };
    let lacking = schema::narrowings(&json(&own.spec)?, &json(&found.spec)?);
    if lacking.is_empty() {
        Ok(format!("{CRD} is that of this version, or a later one"))
    } else {
        Err(format!("{CRD} is older than this host ({}): {APPLY}", schema::list(&lacking)))
    }
}

/// Reviews every permission of the roles that `windlass generate rbac` prints.
async fn permissions(client: &Client, namespace: &str) -> Result<String, String> {
    let wanted: Vec<_> = rbac::host_objects(namespace).iter().flat_map(permissions_of).collect();
    let count = wanted.len();
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = async |attributes: ResourceAttributes| {
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes.clone()), ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let reviewed = in_time(reviews.create(&PostParams::default(), &review)).await;
        reviewed.map(|reviewed| (!reviewed.status.is_some_and(|status| status.allowed)).then(|| described(&attributes)))
    };
    let reviewed: Result<Vec<_>, _> = join_all(wanted.into_iter().map(review)).await.into_iter().collect();
    let missing: Vec<_> =
        reviewed.map_err(|error| format!("permissions cannot be reviewed: {error}"))?.into_iter().flatten().collect();
    if missing.is_empty() {
        return Ok(format!(
            "the host has all {count} of its own; those for a plugin are written by `windlass push --create-rbac`"
        ));
    }
    Err(format!(
        "the host may not {}. Apply what `windlass generate rbac --namespace {namespace}` prints, and run as the ServiceAccount \
         windlass in namespace {namespace}",
        missing.join("; ")
    ))
}

/// The permissions that a Role or ClusterRole gives.
fn permissions_of(role: &Value) -> Vec<ResourceAttributes> {
    let namespace = role.pointer("/metadata/namespace").and_then(Value::as_str).map(str::to_owned);
    let rules = role.get("rules").cloned().and_then(|rules| serde_json::from_value::<Vec<PolicyRule>>(rules).ok());
    let mut all = Vec::new();
    for rule in rules.unwrap_or_default() {
        let names = rule.resource_names.map_or_else(|| vec![None], |names| names.into_iter().map(Some).collect());
        let groups = rule.api_groups.unwrap_or_default();
        for (group, resource) in pairs(&groups, &rule.resources.unwrap_or_default()) {
            let (resource, subresource) = match resource.split_once('/') {
                Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
                None => (resource.as_str(), None),
            };
            for (verb, name) in pairs(&rule.verbs, &names) {
                all.push(ResourceAttributes {
                    group: Some(group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource: subresource.clone(),
                    verb: Some(verb.clone()),
                    name: name.clone(),
                    namespace: namespace.clone(),
                    ..ResourceAttributes::default()
                });
            }
        }
    }
    all
}

/// Each of the first with each of the others.
fn pairs<'a, A, B>(first: &'a [A], others: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    first.iter().flat_map(move |one| others.iter().map(move |other| (one, other)))
}

/// A permission, as `kubectl auth can-i` writes it.
fn described(attributes: &ResourceAttributes) -> String {
    let part = |text: &Option<String>, before: &str| {
        text.as_deref().filter(|text| !text.is_empty()).map_or_else(String::new, |text| format!("{before}{text}"))
    };
    format!(
        "{} {}{}{}{}{}",
        attributes.verb.as_deref().unwrap_or_default(),
        attributes.resource.as_deref().unwrap_or_default(),
        part(&attributes.group, "."),
        part(&attributes.subresource, "/"),
        part(&attributes.name, " "),
        part(&attributes.namespace, " in namespace "),
    )
}

async fn keys(client: &Client, namespace: &str) -> Result<String, String> {
    let mut states = Vec::new();
    for name in [MARK_KEY_SECRET, RNG_KEY_SECRET] {
        let key = SecretKey::new(client.clone(), namespace, name).read().await.map_err(|error| error.to_string())?;
        states.push(if key.is_some() {
            format!("Secret {name} exists")
        } else {
            format!("the host creates Secret {name} when it needs it")
        });
    }
    Ok(states.join("; "))
}

async fn lease(client: &Client, namespace: &str, election: Election, cache_dir: &Path) -> Result<String, String> {
    let lease = format!("Lease {namespace}/{LEASE}");
    let (step, holder) = preview(client.clone(), namespace, election, &Instance::of(cache_dir))
        .await
        .map_err(|error| format!("{lease} cannot be read: {error}"))?;
    match step {
        Step::Take => Ok(format!("{lease} is free: this host would lead")),
        Step::Wait { .. } => {
            Ok(format!("{lease} is held by {holder}: this host would stand by, or wait until it expires"))
        }
        Step::Refuse { .. } => Err(format!(
            "{lease} is held by {holder}, and this host would exit beside it. Stop that host, or start this one with \
             --leader-elect"
        )),
    }
}
