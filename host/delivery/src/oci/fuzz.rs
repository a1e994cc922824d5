//! Fuzz tests with arbitrary bytes, and mutations of the corpus: manifests, references, and Docker configurations with
//! their credentials.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use serde_json::Value;
use windlass_fuzz::{Target, as_others_read};

use super::*;
use crate::MAX_COMPONENT_BYTES;

const COMPONENTS: [&str; 2] = ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];

#[test]
fn fuzz_manifests() {
    Target::new("manifests", 40_000).attack(0.08, |bytes| {
        let Ok((digest, size)) = Manifest::parse(bytes).and_then(|manifest| manifest.component()) else { return false };
        // Another reader of these bytes finds the same single component in them, and no list.
        let Some(manifest) = as_others_read(bytes) else { return true };
        assert_ne!(manifest["mediaType"], "application/vnd.oci.image.index.v1+json");
        assert!(manifest["manifests"].as_array().is_none_or(Vec::is_empty));
        let layers = manifest["layers"].as_array().expect("layers");
        if !layers.iter().all(Value::is_object) {
            return true;
        }
        let is_component = |layer: &&Value| COMPONENTS.iter().any(|kind| layer["mediaType"] == *kind);
        let components: Vec<_> = layers.iter().filter(is_component).collect();
        assert_eq!(components.len(), 1);
        assert_eq!(components[0]["digest"], digest.to_string());
        assert_eq!(components[0]["size"].as_u64().unwrap_or_default(), size);
        assert!(size <= MAX_COMPONENT_BYTES);
        true
    });
}

#[test]
fn fuzz_references() {
    Target::new("references", 50_000).attack(0.2, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return false };
        let reference = match text.parse::<Reference>() {
            Ok(reference) => reference,
            Err(message) => {
                assert!(!message.contains(char::is_control), "{message}");
                return false;
            }
        };
        let written = reference.to_string();
        assert_eq!(written.parse().as_ref(), Ok(&reference));
        let Reference { registry, repository, version } = &reference;
        assert!(written.is_ascii() && !written.contains(|letter: char| " \\?#%".contains(letter)), "{written}");
        assert!(!registry.contains(['@', '/']) && !repository.contains(['@', ':']), "{written}");
        assert!(repository.split('/').all(|part| !matches!(part, "" | "." | "..")), "{written}");

        // Requests go to the host that the reference names.
        let root = Url::parse(&format!("https://{registry}")).unwrap_or_else(|error| panic!("{registry}: {error}"));
        let host = root.host_str().expect("a host");
        let (name, port) = match registry.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            _ => (registry.as_str(), None),
        };
        if name.starts_with('[') {
            assert!(host.starts_with('['), "{registry}: {host}");
        } else {
            assert!(host.eq_ignore_ascii_case(name), "{registry}: {host}");
        }
        let port = port.map(|port| port.parse::<u16>().expect("a port"));
        assert_eq!(root.port_or_known_default(), port.or(Some(443)));
        assert_eq!((root.username(), root.password()), ("", None));
        let path = format!("/v2/{repository}/manifests/{version}");
        let url = root.join(&path).expect("a URL");
        assert_eq!((url.host_str(), url.path(), url.query()), (Some(host), &*path, None));
        true
    });
}

/// The parts of a configuration that no message may contain: the entries' secrets, encoded and decoded.
fn secrets(config: &Value) -> Vec<String> {
    let entries = config["auths"].as_object().into_iter().flatten();
    let mut secrets = Vec::new();
    for (_, entry) in entries {
        for field in ["auth", "password", "identitytoken"] {
            let Some(text) = entry[field].as_str() else { continue };
            let decoded = STANDARD.decode(text.trim()).unwrap_or_default();
            secrets.extend(String::from_utf8_lossy(&decoded).split(':').map(str::to_owned));
            secrets.push(text.to_owned());
        }
    }
    secrets.retain(|secret| secret.len() >= 6);
    secrets
}

/// Whether an entry applies to `registry.example/team/echo`.
fn is_ours(name: &str) -> bool {
    let name = ["https://", "http://"].iter().find_map(|scheme| name.strip_prefix(scheme)).unwrap_or(name);
    let (host, path) = name.split_once('/').unwrap_or((name, ""));
    let hosts = ["registry.example", "*.example", "registry.*", "*.*"];
    hosts.contains(&host) && ["", "v1", "v2", "team", "team/echo"].contains(&path.trim_matches('/'))
}

/// Whether the entry contains these credentials.
fn is_of(entry: &Value, found: &Credentials) -> bool {
    match found {
        _ if entry.is_array() => true,
        Credentials::Identity(token) => entry["identitytoken"] == *token,
        Credentials::Basic { user, password } => {
            let decoded = STANDARD.decode(entry["auth"].as_str().unwrap_or_default().trim()).unwrap_or_default();
            let is_pair = entry["username"] == *user && entry["password"] == *password;
            is_pair || String::from_utf8_lossy(&decoded).trim_end_matches('\0') == format!("{user}:{password}")
        }
    }
}

#[test]
fn fuzz_docker_configs() {
    let reference: Reference = "registry.example/team/echo:1".parse().expect("a reference");
    Target::new("docker-configs", 40_000).attack(0.03, |input| {
        let config = as_others_read(input).unwrap_or_default();
        match of_docker_config(input, &reference) {
            Ok(None) => false,
            Ok(Some(found)) => {
                assert_eq!(format!("{found:?}"), "Credentials(…)");
                if config.is_null() {
                    return true;
                }
                let entries = config["auths"].as_object().expect("auths").iter();
                let mut ours = entries.filter(|(name, _)| is_ours(name)).map(|(_, entry)| entry);
                assert!(ours.any(|entry| is_of(entry, &found)), "credentials of another registry");
                true
            }
            Err(message) => {
                let names: Vec<_> = config["auths"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
                let is_leaked =
                    |secret: &String| message.contains(secret) && !names.iter().any(|name| name.contains(secret));
                assert!(!secrets(&config).iter().any(is_leaked), "{message}");
                false
            }
        }
    });
}
