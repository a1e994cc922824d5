//! What the volumes that exist allow.

use windlass_plugin::{Claimed, Failure, Request, kinds::PersistentVolumeClaim};

use crate::{Application, children::claim_name, spec::Claim};

/// Refuses what a volume that exists cannot become: only its size may change, and only grow.
pub(crate) fn check(request: &Request<Application>) -> Result<(), Failure> {
    for (index, wanted) in request.spec.storage.persistent_volume_claims.iter().enumerate() {
        let name = claim_name(request.name(), &wanted.name);
        let Some(claim) = request.child::<PersistentVolumeClaim>(&name).filter(|claim| !claim.is_being_deleted())
        else {
            continue;
        };
        let (claimed, field) = (claim.claimed()?, format!("spec.storage.persistentVolumeClaims[{index}]"));
        claimed.check_size(&format!("{field}.size"), &wanted.size, &name)?;
        kept(&claimed, wanted, &field, &name)?;
    }
    Ok(())
}

/// To the API server these are immutable.
fn kept(claimed: &Claimed, wanted: &Claim, field: &str, name: &str) -> Result<(), Failure> {
    let changed = |part: &str, is: &str| {
        Failure::invalid(format!(
            "{field}.{part}: cannot change: PersistentVolumeClaim {name} has {is}; give another claim another name"
        ))
    };
    if !claimed.access_modes.iter().map(String::as_str).eq(wanted.access_modes.iter().map(|mode| mode.as_str())) {
        return Err(changed("accessModes", &claimed.access_modes.join(", ")));
    }
    // Without one it is the cluster's default, whichever it was then.
    match (&claimed.storage_class_name, &wanted.storage_class_name) {
        (Some(is), Some(class)) if is != class => Err(changed("storageClassName", is)),
        _ => Ok(()),
    }
}
