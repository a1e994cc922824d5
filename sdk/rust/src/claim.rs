//! What a `PersistentVolumeClaim` asks for: its spec, read once and for all.

use serde::Deserialize;

use crate::{Failure, Object, Quantity, kinds::PersistentVolumeClaim};

/// What a claim that exists asks for. Only the size may change, and only grow.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// `spec.resources.requests.storage`.
    pub size: Quantity,
    /// `spec.accessModes`.
    pub access_modes: Vec<String>,
    /// `spec.storageClassName`: the cluster's default, where none was given.
    pub storage_class_name: Option<String>,
}

#[derive(Deserialize)]
struct Whole {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    access_modes: Vec<String>,
    storage_class_name: Option<String>,
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

impl Object<'_, PersistentVolumeClaim> {
    /// What it asks for.
    ///
    /// # Errors
    ///
    /// [`Failure::failed`], naming the claim, when it is none.
    pub fn claimed(&self) -> Result<Claimed, Failure> {
        let Whole { spec: Spec { access_modes, storage_class_name, resources } } = self.read_as()?;
        Ok(Claimed { size: resources.requests.storage, access_modes, storage_class_name })
    }
}

impl Claimed {
    /// Refuses a size that is less than the claim has. `field` is where it is asked for, `name` the claim's.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`]: storage cannot shrink.
    pub fn check_size(&self, field: &str, wanted: &Quantity, name: &str) -> Result<(), Failure> {
        if self.size <= *wanted {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "{field}: {wanted} is less than the {} that PersistentVolumeClaim {name} has; storage may grow, never shrink",
            self.size
        )))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Object, PersistentVolumeClaim};
    use crate::{Failure, Quantity, testing::observed};

    #[test]
    fn a_claim_is_read_and_never_shrinks() {
        let claim = observed(&json!({
            "metadata": { "name": "web-data" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "resources": { "requests": { "storage": "1Gi" } },
            },
        }));
        let claimed = Object::<PersistentVolumeClaim>::new(&claim).claimed().expect("a claim");
        assert_eq!(
            (&*claimed.access_modes, claimed.storage_class_name.as_deref()),
            (&["ReadWriteOnce".to_owned()][..], Some("fast"))
        );
        for size in ["1Gi", "1024Mi", "2Gi"] {
            assert_eq!(claimed.check_size("spec.size", &Quantity::of(size), "web-data"), Ok(()), "{size}");
        }
        let refused = "spec.size: 1G is less than the 1Gi that PersistentVolumeClaim web-data has; storage may grow, never shrink";
        assert_eq!(claimed.check_size("spec.size", &Quantity::of("1G"), "web-data"), Err(Failure::invalid(refused)));
    }

    #[test]
    fn what_is_no_claim_is_named() {
        let claim = observed(&json!({ "metadata": { "name": "web-data" }, "spec": {} }));
        let failed = Object::<PersistentVolumeClaim>::new(&claim).claimed();
        assert!(matches!(failed, Err(Failure::Failed(why)) if why.starts_with("PersistentVolumeClaim web-data: ")));
    }
}
