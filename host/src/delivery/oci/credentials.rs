//! Credentials of registries, as `kubectl create secret docker-registry` and `docker login` write them.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Key of the credentials in a Secret of type `kubernetes.io/dockerconfigjson`.
pub const DOCKER_CONFIG_KEY: &str = ".dockerconfigjson";

/// How a registry knows its caller.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// User name and password, or whatever token the registry takes for one.
    Basic {
        /// User name.
        user: String,
        /// Password.
        password: String,
    },
    /// A token that the registry's token server changes for others (OAuth 2 refresh token).
    Identity(String),
}

// Never in a log.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// The credentials that a Docker configuration holds of a registry, if any.
///
/// # Errors
/// In words for a user, without anything of the secret: it is no such configuration.
pub fn of_docker_config(config: &[u8], registry: &str) -> Result<Option<Credentials>, String> {
    let config: Config = serde_json::from_slice(config)
        .map_err(|_| "it holds no valid Docker configuration (JSON with auths)".to_owned())?;
    let entry = config.auths.into_iter().find(|(name, _)| host_of(name) == host_of(registry));
    entry.map_or(Ok(None), |(name, entry)| {
        entry.credentials().map_err(|problem| format!("its entry for {name} {problem}"))
    })
}

/// Entries are written with a scheme and a path as well, and Docker Hub's has a name of its own.
fn host_of(name: &str) -> &str {
    let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://")).unwrap_or(name);
    let host = name.split_once('/').map_or(name, |(host, _)| host);
    if matches!(host, "index.docker.io" | "registry-1.docker.io") { "docker.io" } else { host }
}

impl Entry {
    fn credentials(self) -> Result<Option<Credentials>, String> {
        if let Some(token) = self.identitytoken.filter(|token| !token.is_empty()) {
            return Ok(Some(Credentials::Identity(token)));
        }
        if let (Some(user), Some(password)) = (self.username, self.password) {
            return Ok(Some(Credentials::Basic { user, password }));
        }
        let Some(auth) = self.auth.filter(|auth| !auth.is_empty()) else { return Ok(None) };
        let decoded = STANDARD.decode(auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|text| text.trim_end_matches('\0').split_once(':'));
        let (user, password) = pair.ok_or("has an auth that is not the base64 of user:password")?;
        Ok(Some(Credentials::Basic { user: user.to_owned(), password: password.to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn basic(user: &str, password: &str) -> Credentials {
        Credentials::Basic { user: user.to_owned(), password: password.to_owned() }
    }

    #[test]
    fn credentials_are_those_of_the_registry_alone() {
        let auth = STANDARD.encode("ann:pass:word");
        let config = json!({"auths": {
            "registry.example": {"auth": auth},
            "https://index.docker.io/v1/": {"username": "bob", "password": "b"},
            "tokens.example:5000": {"auth": STANDARD.encode("00:"), "identitytoken": "refresh"},
            "empty.example": {},
        }, "credsStore": "desktop"})
        .to_string();
        for (registry, wanted) in [
            ("registry.example", Some(basic("ann", "pass:word"))),
            ("registry-1.docker.io", Some(basic("bob", "b"))),
            ("tokens.example:5000", Some(Credentials::Identity("refresh".to_owned()))),
            ("tokens.example", None),
            ("empty.example", None),
            ("evil.example", None),
            ("registry.example.evil.example", None),
        ] {
            assert_eq!(of_docker_config(config.as_bytes(), registry), Ok(wanted), "{registry}");
        }
    }

    #[test]
    fn a_configuration_that_is_none_is_told_without_what_it_holds() {
        for bad in [
            "",
            "hunter2",
            r#"{"auths":{"r.example":{"auth":"hunter2!"}}}"#,
            r#"{"auths":{"r.example":{"auth":"aHVudGVyMg=="}}}"#,
        ] {
            let error = of_docker_config(bad.as_bytes(), "r.example").expect_err(bad);
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert_eq!(format!("{:?}", basic("ann", "hunter2")), "Credentials(…)");
    }
}
