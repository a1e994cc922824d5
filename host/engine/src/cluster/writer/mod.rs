//! Writes of parents, children and Plugins: their requests, responses and audit lines. [`audit`] also logs the writes
//! that other modules send through the same client.

pub mod audit;
pub mod dry_run;
pub mod request;
pub mod response;

use http::Request;
use kube::Client;
use windlass_core::reconcile::response::{Ack, Refused};

use self::response::refused;
use super::in_time;

/// Sends a write once, and returns the metadata of the written object.
///
/// # Errors
/// If the API server rejects the write, or does not respond.
pub async fn send(client: &Client, request: Request<Vec<u8>>) -> Result<Ack, Refused> {
    in_time(client.request::<Ack>(request)).await.map_err(|error| refused(&error))
}
