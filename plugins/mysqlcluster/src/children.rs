//! The desired children, except for the volumes.

use std::fmt::Write as _;

use base64::{Engine, prelude::BASE64_STANDARD};
use windlass_plugin::{
    Failure, Request, Value, json,
    kinds::{Pod, Secret},
    random,
};

use crate::{
    MySQLCluster, MySQLClusterSpec,
    spec::{PASSWORD, SecretKeyRef},
    volumes,
};

/// The port of MySQL.
const PORT: u32 = 3306;

/// 192 bits cannot be guessed.
const PASSWORD_BYTES: u32 = 24;

fn secret_name(request: &Request<MySQLCluster>) -> String {
    format!("{}-root", request.name())
}

/// The key of the Secret with the password of the servers.
pub(crate) fn password_ref(request: &Request<MySQLCluster>) -> SecretKeyRef {
    let generated = || SecretKeyRef { name: secret_name(request), key: PASSWORD.to_owned() };
    request.spec.root_password_secret_ref.clone().unwrap_or_else(generated)
}

pub(crate) fn pod_name(cluster: &str, server: u32) -> String {
    format!("{cluster}-{server}")
}

/// The Secret with the generated password. None if there is none yet and the user names a Secret; an existing one is
/// kept. The password is generated once and then kept: MySQL reads it only at its first start, so another password
/// would not open the existing data.
pub(crate) fn secret(request: &Request<MySQLCluster>, has_data: bool) -> Result<Option<Value>, Failure> {
    let name = secret_name(request);
    let password = match request.child::<Secret>(&name) {
        Some(secret) => secret.get(&format!("/data/{PASSWORD}")).ok_or_else(|| {
            let message = format!(
                "Secret {name} has no key {PASSWORD}: add the root password with which the servers were first started"
            );
            Failure::failed(message)
        })?,
        None if request.spec.root_password_secret_ref.is_some() => return Ok(None),
        None if has_data => {
            let message = format!(
                "there are volumes, but no Secret {name} with the root password with which their servers were first \
                 started: create a Secret with that password, and name the Secret in spec.rootPasswordSecretRef"
            );
            return Err(Failure::failed(message));
        }
        None => {
            let mut password = String::new();
            for byte in random::bytes(PASSWORD_BYTES) {
                // Writing to a String cannot fail.
                let _ = write!(password, "{byte:02x}");
            }
            BASE64_STANDARD.encode(password)
        }
    };
    Ok(Some(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name, "labels": { "app": request.name() } },
        "type": "Opaque",
        "data": { PASSWORD: password },
    })))
}

/// The headless Service, which gives each server the DNS name `<cluster>-<index>.<cluster>`.
pub(crate) fn service(request: &Request<MySQLCluster>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": request.name(), "labels": { "app": request.name() } },
        "spec": {
            "clusterIP": "None",
            "selector": { "app": request.name() },
            "ports": [{ "name": "mysql", "port": PORT, "targetPort": "mysql" }],
        },
    })
}

/// The environment variable with which a server reads its password.
pub(crate) fn password_env(password: &SecretKeyRef) -> Value {
    json!([{ "name": "MYSQL_ROOT_PASSWORD", "valueFrom": { "secretKeyRef": password } }])
}

pub(crate) fn pod(request: &Request<MySQLCluster>, server: u32) -> Value {
    let MySQLClusterSpec { version, resources, .. } = &request.spec;
    let name = pod_name(request.name(), server);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": request.name(), "index": server.to_string() } },
        "spec": {
            "hostname": name,
            "subdomain": request.name(),
            "containers": [{
                "name": "mysql",
                "image": format!("mysql:{version}"),
                "ports": [{ "name": "mysql", "containerPort": PORT }],
                "env": password_env(&password_ref(request)),
                "resources": { "requests": resources, "limits": resources },
                "readinessProbe": { "tcpSocket": { "port": "mysql" }, "periodSeconds": 5 },
                "volumeMounts": [{ "name": "data", "mountPath": "/var/lib/mysql" }],
            }],
            "volumes": [{
                "name": "data",
                "persistentVolumeClaim": { "claimName": volumes::name(request.name(), server) },
            }],
        },
    })
}

/// The first server whose Pod is in a terminal phase, as after an eviction. A response without the Pod deletes it, and the next
/// response recreates it: one at a time.
pub(crate) fn first_terminal(request: &Request<MySQLCluster>) -> Option<u32> {
    (0..request.spec.replicas).find(|server| {
        let pod = request.child::<Pod>(&pod_name(request.name(), *server));
        pod.is_some_and(|pod| pod.is_terminal() && !pod.is_being_deleted())
    })
}
