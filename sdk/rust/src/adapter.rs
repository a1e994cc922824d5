//! Converts between the bytes of the contract and the types of a plugin.

use std::marker::PhantomData;

use crate::{Failure, Reconciler, Request, Unread, raw, raw::exports::windlass::plugin::reconciler::Guest};

/// The component of a [`Reconciler`]; [`export!`](crate::export) names it.
#[derive(Debug)]
pub struct Adapter<R>(PhantomData<R>);

impl<R: Reconciler> Guest for Adapter<R> {
    fn describe() -> raw::Descriptor {
        report_panics();
        R::descriptor().into_raw()
    }

    fn reconcile(request: raw::Request) -> Result<raw::Response, Failure> {
        report_panics();
        let request = Request::<R, Unread>::parse(request)?;
        let response = if request.is_finalizing() { R::finalize(request) } else { R::reconcile(request.read_spec()?) };
        response?.into_raw()
    }
}

/// A panic becomes a trap, which has no message: this writes the message to the host's log first.
pub(crate) fn report_panics() {
    #[cfg(target_family = "wasm")]
    std::panic::set_hook(Box::new(|panic| crate::log::error(panic.to_string())));
}
