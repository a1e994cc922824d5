//! One of several hosts of a cluster: it has a token and a cache folder of its own, so that the audit log shows which host
//! sent a request.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use windlass_faults::Faults;
use windlass_testbed::{AuditEvents, Mark};

use crate::{Env, Host, HostOptions, SYSTEM_NAMESPACE, TIMEOUT, wait};

/// A host of several.
pub struct Replica {
    /// The host.
    pub host: Host,
    /// The proxy between the host and the API server.
    pub faults: Faults,
    name: String,
    credential: String,
}

impl Env {
    /// Starts a host of this name, without waiting for anything. A host of the same name that was started before must
    /// have ended: they have the same cache folder.
    #[track_caller]
    pub fn replica(&self, name: &str, mut options: HostOptions) -> Replica {
        let config = self.cluster().service_account_kubeconfig_of(SYSTEM_NAMESPACE, "windlass", name);
        let config = config.expect("a kubeconfig");
        let faults = self.faults(windlass_faults::seed());
        options.cache_dir = Some(self.cluster().dir().join(format!("{name}-cache")));
        let host = self.spawn_host_as(&self.kubeconfig_through(&faults, &config), &mut options);
        Replica { host, faults, name: name.to_owned(), credential: credential(&config) }
    }
}

impl Replica {
    /// The name of the host in this test.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the host leads and is ready.
    pub fn leads(&self) -> bool {
        self.host.http("/readyz").is_some_and(|(status, body)| status == 200 && body == "ok")
    }

    /// Waits until the host is prepared to take over.
    #[track_caller]
    pub fn wait_standby(&self) {
        wait("the host to stand by", TIMEOUT, || {
            self.host.http("/readyz").filter(|(status, body)| *status == 200 && body == "ok: standing by")
        });
    }

    /// The attempts of this host to write since then, except for the Lease: successful or not, as itself or as a
    /// plugin's ServiceAccount.
    #[track_caller]
    pub fn writes(&self, env: &Env, since: Mark) -> AuditEvents {
        let requests = env.audit().since(since).expect("a readable audit log").with_credential(&self.credential);
        requests.attempted_writes().except_leases()
    }

    /// The requests of this host since then.
    #[track_caller]
    pub fn requests(&self, env: &Env, since: Mark) -> AuditEvents {
        env.audit().since(since).expect("a readable audit log").with_credential(&self.credential)
    }
}

/// The id of the token in a kubeconfig, as the audit log has it.
fn credential(kubeconfig: &Path) -> String {
    let text = fs::read_to_string(kubeconfig).expect("a kubeconfig");
    let token = text.lines().find_map(|line| line.trim().strip_prefix("token:")).expect("a token").trim();
    let claims = token.trim_matches('"').split('.').nth(1).expect("a JSON Web Token");
    let claims = URL_SAFE_NO_PAD.decode(claims).expect("base64");
    let claims: Value = serde_json::from_slice(&claims).expect("JSON");
    format!("JTI={}", claims["jti"].as_str().expect("an id"))
}
