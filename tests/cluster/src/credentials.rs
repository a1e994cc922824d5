//! Certificates, keys, tokens and kubeconfig files of one cluster.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::node;

/// The names of the files that [`write`] puts into a folder.
pub(crate) const CA: &str = "ca.crt";
pub(crate) const SERVER_CERTIFICATE: &str = "apiserver.crt";
pub(crate) const SERVER_KEY: &str = "apiserver.key";
pub(crate) const SERVICE_ACCOUNT_KEY: &str = "service-account.key";
pub(crate) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-account.pub";
pub(crate) const TOKENS: &str = "tokens.csv";

/// A server, as a client's kubeconfig describes it.
pub(crate) struct Server<'a> {
    /// `https://…`
    pub url: &'a str,
    /// The certificate that signed the server's, PEM.
    pub ca_pem: &'a [u8],
}

/// A server's certificate and its key, and the certificate that signed it, each as PEM.
pub(crate) struct Issued {
    /// The certificate that signed the server's.
    pub ca: String,
    pub certificate: String,
    pub key: String,
}

/// Creates a CA that signs one certificate: of a server with these names or addresses.
pub(crate) fn issue(server: &str, names: &[&str]) -> Result<Issued> {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    ca.distinguished_name.push(DnType::CommonName, "windlass testbed CA");
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;

    let mut params = CertificateParams::new(names.iter().copied().map(String::from).collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::CommonName, server);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &ca)?;
    Ok(Issued { ca: ca.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Writes the CA, the API server's certificate, the key that signs `ServiceAccount` tokens and the administrator's
/// token into `dir`, and returns that token.
pub(crate) fn write(dir: &Path) -> Result<String> {
    let names = ["127.0.0.1", node::ADDRESS, "10.96.0.1", "localhost", "kubernetes.default.svc"];
    let server = issue("kube-apiserver", &names)?;
    let service_accounts = KeyPair::generate()?;
    let token = hex::encode(random_bytes::<16>()?);

    private_file(&dir.join(CA), server.ca.as_bytes())?;
    private_file(&dir.join(SERVER_CERTIFICATE), server.certificate.as_bytes())?;
    private_file(&dir.join(SERVER_KEY), server.key.as_bytes())?;
    private_file(&dir.join(SERVICE_ACCOUNT_KEY), service_accounts.serialize_pem().as_bytes())?;
    private_file(&dir.join(SERVICE_ACCOUNT_PUBLIC_KEY), service_accounts.public_key_pem().as_bytes())?;
    // Each component of the control plane is a user of its own, so that the audit log distinguishes its writes from a
    // test's.
    private_file(&dir.join(TOKENS), tokens(&token).as_bytes())?;
    Ok(token)
}

/// The components of the control plane that have users of their own; [`component_token`] derives their tokens.
pub(crate) const COMPONENTS: [&str; 5] = ["kube-controller-manager", "kube-scheduler", "kwok", "kube-proxy", "kubelet"];

/// The token of one of [`COMPONENTS`].
pub(crate) fn component_token(admin: &str, component: &str) -> String {
    format!("{component}-{admin}")
}

fn tokens(admin: &str) -> String {
    let mut lines = format!("{admin},admin,admin,\"system:masters\"\n");
    for component in COMPONENTS {
        let token = component_token(admin, component);
        let (user, group) = match component {
            // What it may do depends on its name and group.
            "kubelet" => (format!("node:{}", node::NAME), "system:nodes"),
            _ => (component.to_owned(), "system:masters"),
        };
        lines.extend([&token, ",system:", &user, ",", component, ",\"", group, "\"\n"]);
    }
    lines
}

/// Writes a kubeconfig file with one user.
pub(crate) fn kubeconfig(path: &Path, server: &Server, user: &str, token: &str) -> Result<()> {
    let ca = STANDARD.encode(server.ca_pem);
    let url = server.url;
    let text = format!(
        "apiVersion: v1
kind: Config
clusters:
- name: windlass
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: {user}
  user:
    token: {token}
contexts:
- name: windlass
  context:
    cluster: windlass
    user: {user}
current-context: windlass
"
    );
    private_file(path, text.as_bytes())
}

/// Writes a file that only its owner may read.
pub(crate) fn private_file(path: &Path, content: &[u8]) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(content));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Random bytes from the operating system.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes)
}
