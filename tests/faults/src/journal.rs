//! What passed the proxy.

use crate::Call;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The API server's reply with this status reached the host.
    Replied(u16),
    /// The API server executed the request and answered with this status; the host never saw the reply.
    ReplyLost(u16),
    /// The proxy answered with this status in the API server's place.
    Injected(u16),
    /// The request never reached the API server.
    NotSent,
}

/// A request that came to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// What was asked.
    pub call: Call,
    /// How it ended.
    pub outcome: Outcome,
}
