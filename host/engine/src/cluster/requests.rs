//! What a user may ask of each request to the API server: a limit of its time, and a line about it.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use tower::layer::{LayerFn, layer_fn};
use tower::{BoxError, Service};

use crate::clock;

/// The level of kubectl's `-v` at which it prints requests.
const REQUESTS: u8 = 6;

/// Parses a duration as kubectl does (`90s`, `1m30s`), or a number of seconds.
///
/// # Errors
/// If the text is neither.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) || text.ends_with(|c: char| c.is_ascii_digit()) {
        return Err("write it as in 90s, 5m or 1m30s".to_owned());
    }
    text.parse::<kube::core::Duration>().map(Duration::from).map_err(|error| error.to_string())
}

/// Flags for all requests of a command.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct RequestArgs {
    /// Longest wait for a response of the API server, as in 90s or 5m; a number alone counts seconds, and 0 sets no limit
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_timeout)]
    request_timeout: Duration,
    /// Verbosity, with kubectl's levels: from 6 on, standard error has a line for each request to the API server
    #[arg(short, long = "v", value_name = "LEVEL", default_value_t = 0)]
    verbosity: u8,
}

impl RequestArgs {
    fn report(self, is_host: bool, request: &str, started: Instant, outcome: &str) {
        let took = clock::since(started).as_millis();
        match self.verbosity {
            ..REQUESTS => {}
            _ if is_host => {
                tracing::info!(request, outcome, duration_ms = u64::try_from(took).ok(), "request to the API server");
            }
            _ => crate::err!("{request} {outcome} in {took} ms"),
        }
    }
}

/// Makes a client obey the flags; none if they ask for nothing. The lines of a host belong to its log.
pub fn layer<S>(args: RequestArgs, is_host: bool) -> Option<LayerFn<impl Fn(S) -> Requests<S> + Clone>> {
    let is_wanted = !args.request_timeout.is_zero() || args.verbosity >= REQUESTS;
    is_wanted.then(|| layer_fn(move |inner| Requests { args, is_host, inner }))
}

/// A client's service that obeys the flags.
#[derive(Debug, Clone)]
pub struct Requests<S> {
    args: RequestArgs,
    is_host: bool,
    inner: S,
}

impl<S, A, B> Service<Request<A>> for Requests<S>
where
    S: Service<Request<A>, Response = Response<B>, Error = BoxError, Future: Send + 'static>,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (args, is_host, started) = (self.args, self.is_host, clock::now());
        let name = format!("{} {}", request.method(), request.uri());
        let limit = Some(args.request_timeout).filter(|limit| !limit.is_zero());
        let response = self.inner.call(request);
        async move {
            let result = match limit {
                None => response.await,
                Some(limit) => tokio::time::timeout(limit, response).await.unwrap_or_else(|_| {
                    Err(anyhow!("{name}: no response within {limit:?} (--request-timeout)").into())
                }),
            };
            let outcome = result.as_ref().map_or_else(ToString::to_string, |response| response.status().to_string());
            args.report(is_host, &name, started, &outcome);
            result
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_is_parsed_as_a_kubectl_duration_or_in_seconds() {
        for (text, seconds) in [("60", 60), ("120s", 120), ("5m", 300), ("1m30s", 90), ("0", 0)] {
            assert_eq!(parse_timeout(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "soon", "-1s", "-5", "1.5"] {
            assert!(parse_timeout(text).is_err(), "{text}");
        }
    }
}
