//! Between the contract's bytes and an author's types.

use std::marker::PhantomData;

use crate::{Failure, Reconciler, Request, raw, raw::exports::windlass::plugin::reconciler::Guest};

/// The component that a [`Reconciler`] makes; [`export!`](crate::export) names it.
#[derive(Debug)]
pub struct Adapter<R>(PhantomData<R>);

impl<R: Reconciler> Guest for Adapter<R> {
    fn describe() -> raw::Descriptor {
        report_panics();
        R::descriptor().into_raw()
    }

    fn reconcile(request: raw::Request) -> Result<raw::Response, Failure> {
        report_panics();
        R::reconcile(Request::parse(request)?)?.into_raw()
    }
}

/// A panic traps, and a trap says nothing: let the message reach the host's log before.
pub(crate) fn report_panics() {
    #[cfg(target_family = "wasm")]
    std::panic::set_hook(Box::new(|panic| crate::log::error(panic.to_string())));
}
