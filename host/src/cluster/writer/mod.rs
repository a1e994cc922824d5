//! The one way by which the host writes to the API server. [`audit`] gives each write one line in the log.

pub mod audit;
pub mod request;
pub mod response;

use std::sync::Arc;

use http::Request;
use kube::Client;
use windlass_core::ids::{Gvk, Uid};
use windlass_core::plan::ChildId;

use super::in_time;
use response::Ack;

/// One write that the API server acknowledged, or may have carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The parent was changed: the version that it has since.
    Parent {
        /// The version.
        resource_version: u64,
    },
    /// A child was created or changed, or marked for deletion: the version that it has since.
    Child {
        /// The child's kind, which may be the parent's own: children have a watch of theirs.
        kind: Arc<Gvk>,
        /// The version.
        resource_version: u64,
    },
    /// A child was deleted at once.
    Gone {
        /// The object.
        child: ChildId,
        /// Its identity.
        uid: Uid,
    },
    /// It was sent, and the answer does not say whether it was carried out: the object must be looked up.
    Unknown(Subject),
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The parent itself.
    Parent,
    /// One of its children.
    Child(ChildId),
}

/// Sends a write once, and reads the metadata of what was written.
///
/// # Errors
/// The API server's refusal, or the lack of a response.
pub async fn send(client: &Client, request: Request<Vec<u8>>) -> Result<Ack, kube::Error> {
    in_time(client.request::<Ack>(request)).await
}
