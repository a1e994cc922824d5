//! Checks of the claims that exist.

use windlass_plugin::{Failure, Object, Request, kinds::PersistentVolumeClaim};

use crate::{Application, children::claim_name, spec::Claim};

/// Checks that the live claims can become the desired ones: only their size can change, and only grow.
///
/// # Errors
///
/// [`Failure::invalid_field`], naming the field and the claim.
pub(crate) fn check(request: &Request<Application>) -> Result<(), Failure> {
    for (index, desired) in request.spec.storage.persistent_volume_claims.iter().enumerate() {
        let name = claim_name(request.name(), &desired.name);
        let Some(claim) = request.child(&name).filter(|claim| !claim.is_being_deleted()) else { continue };
        let field = format!("spec.storage.persistentVolumeClaims[{index}]");
        claim.check_not_shrinking(&format!("{field}.size"), &desired.size)?;
        check_immutable(&claim, desired, &field)?;
    }
    Ok(())
}

/// Checks the fields that the API server does not let change.
fn check_immutable(claim: &Object<PersistentVolumeClaim>, desired: &Claim, field: &str) -> Result<(), Failure> {
    let changed = |part: &str, live: &str| {
        let name = claim.name();
        let message =
            format!("cannot change: PersistentVolumeClaim {name} has {live}; give another claim another name");
        Failure::invalid_field(format!("{field}.{part}"), message)
    };
    let modes: Vec<String> = claim.get("/spec/accessModes").unwrap_or_default();
    if !desired.access_modes.iter().map(|mode| mode.as_str()).eq(&modes) {
        return Err(changed("accessModes", &modes.join(", ")));
    }
    // A claim without a class has the cluster's default.
    match (claim.get::<String>("/spec/storageClassName"), &desired.storage_class_name) {
        (Some(live), Some(class)) if live != *class => Err(changed("storageClassName", &live)),
        _ => Ok(()),
    }
}
