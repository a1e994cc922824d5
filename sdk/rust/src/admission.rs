//! Admission of parents. The host does not serve this yet.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Failure, Reconciler,
    failure::parse,
    json::bytes,
    raw::{self, Invalid},
    request::WithMetadata,
};

/// A plugin that also validates and defaults its parents before they are stored, exported by
/// [`export_admission!`](crate::export_admission) beside [`export!`](crate::export).
///
/// **The host does not serve admission yet**: it registers no webhook and never calls [`review`](Admission::review), which
/// only [`testing`](crate::testing) calls. In a cluster the CRD's schema and its CEL rules
/// ([`CustomResource::rule`](crate::CustomResource::rule)) validate and default, and [`Reconciler::reconcile`] checks what
/// they cannot say.
///
/// A review is pure, like [`Reconciler::reconcile`]: it depends on its [`AdmissionRequest`] alone.
pub trait Admission: Reconciler {
    /// Reviews one write.
    fn review(request: AdmissionRequest) -> AdmissionResponse;
}

pub use crate::raw::Operation;

/// One write of a parent, before it is stored.
#[derive(Debug)]
pub struct AdmissionRequest {
    raw: raw::AdmissionRequest,
}

impl AdmissionRequest {
    /// The operation.
    pub fn operation(&self) -> Operation {
        self.raw.operation
    }

    /// Whether the object is being deleted. Its finalizers must be removable then, so even an invalid object must be allowed.
    pub fn is_being_deleted(&self) -> bool {
        let metadata = self.object::<WithMetadata>().ok().flatten().map(|object| object.metadata);
        self.operation() == Operation::Delete || metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some())
    }

    /// The name of the user who writes, as the API server authenticated it.
    pub fn username(&self) -> &str {
        &self.raw.username
    }

    /// The untyped request of the contract: the names of the object and of its namespace, the user's groups and more.
    pub fn raw(&self) -> &raw::AdmissionRequest {
        &self.raw
    }

    /// The object after the write; none for a deletion.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`], naming the field, if it is not a `T`.
    pub fn object<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        read(self.raw.object.as_deref())
    }

    /// The object before the write; none for a new one.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`], naming the field, if it is not a `T`.
    pub fn old_object<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        read(self.raw.old_object.as_deref())
    }

    /// The Plugin's `spec.config`; without one, `{}` is read.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`], naming the field, if it is not a `C`.
    pub fn config<C: DeserializeOwned>(&self) -> Result<C, Failure> {
        parse(self.raw.config.as_deref().unwrap_or(b"{}"), "the Plugin's spec.config").map_err(Failure::Invalid)
    }
}

fn read<T: DeserializeOwned>(object: Option<&[u8]>) -> Result<Option<T>, Failure> {
    object.map(|object| parse(object, "").map_err(Failure::Invalid)).transpose()
}

/// The response to a write: made from its [`Decision`], without warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionResponse {
    /// What happens to the write.
    pub decision: Decision,
    /// Shown to the user, whatever the decision is.
    pub warnings: Vec<String>,
}

/// What happens to a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It is allowed.
    Allow,
    /// It is allowed, and this object is stored instead: the object with its defaults.
    Replace(Value),
    /// It is denied.
    Deny(Invalid),
}

impl From<Decision> for AdmissionResponse {
    fn from(decision: Decision) -> Self {
        Self { decision, warnings: Vec::new() }
    }
}

impl AdmissionResponse {
    /// Allows an object with its defaults: `spec` is the object's spec with all defaults, and fields that the object has stay as
    /// they are. A spec that is not JSON denies the write.
    pub fn with_defaults(mut object: Value, spec: &impl Serialize) -> Self {
        let Some(given) = object.get_mut("spec") else {
            return Decision::Allow.into();
        };
        match serde_json::to_value(spec).map(|whole| fill(given, whole)) {
            Ok(true) => Decision::Replace(object).into(),
            Ok(false) => Decision::Allow.into(),
            Err(error) => Failure::failed(format!("the spec with its defaults is not JSON: {error}")).into(),
        }
    }
}

/// Adds the fields that are missing. Returns whether any was.
fn fill(given: &mut Value, whole: Value) -> bool {
    let (Value::Object(given), Value::Object(whole)) = (given, whole) else { return false };
    let mut filled = false;
    for (field, value) in whole {
        if let Some(given) = given.get_mut(&field) {
            filled |= fill(given, value);
        } else {
            given.insert(field, value);
            filled = true;
        }
    }
    filled
}

/// A failure denies the write with its message.
impl From<Failure> for AdmissionResponse {
    fn from(failure: Failure) -> Self {
        let invalid = match failure {
            Failure::Invalid(invalid) => invalid,
            Failure::Failed(message) => Invalid { field: None, message },
        };
        Decision::Deny(invalid).into()
    }
}

pub(crate) fn review<R: Admission>(request: raw::AdmissionRequest) -> AdmissionResponse {
    R::review(AdmissionRequest { raw: request })
}

impl<R: Admission> raw::admission::exports::windlass::plugin::admission::Guest for crate::Adapter<R> {
    fn review(request: raw::AdmissionRequest) -> raw::Verdict {
        crate::adapter::report_panics();
        let AdmissionResponse { decision, warnings } = review::<R>(request);
        let decision = match decision {
            Decision::Allow => raw::Decision::Allow,
            Decision::Replace(object) => raw::Decision::Replace(bytes(&object)),
            Decision::Deny(invalid) => raw::Decision::Deny(invalid),
        };
        raw::Verdict { decision, warnings }
    }
}
