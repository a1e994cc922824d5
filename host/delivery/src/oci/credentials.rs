//! Credentials of registries, as `kubectl create secret docker-registry` and `docker login` write them.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::Reference;

/// Key of the credentials in a Secret of type `kubernetes.io/dockerconfigjson`.
pub const DOCKER_CONFIG_KEY: &str = ".dockerconfigjson";

/// Credentials for a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// User name and password, or a token that the registry accepts as a password.
    Basic {
        /// User name.
        user: String,
        /// Password.
        password: String,
    },
    /// A token that the registry's token server exchanges for access tokens (OAuth 2 refresh token).
    Identity(String),
}

// Credentials must never appear in a log.
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

/// The credentials for a repository in a Docker configuration; `None` if no entry applies. As in kubelet, the longest
/// entry that is a prefix of the repository's name applies.
///
/// # Errors
/// If the configuration is invalid. The message is for users and contains no secret.
pub fn of_docker_config(config: &[u8], reference: &Reference) -> Result<Option<Credentials>, String> {
    let config: Config = serde_json::from_slice(config)
        .map_err(|_| "it holds no valid Docker configuration (JSON with auths)".to_owned())?;
    let mut best: Option<(usize, Credentials)> = None;
    for (name, entry) in config.auths {
        let Some(length) = matched(&name, reference) else { continue };
        let credentials = entry.credentials().map_err(|problem| format!("its entry for {name} {problem}"))?;
        if let Some(credentials) = credentials.filter(|_| best.as_ref().is_none_or(|(best, _)| *best < length)) {
            best = Some((length, credentials));
        }
    }
    Ok(best.map(|(_, credentials)| credentials))
}

/// Rank of the match if an entry's name is a prefix of the reference; a longer match ranks higher. An entry may have a
/// scheme and the path of an API; Docker Hub has several names; `*` matches one label of a host.
fn matched(name: &str, reference: &Reference) -> Option<usize> {
    let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://")).unwrap_or(name);
    let (host, path) = name.split_once('/').unwrap_or((name, ""));
    let host = if matches!(host, "index.docker.io" | "registry-1.docker.io") { "docker.io" } else { host };
    let path = path.trim_matches('/');
    let path = if matches!(path, "v1" | "v2") { "" } else { path };
    let (labels, wanted) = (host.split('.'), reference.registry.split('.'));
    let is_host = host.matches('.').count() == reference.registry.matches('.').count()
        && labels.zip(wanted).all(|(label, wanted)| label == "*" || label == wanted);
    let rest = reference.repository.strip_prefix(path);
    let is_path = path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    // Of two matches of the same length, the match without a wildcard in its host wins.
    (is_host && is_path).then(|| 2 * path.len() + usize::from(!host.contains('*')))
}

impl Entry {
    fn credentials(self) -> Result<Option<Credentials>, String> {
        if let Some(token) = self.identitytoken.filter(|token| !token.is_empty()) {
            return Ok(Some(Credentials::Identity(token)));
        }
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        if let (Some(user), Some(password)) = (given(self.username), given(self.password)) {
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

    fn find(config: &str, reference: &str) -> Result<Option<Credentials>, String> {
        of_docker_config(config.as_bytes(), &reference.parse().expect("a reference"))
    }

    #[test]
    fn credentials_match_their_registry_and_repository_only() {
        let auth = STANDARD.encode("ann:pass:word");
        let config = json!({"auths": {
            "registry.example": {"auth": auth, "username": "", "password": ""},
            "https://registry.example/": {},
            "registry.example/team": {"username": "team", "password": "t"},
            "https://index.docker.io/v1/": {"username": "bob", "password": "b"},
            "tokens.example:5000": {"auth": STANDARD.encode("00:"), "identitytoken": "refresh"},
            "*.cloud.example": {"username": "any", "password": "a"},
            "my.cloud.example": {"username": "mine", "password": "m"},
            "empty.example": {},
        }, "credsStore": "desktop"})
        .to_string();
        for (reference, expected) in [
            ("registry.example/echo", Some(basic("ann", "pass:word"))),
            ("registry.example/teams/echo", Some(basic("ann", "pass:word"))),
            ("registry.example/team/echo", Some(basic("team", "t"))),
            ("docker.io/team/echo", Some(basic("bob", "b"))),
            ("tokens.example:5000/echo", Some(Credentials::Identity("refresh".to_owned()))),
            ("tokens.example/echo", None),
            ("your.cloud.example/echo", Some(basic("any", "a"))),
            ("my.cloud.example/echo", Some(basic("mine", "m"))),
            ("a.b.cloud.example/echo", None),
            ("empty.example/echo", None),
            ("evil.example/registry.example", None),
            ("registry.example.evil.example/echo", None),
        ] {
            assert_eq!(find(&config, reference), Ok(expected), "{reference}");
        }
    }

    #[test]
    fn invalid_docker_config_is_reported_without_its_secrets() {
        for bad in [
            "",
            "hunter2",
            r#"{"auths":{"r.example":{"auth":"hunter2!"}}}"#,
            r#"{"auths":{"r.example":{"auth":"aHVudGVyMg=="}}}"#,
        ] {
            let error = find(bad, "r.example/echo").expect_err(bad);
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert_eq!(format!("{:?}", basic("ann", "hunter2")), "Credentials(…)");
    }
}
