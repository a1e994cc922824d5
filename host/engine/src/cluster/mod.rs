//! All access to the API server: watches and their caches, writes, access reviews, discovery, events, the Lease.

pub mod access_review;
pub mod account;
pub mod client;
pub mod discovery;
pub mod events;
pub mod lease;
pub mod requests;
pub mod retry_after;
pub mod secret_key;
pub mod shards;
pub mod watch;
pub mod writer;

// The delivery crate sends requests as well, so this function lives there.
pub use windlass_delivery::in_time;

/// The message of an error, for conditions and messages: of a response, the API server's own.
pub fn plain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// [`plain`] for an error that an error of the client caused, such as one of a watch.
pub fn plain_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = Some(error);
    while let Some(found) = cause {
        if let Some(error) = found.downcast_ref() {
            return plain(error);
        }
        cause = found.source();
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_the_api_server_is_its_message_alone_also_beneath_an_error_of_a_watch() {
        let status = kube::core::Status { code: 403, message: "no".to_owned(), ..kube::core::Status::default() };
        let error = || kube::Error::Api(Box::new(status.clone()));
        assert!(error().to_string().contains("Status {"), "the client's own text has Rust's debug output");
        let beneath = kube::runtime::watcher::Error::InitialListFailed(error());
        assert_eq!((plain(&error()), plain_cause(&beneath)), ("no".to_owned(), "no".to_owned()));
        let other = std::io::Error::other("cut");
        assert_eq!(plain_cause(&other), "cut");
    }
}
