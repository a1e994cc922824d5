//! Writes of parents, children and Plugins: their requests, responses and audit lines. [`audit`] also logs the writes
//! that other modules send through the same client.

pub mod audit;
pub mod dry_run;
pub mod observed;
pub mod request;
pub mod response;
pub mod warnings;

use std::sync::Arc;

use http::Request;
use kube::Client;
use windlass_core::object::Object;
use windlass_core::reconcile::api_response::{Ack, Refused};
use windlass_core::value::ids::Gvk;

use self::response::refused;
use self::warnings::Warnings;
use super::in_time;

/// Sends a write once, and returns the metadata of the written object.
///
/// # Errors
/// If the API server rejects the write, or does not respond.
pub async fn send(client: &Client, mut request: Request<Vec<u8>>) -> Result<Ack, Refused> {
    let warnings = Warnings::of(&mut request);
    let ack = in_time(client.request::<Ack>(request)).await.map_err(|error| refused(&error))?;
    Ok(ack.with_warnings(warnings.take()))
}

/// Sends a write once, and returns the written object of this kind, if the response has one.
///
/// # Errors
/// If the API server rejects the write, or does not respond.
pub async fn send_for(client: &Client, kind: &Arc<Gvk>, mut request: Request<Vec<u8>>) -> Result<Ack, Refused> {
    let warnings = Warnings::of(&mut request);
    let text = in_time(client.request_text(request)).await.map_err(|error| refused(&error))?;
    let ack = serde_json::from_str::<Ack>(&text).map_err(|error| refused(&kube::Error::SerdeError(error)))?;
    Ok(ack.with_object(Object::from_api(kind, &text).ok()).with_warnings(warnings.take()))
}
