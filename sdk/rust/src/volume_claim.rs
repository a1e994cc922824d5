//! Reads and checks the storage request of a `PersistentVolumeClaim`.

use crate::{
    Failure, Object, Quantity,
    kinds::{Is, PersistentVolumeClaim},
};

impl<K: Is<PersistentVolumeClaim>> Object<'_, K> {
    /// The storage that the claim requests: `spec.resources.requests.storage`.
    ///
    /// # Errors
    ///
    /// [`Failure::failed`], naming the claim, if it has no such quantity.
    pub fn requested_storage(&self) -> Result<Quantity, Failure> {
        self.get("/spec/resources/requests/storage").ok_or_else(|| {
            let name = self.name();
            Failure::failed(format!(
                "PersistentVolumeClaim {name}: spec.resources.requests.storage is missing or not a quantity"
            ))
        })
    }

    /// Checks that a desired size is not smaller than what the claim requests: the API server rejects a smaller one. `field` is
    /// the field of the parent that has the desired size.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`] if it is smaller, and as [`requested_storage`](Self::requested_storage).
    pub fn check_not_shrinking(&self, field: &str, desired: &Quantity) -> Result<(), Failure> {
        let requested = self.requested_storage()?;
        if requested <= *desired {
            return Ok(());
        }
        let name = self.name();
        Err(Failure::invalid_field(
            field,
            format!(
                "{desired} is less than the {requested} that PersistentVolumeClaim {name} has; storage may grow, never shrink"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Object, PersistentVolumeClaim};
    use crate::{Failure, Quantity, testing::observed};

    #[test]
    fn a_claim_may_grow_and_never_shrinks() {
        let claim = observed(&json!({
            "metadata": { "name": "web-data" },
            "spec": { "resources": { "requests": { "storage": "1Gi" } } },
        }));
        let claim = Object::<PersistentVolumeClaim>::new(&claim);
        for size in ["1Gi", "1024Mi", "2Gi"] {
            assert_eq!(claim.check_not_shrinking("spec.size", &Quantity::from_static(size)), Ok(()), "{size}");
        }
        let message = "1G is less than the 1Gi that PersistentVolumeClaim web-data has; storage may grow, never shrink";
        assert_eq!(
            claim.check_not_shrinking("spec.size", &Quantity::from_static("1G")),
            Err(Failure::invalid_field("spec.size", message))
        );
    }

    #[test]
    fn error_for_a_claim_without_a_size_names_the_claim() {
        let claim = observed(&json!({ "metadata": { "name": "web-data" }, "spec": {} }));
        let failed = Object::<PersistentVolumeClaim>::new(&claim).requested_storage();
        assert!(
            matches!(failed, Err(Failure::Failed(message)) if message.starts_with("PersistentVolumeClaim web-data: "))
        );
    }
}
