//! One call: a fresh store, its limits and its deadline → an answer or a [`CallFailure`]. Every store is thrown away.

use std::sync::OnceLock;
use std::time::Instant;

use wasmtime::{Engine, PoolConcurrencyLimitError, Store, UpdateDeadline};
use windlass_core::contract::{
    Answer, CallFailure, CallReport, Descriptor, Failure, Limits, Observed, Request, Requirement, Response, Selection,
    Surface,
};
use windlass_core::digest::Digest;

use crate::bindings::v0_1::{Instance, Pre};
use crate::engine::Engines;
use crate::failure::{DeadlineReached, Stage, classify};
use crate::limiter::Limiter;
use crate::notes::Notes;
use crate::wasi::Wasi;

/// What wasmtime may copy for the guest at a time beyond the answer's own bytes: lists cost more than their contents.
const COPY_SLACK: u64 = 1024 * 1024;

/// What a store carries.
pub(crate) struct State {
    pub(crate) wasi: Wasi,
    limiter: Limiter,
}

impl AsMut<Wasi> for State {
    fn as_mut(&mut self) -> &mut Wasi {
        &mut self.wasi
    }
}

/// A component linked for the engines that can run it.
pub(crate) struct Code {
    pub(crate) engines: Engines,
    /// `None` if it does not fit a slot of the pool.
    pub(crate) pooled: Option<Pre<State>>,
    /// Made at the first call that needs it: a second mapping of the same file costs memory.
    pub(crate) on_demand: OnceLock<Result<Pre<State>, String>>,
    pub(crate) link_on_demand: Box<dyn Fn() -> Result<Pre<State>, String> + Send + Sync>,
}

/// A plugin's logic, ready to be called from any number of threads.
///
/// Calls block their thread until the answer or the deadline, and want some 1.5 MiB of stack: call them from threads
/// for blocking work (the default stack of 2 MiB will do).
pub struct Component {
    surface: Surface,
    descriptor: Descriptor,
    code: Code,
}

impl Component {
    /// Asks a component what it is, which makes it usable.
    pub(crate) fn describe_first(surface: Surface, code: Code, limits: &Limits) -> Result<Self, CallFailure> {
        let (descriptor, _) = code.call(limits, [0; 32], 0, Instance::describe);
        Ok(Self { surface, descriptor: descriptor?, code })
    }

    /// Digest of the component's bytes.
    pub fn digest(&self) -> Digest {
        self.surface.digest
    }

    /// Imports, exports and contract.
    pub fn surface(&self) -> &Surface {
        &self.surface
    }

    /// What it said of itself when it was loaded.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Whether its calls take slots of the pool, and not memory mapped for each call.
    pub fn is_pooled(&self) -> bool {
        self.code.pooled.is_some()
    }

    /// Asks it again what it is. [`Component::descriptor`] is enough but for tests and tools.
    pub fn describe(&self, limits: &Limits) -> (Result<Descriptor, CallFailure>, CallReport) {
        self.code.call(limits, [0; 32], 0, Instance::describe)
    }

    /// One reconcile. Equal requests and seeds give equal answers, unless the report says `impure`.
    ///
    /// # Errors
    /// The host's verdict; the plugin's own failures are part of the [`Answer`].
    pub fn reconcile(
        &self,
        request: &Request,
        limits: &Limits,
        seed: [u8; 32],
    ) -> (Result<Answer, CallFailure>, CallReport) {
        let size = request_bytes(request);
        if size > limits.request_bytes {
            let report = CallReport { request_bytes: size, ..CallReport::default() };
            return (Err(CallFailure::RequestTooLarge { size, limit: limits.request_bytes }), report);
        }
        let (answer, mut report) =
            self.code.call(limits, seed, size, |instance, store| instance.reconcile(store, request));
        report.response_bytes = answer.as_ref().map_or(0, answer_bytes);
        let answer = match answer {
            Ok(_) if report.response_bytes > limits.response_bytes => {
                Err(CallFailure::ResponseTooLarge { limit: limits.response_bytes })
            }
            answer => answer,
        };
        (answer, report)
    }
}

