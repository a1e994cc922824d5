//! References to artifacts: `registry.example/team/echo:1.2`, or `…@sha256:…`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;
use windlass_core::value::digest::Digest;

/// Maximum length of a repository name, in characters (the distribution specification's advice for clients).
const MAX_NAME: usize = 255;
/// Maximum length of a tag, in characters (OCI distribution specification, "Pulling manifests").
const MAX_TAG: usize = 128;

/// A reference to an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Host, with a port if it is not the scheme's default.
    pub registry: String,
    /// Name of the repository in the registry.
    pub repository: String,
    /// Tag or digest of the artifact.
    pub version: Version,
}

/// Selects an artifact of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// The artifact that this tag points to now.
    Tag(String),
    /// The artifact of this digest.
    Digest(Digest),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

impl Reference {
    /// The artifact of this digest in the same repository.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Self {
        Self { version: Version::Digest(digest), ..self.clone() }
    }

    /// The host name of the registry's server: the server of Docker Hub has another name than the registry.
    pub fn server(&self) -> &str {
        if self.registry == "docker.io" { "registry-1.docker.io" } else { &self.registry }
    }

    /// Whether the registry is on this machine. Such registries are reached without TLS, as in other clients.
    pub fn is_local(&self) -> bool {
        let host = match self.registry.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
            _ => &self.registry,
        };
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if matches!(self.version, Version::Tag(_)) { ':' } else { '@' };
        write!(f, "{}/{}{separator}{}", self.registry, self.repository, self.version)
    }
}

impl FromStr for Reference {
    type Err = String;

    /// Parses the usual notation. A digest takes precedence over a tag beside it; without either, the tag is `latest`.
    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = |problem: &str| {
            format!(
                "invalid artifact reference {text:?}: {problem}; write it as registry.example/team/echo:1.2, or with \
                 @sha256:… in place of the tag"
            )
        };
        let (registry, rest) = text.split_once('/').ok_or_else(|| invalid("it names no registry"))?;
        if !is_registry(registry) {
            return Err(invalid("its first part is not a host name"));
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => {
                let digest = digest.parse::<Digest>().map_err(|error| invalid(&error.to_string()))?;
                (rest, Some(digest))
            }
            None => (rest, None),
        };
        let (repository, tag) = rest.split_once(':').map_or((rest, None), |(rest, tag)| (rest, Some(tag)));
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(invalid(&format!("invalid tag {tag:?}")));
        }
        if repository.len() > MAX_NAME || !repository.split('/').all(is_name) {
            return Err(invalid(&format!("invalid repository {repository:?}")));
        }
        let version = digest.map_or_else(|| Version::Tag(tag.unwrap_or("latest").to_owned()), Version::Digest);
        Ok(Self { registry: registry.to_owned(), repository: repository.to_owned(), version })
    }
}

/// Whether this is a registry: a host name with a dot or a port, or `localhost`. Any other name is more likely a
/// repository without its registry.
fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, "")) => (address, None),
            Some((address, port)) => (address, port.strip_prefix(':').or(Some(""))),
            None => return false,
        },
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if port.is_some_and(|port| !is_port(port)) {
        return false;
    }
    if text.starts_with('[') {
        return host.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    // URL parsers accept further notations of an address: they read `0x7f.1` as this machine.
    let is_itself = |url: Url| url.host_str().is_some_and(|same| same.eq_ignore_ascii_case(host));
    host.split('.').all(is_label)
        && (host.contains('.') || port.is_some() || host == "localhost")
        && Url::parse(&format!("https://{host}")).is_ok_and(is_itself)
}

/// Whether this is a part of a repository's name: lower-case words separated by one `.`, one or two `_`, or any number
/// of `-`.
fn is_name(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut separators =
        part.split(|letter: char| u8::try_from(letter).is_ok_and(is_word)).filter(|run| !run.is_empty());
    let is_separator = |run: &str| matches!(run, "." | "_" | "__") || run.bytes().all(|byte| byte == b'-');
    let ends_in_words = |byte: Option<u8>| byte.is_some_and(is_word);
    ends_in_words(part.bytes().next()) && ends_in_words(part.bytes().last()) && separators.all(is_separator)
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let inner = |byte: u8| is_word(byte) || matches!(byte, b'.' | b'-');
    text.len() <= MAX_TAG && text.bytes().next().is_some_and(is_word) && text.bytes().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn parts(text: &str) -> Option<(String, String, String)> {
        let Reference { registry, repository, version } = text.parse().ok()?;
        Some((registry, repository, version.to_string()))
    }

    #[test]
    fn reference_is_parsed_into_registry_repository_and_version() {
        for (text, registry, repository, version) in [
            ("registry.example/echo:1.2", "registry.example", "echo", "1.2"),
            ("registry.example/a/b-c/d__e", "registry.example", "a/b-c/d__e", "latest"),
            ("localhost:5000/echo", "localhost:5000", "echo", "latest"),
            ("localhost/echo:v1", "localhost", "echo", "v1"),
            ("registry:5000/echo:v1", "registry:5000", "echo", "v1"),
            ("[::1]:5000/echo:v1", "[::1]:5000", "echo", "v1"),
            ("docker.io/team/echo:1", "docker.io", "team/echo", "1"),
        ] {
            let expected = (registry.to_owned(), repository.to_owned(), version.to_owned());
            assert_eq!(parts(text), Some(expected), "{text}");
        }
        for tagged in ["", ":1.2"] {
            let text = format!("registry.example/echo{tagged}@{DIGEST}");
            let expected = ("registry.example".to_owned(), "echo".to_owned(), DIGEST.to_owned());
            assert_eq!(parts(&text), Some(expected), "a digest takes precedence over a tag");
        }
    }

    #[test]
    fn invalid_reference_is_rejected_with_an_example() {
        let long = format!("registry.example/{}", "a".repeat(256));
        for bad in [
            "",
            "echo",
            "echo:1",
            "team/echo:1",
            "/echo",
            "registry.example/",
            "registry.example/Echo",
            "registry.example/a..b",
            "registry.example/../secret",
            "registry.example/a//b",
            "registry.example/-a",
            "registry.example/echo:",
            "registry.example/echo:a/b",
            "registry.example/echo@sha256:12",
            "registry.example/echo@md5:12",
            "a:b/echo",
            "https://registry.example/echo",
            "user@registry.example/echo",
            "registry.example/ec ho",
            "-a.b/echo",
            "[::1/echo",
            "[::1]x/echo",
            "registry.example:99999/echo",
            "registry.example:+80/echo",
            "0x7f.0.0.1/echo",
            "127.1:5000/echo",
            "2130706433:80/echo",
            "registry.example/echo?x=y",
            "registry.example/ec%2fho",
            &long,
        ] {
            let error = bad.parse::<Reference>().expect_err(bad);
            assert!(error.contains("write it as registry.example/team/echo:1.2"), "{error}");
        }
    }

    #[test]
    fn registries_on_this_machine_are_recognized() {
        for (text, is_local) in [
            ("localhost:5000/a", true),
            ("127.0.0.1:5000/a", true),
            ("[::1]:5000/a", true),
            ("localhost/a", true),
            ("registry.example:5000/a", false),
            ("10.0.0.1:5000/a", false),
            ("127.example.com/a", false),
            ("localhost.example/a", false),
        ] {
            assert_eq!(text.parse::<Reference>().expect(text).is_local(), is_local, "{text}");
        }
    }
}
