//! Copies the `Retry-After` header of a response into its body, the only part of an error that kube's client passes on.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Bytes};
use kube::core::Status;
use kube::core::response::StatusDetails;
use tower::BoxError;
use windlass_core::hosts::retry_after;

/// Writes the seconds of the header into `details.retryAfterSeconds` of a response that asks the client to retry later.
/// The API server's flow control (API priority and fairness) gives them in the header only, before a plain text.
///
/// # Errors
/// If the body of the response cannot be read.
pub async fn into_status<B>(response: Response<B>) -> Result<Response<Either<B, Full<Bytes>>>, BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let asks_to_wait = response.status() == StatusCode::TOO_MANY_REQUESTS || response.status().is_server_error();
    let Some(seconds) = seconds(response.headers()).filter(|_| asks_to_wait) else {
        return Ok(response.map(Either::Left));
    };
    let (mut parts, body) = response.into_parts();
    let body = body.collect().await.map_err(Into::into)?.to_bytes();
    let mut status: Status =
        serde_json::from_slice(&body).unwrap_or_else(|_| Status::failure(String::from_utf8_lossy(&body).trim(), ""));
    if status.code == 0 {
        status.code = parts.status.as_u16();
    }
    let details = status.details.get_or_insert_with(no_details);
    if details.retry_after_seconds == 0 {
        details.retry_after_seconds = seconds;
    }
    let body = serde_json::to_vec(&status)?;
    parts.headers.remove(header::TRANSFER_ENCODING);
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(Response::from_parts(parts, Either::Right(body.into())))
}

fn seconds(headers: &HeaderMap) -> Option<u32> {
    let wait = retry_after::wait(headers.get(header::RETRY_AFTER)?.to_str().ok()?)?;
    u32::try_from(wait.as_secs()).ok()
}

fn no_details() -> StatusDetails {
    StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Request;
    use kube::client::ClientBuilder;
    use tower::util::AndThenLayer;
    use windlass_core::reconcile::outcome::WriteProblem;

    use super::*;
    use crate::cluster::writer::response::refused;

    /// The problem of a write that gets this response.
    async fn problem(code: u16, header: Option<&'static str>, body: &'static str) -> WriteProblem {
        let api_server = tower::service_fn(move |_: Request<kube::client::Body>| async move {
            let mut response = Response::builder().status(code);
            if let Some(header) = header {
                response = response.header(header::RETRY_AFTER, header);
            }
            Ok::<_, BoxError>(response.body(Full::<Bytes>::from(body)).expect("a response"))
        });
        let client = ClientBuilder::new(api_server, "default").with_layer(&AndThenLayer::new(into_status)).build();
        let request = Request::post("/api/v1/namespaces/default/pods").body(Vec::new()).expect("a request");
        refused(&client.request_text(request).await.expect_err("refused")).problem()
    }

    fn unavailable(message: &str, seconds: Option<u64>) -> WriteProblem {
        WriteProblem::Unavailable { message: message.to_owned(), retry_after: seconds.map(Duration::from_secs) }
    }

    #[tokio::test]
    async fn r13_retry_after_header_of_flow_control_is_kept() {
        let text = "Too many requests, please try again later.";
        for code in [429, 500, 502, 503, 504] {
            assert_eq!(problem(code, Some("7"), text).await, unavailable(text, Some(7)));
        }
        assert_eq!(problem(429, Some("7"), "").await, unavailable("", Some(7)));
    }

    #[tokio::test]
    async fn r13_status_in_the_body_is_kept_and_gets_a_missing_retry_after_from_the_header() {
        let without =
            r#"{"kind":"Status","status":"Failure","code":503,"message":"starting","details":{"kind":"pods"}}"#;
        assert_eq!(problem(503, Some("2"), without).await, unavailable("starting", Some(2)));
        let with = r#"{"kind":"Status","status":"Failure","code":429,"message":"m","details":{"retryAfterSeconds":9}}"#;
        assert_eq!(problem(429, Some("2"), with).await, unavailable("m", Some(9)));
        assert_eq!(problem(429, Some("2"), "{}").await, unavailable("", Some(2)), "the code is that of the response");
    }

    #[tokio::test]
    async fn r13_other_responses_pass_unchanged() {
        assert_eq!(problem(429, None, "later").await, unavailable("later", None));
        assert_eq!(problem(429, Some("Fri, 31 Dec 1999 23:59:59 GMT"), "later").await, unavailable("later", None));
        let refused = WriteProblem::Rejected {
            code: 403,
            message: "no".to_owned(),
            rejection: windlass_core::reconcile::outcome::Rejection::Other,
        };
        assert_eq!(problem(403, Some("7"), "no").await, refused);
    }
}