impl Code {
    fn call<R>(
        &self,
        limits: &Limits,
        seed: [u8; 32],
        request_bytes: u64,
        work: impl Fn(&Instance, &mut Store<State>) -> wasmtime::Result<R>,
    ) -> (Result<R, CallFailure>, CallReport) {
        let start = Instant::now();
        let _running = self.engines.ticker.enter();
        let attempt = |engine: &Engine, pre: &Pre<State>| {
            let mut call = Call::new(engine, limits, seed, start);
            let result = call.run(pre, &work);
            (result, call)
        };
        let mut tried = self.pooled.as_ref().map(|pre| attempt(&self.engines.pooled, pre));
        if tried.as_ref().is_none_or(|(result, _)| result.as_ref().is_err_and(no_slot)) {
            match self.on_demand.get_or_init(&self.link_on_demand) {
                Ok(pre) => tried = Some(attempt(&self.engines.on_demand, pre)),
                Err(message) => {
                    return (Err(CallFailure::Host { message: message.clone() }), CallReport::default());
                }
            }
        }
        let Some((result, call)) = tried else {
            return (Err(CallFailure::Host { message: "no engine".to_owned() }), CallReport::default());
        };
        let result = result.map_err(|(error, stage)| classify(&error, stage, &call.store.data().limiter, limits));
        (result, call.report(start, request_bytes))
    }
}

fn no_slot((error, stage): &(wasmtime::Error, Stage)) -> bool {
    *stage == Stage::Start && error.is::<PoolConcurrencyLimitError>()
}

/// A store and its one use.
struct Call {
    store: Store<State>,
}

impl Call {
    fn new(engine: &Engine, limits: &Limits, seed: [u8; 32], start: Instant) -> Self {
        let wasi = Wasi::new(Notes::new(limits.log_bytes), seed);
        let mut store = Store::new(engine, State { wasi, limiter: Limiter::new(limits.memory) });
        store.limiter(|state| &mut state.limiter);
        let fuel = limits.response_bytes.saturating_add(COPY_SLACK);
        store.set_hostcall_fuel(usize::try_from(fuel).unwrap_or(usize::MAX));
        // Every tick asks the clock, instead of counting ticks up to the deadline: on a busy machine the ticker comes
        // late, and a deadline must not become late by as many ticks as were missed.
        let deadline = start.checked_add(limits.deadline);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_| match deadline {
            Some(deadline) if Instant::now() >= deadline => Err(DeadlineReached(deadline).into()),
            _ => Ok(UpdateDeadline::Continue(1)),
        });
        Self { store }
    }

    fn run<R>(
        &mut self,
        pre: &Pre<State>,
        work: impl Fn(&Instance, &mut Store<State>) -> wasmtime::Result<R>,
    ) -> Result<R, (wasmtime::Error, Stage)> {
        let instance = pre.instantiate(&mut self.store).map_err(|error| (error, Stage::Start))?;
        work(&instance, &mut self.store).map_err(|error| (error, Stage::Call))
    }

    fn report(mut self, start: Instant, request_bytes: u64) -> CallReport {
        let state = self.store.data_mut();
        let mut report = CallReport {
            guest_time_us: u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX),
            memory_peak: state.limiter.memory(),
            request_bytes,
            impure: state.wasi.impure,
            ..CallReport::default()
        };
        state.wasi.notes.report(&mut report);
        report
    }
}

fn request_bytes(request: &Request) -> u64 {
    let object = |object: &Observed| {
        object.object.len()
            + object.name.len()
            + object.namespace.as_ref().map_or(0, |namespace| namespace.len())
            + object.kind.group.len()
            + object.kind.version.len()
            + object.kind.kind.len()
    };
    let related =
        request.related.iter().map(|related| related.id.len() + related.objects.iter().map(object).sum::<usize>());
    let size = request.parent.len()
        + request.config.as_ref().map_or(0, |config| config.len())
        + request.children.iter().map(object).sum::<usize>()
        + related.sum::<usize>();
    size as u64
}

fn answer_bytes(answer: &Answer) -> u64 {
    let size = match answer {
        Ok(response) => response_bytes(response),
        Err(Failure::Invalid(message) | Failure::Failed(message) | Failure::Retry { message, .. }) => message.len(),
    };
    size as u64
}

fn response_bytes(response: &Response) -> usize {
    let requirement = |requirement: &Requirement| {
        let (Selection::Name(select) | Selection::Labels(select)) = &requirement.select;
        requirement.id.len() + requirement.namespace.as_ref().map_or(0, String::len) + select.len()
    };
    response.children.iter().map(Vec::len).sum::<usize>()
        + response.status.as_ref().map_or(0, Vec::len)
        + response.events.iter().map(|event| event.reason.len() + event.message.len()).sum::<usize>()
        + response.requirements.iter().map(requirement).sum::<usize>()
}
