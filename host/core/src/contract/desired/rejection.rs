//! Why a response is rejected.

/// Why a response is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ResponseRejection {
    message: String,
    /// Whether the bytes are malformed, as opposed to a well-formed response that is not allowed.
    pub is_malformed: bool,
}

impl ResponseRejection {
    /// The rejection of bytes that are not what they should be: JSON, an object, a Kubernetes object.
    pub(super) fn malformed(message: String) -> Self {
        Self { message, is_malformed: true }
    }

    /// The rejection of something that a plugin must not return.
    pub(super) fn not_allowed(message: String) -> Self {
        Self { message, is_malformed: false }
    }

    /// The rejection of a field without the type that Kubernetes gives it: of labels, annotations, or the data of a Secret.
    pub(super) fn wrong_type(child: &str, field: &str, expected: &str) -> Self {
        Self::not_allowed(format!("{child}: {field} is not a {expected}"))
    }
}
