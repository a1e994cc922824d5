//! Why a response is rejected.

use crate::contract::grant::Withheld;
use crate::value::ids::Gvk;
use crate::value::json::Malformed;

/// Why a response is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResponseRejection {
    /// A child or the status is not valid JSON.
    #[error("{what} is not valid JSON: {error}")]
    Malformed {
        /// The part of the response.
        what: String,
        /// Position and cause.
        error: Malformed,
    },
    /// A child is not a Kubernetes object.
    #[error("child {index} is not a Kubernetes object: {problem}")]
    NotAnObject {
        /// Index in the response, from 0.
        index: usize,
        /// What is missing or invalid.
        problem: String,
    },
    /// The status is not a JSON object.
    #[error("the status is {found} instead of an object")]
    StatusNotAnObject {
        /// Its actual type.
        found: &'static str,
    },
    /// The response exceeds a count limit.
    #[error("the response has {count} {what}, more than the limit of {limit}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The count.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A child's kind is declared by the component, but not granted by the Plugin.
    #[error("child {name:?} is of kind {kind}, which {why}")]
    KindNotGranted {
        /// The child's name.
        name: String,
        /// The child's kind.
        kind: Gvk,
        /// Why the kind is not granted.
        why: Withheld,
    },
    /// A child's kind is not declared by the component.
    #[error(
        "child {name:?} is of kind {kind}, which the component's descriptor does not declare: its author must add it to the \
         descriptor's `children`"
    )]
    KindNotDeclared {
        /// The child's name.
        name: String,
        /// The child's kind.
        kind: Gvk,
    },
    /// A child is outside its parent's namespace, or lacks a required namespace.
    #[error("{child} {problem}")]
    Scope {
        /// The child.
        child: String,
        /// What is wrong with its namespace; the text follows the child.
        problem: String,
    },
    /// The child is a Secret that the control plane would fill with a ServiceAccount's token, or accept as a token.
    #[error(
        "{child} is of type {secret_type}: whoever reads it can log in to the API server as a ServiceAccount or a new node. The \
         plugin may have such children only if the Plugin's entry for Secret in spec.grants.children has serviceAccountTokens: true"
    )]
    TokenNotGranted {
        /// The child.
        child: String,
        /// The Secret's type.
        secret_type: &'static str,
    },
    /// The child sets a field that only the host or the API server may set.
    #[error("{child} sets {field}, which plugins must not set")]
    FieldNotAllowed {
        /// The child.
        child: String,
        /// The field.
        field: String,
    },
    /// A field of the child does not have the type that Kubernetes gives it: its labels, its annotations, or the data of a Secret.
    #[error("{child}: {field} is not a {expected}")]
    WrongType {
        /// The child.
        child: String,
        /// The field.
        field: String,
        /// The type that the field must have.
        expected: &'static str,
    },
    /// The response contains a child twice.
    #[error("{child} is twice in the response")]
    Duplicate {
        /// The child.
        child: String,
    },
}

impl ResponseRejection {
    /// Returns true if the bytes are malformed, as opposed to a well-formed response that is not allowed.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed { .. } | Self::NotAnObject { .. } | Self::StatusNotAnObject { .. })
    }
}
