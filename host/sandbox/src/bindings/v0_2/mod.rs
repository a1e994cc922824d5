//! Contract `windlass:plugin@0.2.0-rc.1`.

mod convert;

use wasmtime::Store;
use windlass_core::contract::{Descriptor, Note, PluginResult, Request};
use windlass_core::value::schedule::{self as core, Problem};

use super::Returned;
use crate::notes::Notes;

#[allow(unsafe_code, missing_docs, clippy::all, clippy::pedantic, unused_qualifications)]
mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit/0.2",
        world: "plugin",
        // The request borrows from the caches: its bytes are copied once, into the guest's memory.
        ownership: Borrowing { duplicate_if_necessary: true },
        exports: { default: async },
    });
}

use generated::windlass::plugin::{host, schedule, types};
/// An instance for one call, and a component whose exports match the contract. The linker gets `windlass:plugin/host` and
/// `windlass:plugin/schedule` by `Instance::add_to_linker`.
pub(crate) use generated::{Plugin as Instance, PluginPre as Pre};

/// The export that makes a component a plugin of this contract.
pub(crate) const RECONCILER: &str = "windlass:plugin/reconciler@0.2.0-rc.1";

/// Interfaces that `Instance::add_to_linker` provides.
pub(crate) const SUPPORTED: &[&str] =
    &["windlass:plugin/host@0.2.0-rc.1", "windlass:plugin/schedule@0.2.0-rc.1", "windlass:plugin/types@0.2.0-rc.1"];

impl Instance {
    pub(crate) async fn describe<T: Send>(
        self,
        mut store: Store<T>,
    ) -> (wasmtime::Result<Returned<Descriptor>>, Store<T>) {
        let result = self.windlass_plugin_reconciler().call_describe(&mut store).await;
        (result.map(|descriptor| Ok(convert::descriptor(descriptor))), store)
    }

    pub(crate) async fn reconcile<T: Send>(
        self,
        mut store: Store<T>,
        request: &Request,
    ) -> (wasmtime::Result<Returned<PluginResult>>, Store<T>) {
        let worked_out = convert::worked_out(request);
        let lists = convert::Lists::of(request, &worked_out);
        let related = lists.related();
        let versions = convert::Versions::of(request);
        let beside = convert::Beside::of(request, &versions);
        let request = lists.request(request, &related, &beside);
        let result = self.windlass_plugin_reconciler().call_reconcile(&mut store, request).await;
        (result.map(convert::result), store)
    }
}

shared_host!();

/// Pure: it has nothing to do with the notes, which are what the functions of the linker get.
impl schedule::Host for Notes {
    fn next(&mut self, schedule: String, time_zone: String, after: u64) -> Result<u64, schedule::Problem> {
        core::next(&schedule, &time_zone, after).map_err(problem)
    }

    fn previous(&mut self, schedule: String, time_zone: String, at: u64) -> Result<Option<u64>, schedule::Problem> {
        core::previous(&schedule, &time_zone, at).map_err(problem)
    }
}

fn problem(problem: Problem) -> schedule::Problem {
    match problem {
        Problem::Schedule(sentence) => schedule::Problem::Schedule(sentence),
        Problem::TimeZone(sentence) => schedule::Problem::TimeZone(sentence),
    }
}
