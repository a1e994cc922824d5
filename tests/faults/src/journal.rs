//! The requests that reached the proxy.

use crate::Call;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The API server's reply with this status reached the host.
    Replied(u16),
    /// The API server executed the request and responded with this status; the host never received the response.
    ReplyLost(u16),
    /// The proxy responded with this status instead of the API server.
    Injected(u16),
    /// The request never reached the API server.
    NotSent,
}

/// A request that reached the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Its verb and object.
    pub call: Call,
    /// Its end.
    pub outcome: Outcome,
}
