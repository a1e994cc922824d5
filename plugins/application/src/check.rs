//! Checks of a spec. The schema of the CRD checks most of it too, but an object may be older than the schema.

use std::net::IpAddr;

use windlass_plugin::{Failure, Quantity, checks};

use crate::spec::{ApplicationSpec, Claim, HealthCheck, Network, Probe, Resources, Scaling, Security, ServiceType};

type Checked = Result<(), Failure>;

/// Checks a spec.
///
/// # Errors
///
/// [`Failure::invalid_field`], naming the field.
pub(crate) fn check(spec: &ApplicationSpec) -> Checked {
    checks::range("spec.replicas", spec.replicas, 0..=1000)?;
    checks::image("spec.image", &spec.image)?;
    checks::range("spec.port", spec.port, 1..=65535)?;
    checks::env_vars("spec.environment", &spec.environment)?;
    resources(&spec.resources)?;
    probes(&spec.health_check)?;
    if let Some(scaling) = &spec.scaling {
        self::scaling(scaling, &spec.resources)?;
    }
    claims(&spec.storage.persistent_volume_claims)?;
    network(&spec.network)?;
    security(&spec.security)
}

fn invalid(field: &str, message: impl Into<String>) -> Checked {
    Err(Failure::invalid_field(field, message))
}

fn resources(resources: &Resources) -> Checked {
    let positive = |field: &str, (name, amount): (&String, &Quantity)| {
        checks::positive(&format!("spec.resources.{field}.{name}"), amount)
    };
    resources.requests.iter().try_for_each(|request| positive("requests", request))?;
    resources.limits.iter().try_for_each(|limit| positive("limits", limit))?;
    match checks::request_over_limit(&resources.requests, &resources.limits) {
        Some((name, request, limit)) => {
            invalid(&format!("spec.resources.requests.{name}"), format!("{request} is more than the limit of {limit}"))
        }
        None => Ok(()),
    }
}

fn probes(health: &HealthCheck) -> Checked {
    let probe = |name: &str, probe: &Probe| {
        let field = format!("spec.healthCheck.{name}");
        if !probe.http_get.path.starts_with('/') {
            let path = format!("{field}.httpGet.path");
            return invalid(&path, format!("{:?} does not begin with /", probe.http_get.path));
        }
        let port = probe.http_get.port.unwrap_or(1);
        checks::range(&format!("{field}.httpGet.port"), port, 1..=65535)
    };
    if let Some(liveness) = &health.liveness_probe {
        probe("livenessProbe", liveness)?;
        if liveness.success_threshold.is_some_and(|threshold| threshold != 1) {
            return invalid("spec.healthCheck.livenessProbe.successThreshold", "must be 1 for liveness");
        }
    }
    health.readiness_probe.iter().try_for_each(|readiness| probe("readinessProbe", readiness))
}

fn scaling(scaling: &Scaling, resources: &Resources) -> Checked {
    checks::range("spec.scaling.minReplicas", scaling.min_replicas, 1..=1000)?;
    checks::range("spec.scaling.maxReplicas", scaling.max_replicas, 1..=1000)?;
    if scaling.min_replicas > scaling.max_replicas {
        let message = format!("{} is more than maxReplicas, {}", scaling.min_replicas, scaling.max_replicas);
        return invalid("spec.scaling.minReplicas", message);
    }
    let targets = [("CPU", "cpu", scaling.target_cpu), ("Memory", "memory", scaling.target_memory)];
    if targets.iter().all(|(_, _, target)| target.is_none()) {
        let message = "give targetCPUUtilizationPercentage, targetMemoryUtilizationPercentage, or both";
        return invalid("spec.scaling", message);
    }
    for (title, resource, target) in targets {
        let Some(target) = target else { continue };
        let field = format!("spec.scaling.target{title}UtilizationPercentage");
        checks::range(&field, target, 1..=1000)?;
        // The API server makes a limit without a request the request.
        if !resources.requests.contains_key(resource) && !resources.limits.contains_key(resource) {
            let message = format!("is a part of spec.resources.requests.{resource}, which is not given");
            return invalid(&field, message);
        }
    }
    Ok(())
}

const CLAIMS: &str = "spec.storage.persistentVolumeClaims";

fn claims(claims: &[Claim]) -> Checked {
    let paths: Vec<_> = claims.iter().map(Claim::path).collect();
    for (index, claim) in claims.iter().enumerate() {
        let field = |name: &str| format!("{CLAIMS}[{index}].{name}");
        checks::dns_label(&field("name"), &claim.name)?;
        checks::positive(&field("size"), &claim.size)?;
        if claim.access_modes.is_empty() {
            return invalid(&field("accessModes"), "give at least one");
        }
        let path = claim.path();
        if !path.starts_with('/') || path.contains(':') {
            let message = format!("{path:?} is not a path that begins with / and is without :");
            return invalid(&field("mountPath"), message);
        }
    }
    checks::distinct(CLAIMS, "name", claims.iter().map(|claim| &*claim.name))?;
    checks::distinct(CLAIMS, "mountPath", paths.iter().map(String::as_str))
}

fn network(network: &Network) -> Checked {
    const RANGES: &str = "spec.network.loadBalancer.sourceRanges";
    let ranges = network.load_balancer.as_ref().map_or(&[][..], |balancer| &balancer.source_ranges);
    if !ranges.is_empty() && network.service_type != ServiceType::LoadBalancer {
        return invalid(RANGES, "belong to serviceType LoadBalancer");
    }
    for (index, range) in ranges.iter().enumerate() {
        if !is_cidr(range) {
            let message = format!("{range:?} is not a network in CIDR notation, like 10.0.0.0/8");
            return invalid(&format!("{RANGES}[{index}]"), message);
        }
    }
    Ok(())
}

fn is_cidr(range: &str) -> bool {
    let Some((address, bits)) = range.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.bytes().all(|byte| byte.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

const SECRETS: &str = "spec.security.imagePullSecrets";

fn security(security: &Security) -> Checked {
    if let Some(account) = &security.service_account {
        checks::dns_subdomain("spec.security.serviceAccount", account)?;
    }
    for (index, secret) in security.image_pull_secrets.iter().enumerate() {
        checks::dns_subdomain(&format!("{SECRETS}[{index}].name"), &secret.name)?;
    }
    checks::distinct(SECRETS, "name", security.image_pull_secrets.iter().map(|secret| &*secret.name))
}

#[cfg(test)]
mod tests {
    use super::is_cidr;

    #[test]
    fn networks_are_checked_like_the_api_server_does() {
        for range in ["10.0.0.0/8", "0.0.0.0/0", "192.168.1.1/32", "fd00::/8", "::/0"] {
            assert!(is_cidr(range), "{range}");
        }
        for range in ["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "/8", "10.0.0.0/", "10.0.0.0/+8", "any"] {
            assert!(!is_cidr(range), "{range}");
        }
    }
}
