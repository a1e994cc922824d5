//! What should exist beside the volumes.

use std::fmt::Write as _;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use windlass_plugin::{
    Failure, Request, Value, json,
    kinds::{Pod, Secret},
    random,
};

use crate::{
    MySQLCluster, MySQLClusterSpec,
    spec::{PASSWORD, SecretRef},
    volumes,
};

/// Where MySQL listens.
const PORT: u32 = 3306;

/// 192 bits: nobody guesses it.
const PASSWORD_BYTES: u32 = 24;

fn secret_name(request: &Request<MySQLCluster>) -> String {
    format!("{}-root", request.name())
}

/// Where servers find their password.
pub(crate) fn password_ref(request: &Request<MySQLCluster>) -> SecretRef {
    let generated = || SecretRef { name: secret_name(request), key: PASSWORD.to_owned() };
    request.spec.root_password_secret_ref.clone().unwrap_or_else(generated)
}

pub(crate) fn pod_name(cluster: &str, server: u32) -> String {
    format!("{cluster}-{server}")
}

/// The generated password: made once, and then what is there. MySQL takes it at its first start alone, so another one would
/// lock everybody out.
pub(crate) fn secret(request: &Request<MySQLCluster>, has_data: bool) -> Result<Option<Value>, Failure> {
    #[derive(Deserialize)]
    struct Kept {
        #[serde(default)]
        data: std::collections::BTreeMap<String, String>,
    }

    let name = secret_name(request);
    let password = match request.child::<Secret>(&name) {
        Some(secret) => {
            let Kept { mut data } = secret.read_as()?;
            data.remove(PASSWORD).ok_or_else(|| {
                let message = format!(
                    "Secret {name} has no key {PASSWORD}: put the password of root there, as the servers' volumes have it"
                );
                Failure::failed(message)
            })?
        }
        None if request.spec.root_password_secret_ref.is_some() => return Ok(None),
        None if has_data => {
            let message = format!(
                "there are volumes, but no Secret {name} with the password that their servers have: make a Secret with it, \
                 and name it in spec.rootPasswordSecretRef"
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

/// Gives each server a name in DNS: `<cluster>-<index>.<cluster>`.
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

pub(crate) fn pod(request: &Request<MySQLCluster>, server: u32) -> Value {
    let MySQLClusterSpec { version, resources, .. } = &request.spec;
    let name = pod_name(request.name(), server);
    let SecretRef { name: secret, key } = password_ref(request);
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
                "env": [{ "name": "MYSQL_ROOT_PASSWORD", "valueFrom": { "secretKeyRef": { "name": secret, "key": key } } }],
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

/// The first server whose Pod has ended for good, evicted perhaps: left out of the answer it goes, and the next answer has
/// it again. One at a time.
pub(crate) fn first_terminal(request: &Request<MySQLCluster>) -> Option<u32> {
    (0..request.spec.replicas).find(|server| {
        let pod = request.child::<Pod>(&pod_name(request.name(), *server));
        pod.is_some_and(|pod| pod.is_terminal() && !pod.is_being_deleted())
    })
}
