//! What the volumes that exist allow.

use serde::Deserialize;
use windlass_plugin::{Failure, Quantity, Request, kinds::PersistentVolumeClaim};

use crate::{Application, children::claim_name};

/// Refuses a volume that would shrink.
pub(crate) fn check(request: &Request<Application>) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Claim {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        resources: Resources,
    }
    #[derive(Deserialize)]
    struct Resources {
        requests: Requests,
    }
    #[derive(Deserialize)]
    struct Requests {
        storage: Quantity,
    }

    for (index, wanted) in request.spec.storage.persistent_volume_claims.iter().enumerate() {
        let name = claim_name(request.name(), &wanted.name);
        let Some(claim) = request.child::<PersistentVolumeClaim>(&name).filter(|claim| !claim.is_being_deleted())
        else {
            continue;
        };
        let Claim { spec: Spec { resources: Resources { requests: Requests { storage } } } } = claim.read_as()?;
        if storage > wanted.size {
            return Err(Failure::invalid(format!(
                "spec.storage.persistentVolumeClaims[{index}].size: {} is less than the {storage} that \
                 PersistentVolumeClaim {name} has; storage may grow, never shrink",
                wanted.size
            )));
        }
    }
    Ok(())
}
