//! Judging parents before they are stored. The host does not serve this yet.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{Failure, Reconciler, failure::explained, json::bytes, raw, request::WithMetadata};

/// A plugin that also admits its parents, exported by [`export_admission!`](crate::export_admission) beside
/// [`export!`](crate::export).
///
/// **The host does not serve admission yet**: it registers no webhook and never calls [`review`](Admission::review). What it
/// does can be tested with [`testing`](crate::testing); in a cluster the CRD's schema and its CEL rules
/// ([`CustomResource::rule`](crate::CustomResource::rule)) refuse and fill in, and [`Reconciler::reconcile`] must check the
/// spec itself.
///
/// A judgement is pure, like [`Reconciler::reconcile`]: it depends on its [`Review`] alone.
pub trait Admission: Reconciler {
    /// Judges one write.
    fn review(review: Review) -> Verdict;
}

pub use crate::raw::Operation;

/// One object that somebody wants to write.
#[derive(Debug)]
pub struct Review {
    raw: raw::AdmissionRequest,
}

impl Review {
    /// What somebody wants to do.
    pub fn operation(&self) -> Operation {
        self.raw.operation
    }

    /// Whether the object is on its way out: then it must be able to lose its finalizers, whatever else is wrong with it.
    pub fn is_being_deleted(&self) -> bool {
        let metadata = self.object::<WithMetadata>().ok().flatten().map(|object| object.metadata);
        self.operation() == Operation::Delete || metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some())
    }

    /// Who wants it: the user's name, as the API server authenticated it.
    pub fn username(&self) -> &str {
        &self.raw.username
    }

    /// The object as it would be; `None` for a deletion.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`], naming the field, when it is not a `T`.
    pub fn object<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        read(self.raw.object.as_deref())
    }

    /// The object as it is; `None` for a new one.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`], naming the field, when it is not a `T`.
    pub fn old_object<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        read(self.raw.old_object.as_deref())
    }

    /// The Plugin's `spec.config`; without one, as if it were `{}`.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`], naming the field.
    pub fn config<C: DeserializeOwned>(&self) -> Result<C, Failure> {
        explained(self.raw.config.as_deref().unwrap_or(b"{}"), "the Plugin's spec.config").map_err(Failure::invalid)
    }
}

fn read<T: DeserializeOwned>(object: Option<&[u8]>) -> Result<Option<T>, Failure> {
    object.map(|object| explained(object, "").map_err(Failure::invalid)).transpose()
}

/// What becomes of a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Allowed, with warnings for the user.
    Allow(Vec<String>),
    /// Allowed as this object instead: with defaults filled in.
    Replace(Value),
    /// Refused, and why.
    Deny(String),
}

impl Verdict {
    /// Allows an object with what its spec leaves out: fields that it gives stay as they are.
    pub fn with_defaults(mut object: Value, spec: &impl Serialize) -> Self {
        let Some(given) = object.get_mut("spec") else {
            return Self::Allow(Vec::new());
        };
        match serde_json::to_value(spec).map(|whole| fill(given, whole)) {
            Ok(true) => Self::Replace(object),
            Ok(false) => Self::Allow(Vec::new()),
            Err(error) => Self::Deny(format!("the spec with its defaults is not JSON: {error}")),
        }
    }
}

/// Puts in what is missing; whether anything was.
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

/// A failure refuses, in its own words.
impl From<Failure> for Verdict {
    fn from(failure: Failure) -> Self {
        Self::Deny(match failure {
            Failure::Invalid(message) | Failure::Failed(message) => message,
            Failure::Retry(retry) => retry.message,
        })
    }
}

pub(crate) fn judge<R: Admission>(request: raw::AdmissionRequest) -> Verdict {
    R::review(Review { raw: request })
}

impl<R: Admission> raw::admission::exports::windlass::plugin::admission::Guest for crate::Adapter<R> {
    fn review(request: raw::AdmissionRequest) -> raw::Verdict {
        crate::adapter::report_panics();
        match judge::<R>(request) {
            Verdict::Allow(warnings) => raw::Verdict::Allow(warnings),
            Verdict::Replace(object) => raw::Verdict::Replace(bytes(&object)),
            Verdict::Deny(why) => raw::Verdict::Deny(why),
        }
    }
}
