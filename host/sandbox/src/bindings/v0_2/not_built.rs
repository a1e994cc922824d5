//! What this candidate of the contract has and the host does not do yet. A component that asks for it is refused with a message: the
//! host must not do less than it was asked for.

use super::types as wit;
use crate::bindings::Returned;

/// # Errors
/// The first thing in a response that the host does not do yet.
pub(super) fn in_response(response: &wit::Response) -> Returned<()> {
    refuse(response.requirements.iter().any(|requirement| requirement.metadata_only), "metadata-only")
}

fn refuse(asks: bool, what: &str) -> Returned<()> {
    if asks { Err(format!("this host does not support {what} of contract 0.2.0-rc.1 yet")) } else { Ok(()) }
}
