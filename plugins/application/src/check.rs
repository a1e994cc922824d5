//! What is wrong with a spec, in words for its user. The CRD's schema says most of it, to who writes through the API server
//! today.

use std::{collections::BTreeSet, net::IpAddr};

use windlass_plugin::{Failure, Quantity, checks};

use crate::spec::{ApplicationSpec, Claim, HealthCheck, Network, Probe, Resources, Scaling, Security, ServiceType};

type Checked = Result<(), Failure>;

/// Says what is wrong with a spec.
///
/// # Errors
///
/// [`Failure::invalid`] with the field.
pub(crate) fn check(spec: &ApplicationSpec) -> Checked {
    checks::range("spec.replicas", spec.replicas, 0..=1000)?;
    checks::image("spec.image", &spec.image)?;
    checks::range("spec.port", spec.port, 1..=65535)?;
    checks::env_names("spec.environment", spec.environment.iter().map(|variable| &*variable.name))?;
    resources(&spec.resources)?;
    probes(&spec.health_check)?;
    if let Some(scaling) = &spec.scaling {
        self::scaling(scaling, &spec.resources)?;
    }
    claims(&spec.storage.persistent_volume_claims)?;
    network(&spec.network)?;
    security(&spec.security)
}

fn invalid(message: String) -> Checked {
    Err(Failure::invalid(message))
}

fn resources(resources: &Resources) -> Checked {
    let positive = |field: &str, (name, amount): (&String, &Quantity)| {
        checks::positive(&format!("spec.resources.{field}.{name}"), amount)
    };
    resources.requests.iter().try_for_each(|request| positive("requests", request))?;
    resources.limits.iter().try_for_each(|limit| positive("limits", limit))?;
    for (name, request) in &resources.requests {
        if let Some(limit) = resources.limits.get(name).filter(|limit| request > *limit) {
            return invalid(format!("spec.resources.requests.{name}: {request} is more than the limit of {limit}"));
        }
    }
    Ok(())
}

fn probes(health: &HealthCheck) -> Checked {
    let probe = |name: &str, probe: &Probe| {
        let field = format!("spec.healthCheck.{name}");
        if !probe.http_get.path.starts_with('/') {
            return invalid(format!("{field}.httpGet.path: {:?} does not begin with /", probe.http_get.path));
        }
        let port = probe.http_get.port.unwrap_or(1);
        checks::range(&format!("{field}.httpGet.port"), port, 1..=65535)
    };
    if let Some(liveness) = &health.liveness_probe {
        probe("livenessProbe", liveness)?;
        if liveness.success_threshold.is_some_and(|answers| answers != 1) {
            return invalid("spec.healthCheck.livenessProbe.successThreshold: must be 1 for liveness".to_owned());
        }
    }
    health.readiness_probe.iter().try_for_each(|readiness| probe("readinessProbe", readiness))
}

fn scaling(scaling: &Scaling, resources: &Resources) -> Checked {
    checks::range("spec.scaling.minReplicas", scaling.min_replicas, 1..=1000)?;
    checks::range("spec.scaling.maxReplicas", scaling.max_replicas, 1..=1000)?;
    if scaling.min_replicas > scaling.max_replicas {
        return invalid(format!(
            "spec.scaling.minReplicas: {} is more than maxReplicas, {}",
            scaling.min_replicas, scaling.max_replicas
        ));
    }
    let targets = [("CPU", "cpu", scaling.target_cpu), ("Memory", "memory", scaling.target_memory)];
    if targets.iter().all(|(_, _, target)| target.is_none()) {
        return invalid(
            "spec.scaling: give targetCPUUtilizationPercentage, targetMemoryUtilizationPercentage, or both".to_owned(),
        );
    }
    for (title, resource, target) in targets {
        let Some(target) = target else { continue };
        let field = format!("spec.scaling.target{title}UtilizationPercentage");
        checks::range(&field, target, 1..=1000)?;
        // Where only a limit is given, it is the request, too.
        if !resources.requests.contains_key(resource) && !resources.limits.contains_key(resource) {
            return invalid(format!("{field}: is a part of spec.resources.requests.{resource}, which is not given"));
        }
    }
    Ok(())
}

fn claims(claims: &[Claim]) -> Checked {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (index, claim) in claims.iter().enumerate() {
        let field = |name: &str| format!("spec.storage.persistentVolumeClaims[{index}].{name}");
        checks::dns_label(&field("name"), &claim.name)?;
        checks::positive(&field("size"), &claim.size)?;
        if claim.access_modes.is_empty() {
            return invalid(format!("{}: give at least one", field("accessModes")));
        }
        if !names.insert(&claim.name) {
            return invalid(format!("{}: {:?} is given twice", field("name"), claim.name));
        }
        let path = claim.path();
        if !path.starts_with('/') || path.contains(':') {
            return invalid(format!(
                "{}: {path:?} is not a path that begins with / and is without :",
                field("mountPath")
            ));
        }
        if !paths.insert(path) {
            return invalid(format!("{}: {:?} is given twice", field("mountPath"), claim.path()));
        }
    }
    Ok(())
}

fn network(network: &Network) -> Checked {
    let ranges = network.load_balancer.as_ref().map_or(&[][..], |balancer| &balancer.source_ranges);
    if !ranges.is_empty() && network.service_type != ServiceType::LoadBalancer {
        return invalid("spec.network.loadBalancer.sourceRanges: belong to serviceType LoadBalancer".to_owned());
    }
    for (index, range) in ranges.iter().enumerate() {
        if !is_cidr(range) {
            return invalid(format!(
                "spec.network.loadBalancer.sourceRanges[{index}]: {range:?} is not a network in CIDR notation, like 10.0.0.0/8"
            ));
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

fn security(security: &Security) -> Checked {
    if let Some(account) = &security.service_account {
        checks::dns_subdomain("spec.security.serviceAccount", account)?;
    }
    let mut names = BTreeSet::new();
    for (index, secret) in security.image_pull_secrets.iter().enumerate() {
        let field = format!("spec.security.imagePullSecrets[{index}].name");
        checks::dns_subdomain(&field, &secret.name)?;
        if !names.insert(&secret.name) {
            return invalid(format!("{field}: {:?} is given twice", secret.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_cidr;

    #[test]
    fn networks_are_what_the_api_server_takes() {
        for range in ["10.0.0.0/8", "0.0.0.0/0", "192.168.1.1/32", "fd00::/8", "::/0"] {
            assert!(is_cidr(range), "{range}");
        }
        for range in ["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "/8", "10.0.0.0/", "10.0.0.0/+8", "any"] {
            assert!(!is_cidr(range), "{range}");
        }
    }
}
