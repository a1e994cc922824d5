//! A registry for OCI artifacts, for tests of pushes and pulls.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::credentials::{issue, private_file};
use crate::ports;
use crate::supervised::{Plan, Process, Ready, Supervised};
use crate::tools;

/// The user of a registry with authentication.
pub const REGISTRY_USER: &str = "ann";
/// That user's password.
pub const REGISTRY_PASSWORD: &str = "open sesame";
/// The password as bcrypt, as `htpasswd -B` writes it.
const REGISTRY_ACCOUNT: &str = "ann:$2b$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy\n";

/// A running registry. Dropping it ends it; so does any end of this process.
pub struct Registry {
    dir: PathBuf,
    address: String,
    doors: Doors,
    processes: Option<Supervised>,
}

/// How a registry authenticates clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doors {
    Open,
    Accounts,
    Tls,
}

impl Registry {
    /// Starts a registry without authentication on a free loopback port, with its files in `dir`, which the caller
    /// removes.
    pub fn start(dir: &Path) -> Result<Self> {
        Self::with(dir, Doors::Open)
    }

    /// [`Registry::start`] with authentication as [`REGISTRY_USER`].
    pub fn with_accounts(dir: &Path) -> Result<Self> {
        Self::with(dir, Doors::Accounts)
    }

    /// [`Registry::start`] over TLS, with a certificate for one name, which [`Registry::ca`] signed.
    pub fn with_tls(dir: &Path, name: &str) -> Result<Self> {
        let issued = issue("registry", &[name])?;
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        private_file(&dir.join("ca.pem"), issued.ca.as_bytes())?;
        private_file(&dir.join("registry.pem"), issued.certificate.as_bytes())?;
        private_file(&dir.join("registry.key"), issued.key.as_bytes())?;
        Self::with(dir, Doors::Tls)
    }

    fn with(dir: &Path, doors: Doors) -> Result<Self> {
        let dir = std::path::absolute(dir)?;
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let mut tries = 1;
        loop {
            let [port] = ports::free()?;
            let mut registry = Self { dir: dir.clone(), address: format!("127.0.0.1:{port}"), doors, processes: None };
            match registry.restart() {
                Ok(()) => return Ok(registry),
                // Another process took the port in the meantime.
                Err(error) if tries < 3 && format!("{error:#}").contains("address already in use") => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts the registry again at the same address, with the same content.
    pub fn restart(&mut self) -> Result<()> {
        self.stop();
        let program = tools::registry(&tools::stderr)?;
        let supervise = tools::supervise(&tools::stderr)?;
        let config = self.dir.join("registry.yaml");
        fs::write(&config, self.configuration()).with_context(|| format!("cannot write {}", config.display()))?;
        fs::write(self.dir.join("htpasswd"), REGISTRY_ACCOUNT).context("cannot write the registry's accounts")?;
        let argv = vec![program.display().to_string(), "serve".to_owned(), config.display().to_string()];
        let plan = Plan {
            dir: self.dir.clone(),
            processes: vec![Process { name: "registry", argv, after_server: false }],
            ready: Ready { tcp: vec![self.address.clone()], timeout_seconds: 60, ..Ready::default() },
            ..Plan::default()
        };
        let processes = Supervised::start(&supervise, &plan);
        self.processes =
            Some(processes.with_context(|| format!("no registry; its files are in {}", self.dir.display()))?);
        Ok(())
    }

    /// Ends the registry. Its content stays.
    pub fn stop(&mut self) {
        self.processes = None;
    }

    /// Host and port, as in references.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The file with the CA certificate of a registry with TLS.
    pub fn ca(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// The file with a blob, by its digest (`sha256:…`).
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let folder = hex.get(..2).unwrap_or_default();
        self.dir.join("data/docker/registry/v2/blobs/sha256").join(folder).join(hex).join("data")
    }

    /// Stores any bytes as the manifest of a tag.
    pub fn put_manifest(&self, repository: &str, tag: &str, manifest: &str) -> Result<()> {
        let kind = serde_json::from_str::<serde_json::Value>(manifest)?;
        let kind = kind.get("mediaType").and_then(serde_json::Value::as_str).context("a manifest has a mediaType")?;
        let header = format!("Content-Type: {kind}");
        let (status, answer) = self.ask("PUT", repository, tag, &header, manifest)?;
        ensure!(status == 201, "the registry refuses the manifest: {status} {answer}");
        Ok(())
    }

    /// The manifest of a tag, if there is one.
    pub fn manifest(&self, repository: &str, tag: &str) -> Result<Option<String>> {
        let kinds = "Accept: application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";
        let (status, answer) = self.ask("GET", repository, tag, kinds, "")?;
        ensure!(matches!(status, 200 | 404), "the registry gives no manifest: {status} {answer}");
        Ok((status == 200).then_some(answer))
    }

    fn ask(&self, method: &str, repository: &str, tag: &str, header: &str, body: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address).context("the registry does not answer")?;
        write!(
            stream,
            "{method} /v2/{repository}/manifests/{tag} HTTP/1.0\r\nHost: {}\r\n{header}\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("the registry's answer has no end of its head")?;
        let status = head.split(' ').nth(1).context("the registry's answer has no status")?.parse()?;
        Ok((status, body.to_owned()))
    }

    fn configuration(&self) -> String {
        let mut http = serde_json::json!({"addr": self.address});
        if self.doors == Doors::Tls {
            let (certificate, key) = (self.dir.join("registry.pem"), self.dir.join("registry.key"));
            http = serde_json::json!({"addr": self.address, "tls": {"certificate": certificate, "key": key}});
        }
        let mut config = serde_json::json!({
            "version": "0.1",
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": self.dir.join("data")}},
            "http": http,
        });
        if let Some(config) = config.as_object_mut().filter(|_| self.doors == Doors::Accounts) {
            let htpasswd = self.dir.join("htpasswd");
            config.insert("auth".to_owned(), serde_json::json!({"htpasswd": {"realm": "tests", "path": htpasswd}}));
        }
        // JSON is YAML, too.
        config.to_string()
    }
}
