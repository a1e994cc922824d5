//! Checks of a spec that its schema says by CEL rules and formats, or not at all: the host checks everything else before a call.

use std::net::IpAddr;

use windlass_plugin::{Failure, Quantity, checks};

use crate::spec::{ApplicationSpec, Claim, HealthCheck, Network, Resources, Scaling, ServiceType};

type Checked = Result<(), Failure>;

/// Checks a spec.
///
/// # Errors
///
/// [`Failure::invalid_field`], naming the field.
pub(crate) fn check(spec: &ApplicationSpec) -> Checked {
    resources(&spec.resources)?;
    liveness(&spec.health_check)?;
    if let Some(scaling) = &spec.scaling {
        self::scaling(scaling, &spec.resources)?;
    }
    claims(&spec.storage.persistent_volume_claims)?;
    network(&spec.network)
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

fn liveness(health: &HealthCheck) -> Checked {
    let threshold = health.liveness_probe.as_ref().and_then(|liveness| liveness.success_threshold);
    if threshold.is_some_and(|threshold| threshold != 1) {
        return invalid("spec.healthCheck.livenessProbe.successThreshold", "must be 1 for liveness");
    }
    Ok(())
}

fn scaling(scaling: &Scaling, resources: &Resources) -> Checked {
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
        // The API server makes a limit without a request the request.
        let is_given = resources.requests.contains_key(resource) || resources.limits.contains_key(resource);
        if target.is_some() && !is_given {
            let field = format!("spec.scaling.target{title}UtilizationPercentage");
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
        checks::positive(&format!("{CLAIMS}[{index}].size"), &claim.size)?;
    }
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
