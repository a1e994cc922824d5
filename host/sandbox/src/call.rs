//! Runs one call in a fresh store, with its limits and its deadline, and returns a response or a [`CallFailure`]. Every
//! store is dropped after its call.
//!
//! A guest runs on a stack of its own, on the calling thread: most calls end before another thread would have woken up.
//! A longer call yields once, so that the caller can move other work off the calling thread.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use wasmtime::{Engine, PoolConcurrencyLimitError, Store, UpdateDeadline};
use windlass_core::contract::descriptor;
use windlass_core::contract::{
    CallFailure, CallReport, Descriptor, Failure, Limits, Namespaces, Observed, Phase, PluginResult, Request,
    Requirement, Response, Selection, Surface,
};
use windlass_core::plugin::schema::parents::{Checked, ParentSchema};
use windlass_core::value::digest::Digest;

use crate::bindings::{Instance, Returned, Version};
use crate::failure::{DeadlineReached, Stage, classify, explained, stack_of};
use crate::limiter::Limiter;
use crate::link;
use crate::mapping::Mapping;
use crate::notes::Notes;
use crate::ticker::Ticker;
use crate::wasi::{Ambient, Wasi};

/// A guest that has run for longer than this yields at the next tick.
const SHORT: Duration = Duration::from_millis(1);

/// Bytes that wasmtime may copy for the guest in addition to the response's size limit: copying a list costs more than
/// its contents.
const COPY_SLACK: u64 = 1024 * 1024;

/// A component's description must not depend on time or randomness.
const DESCRIBE: Ambient = Ambient { seed: [0; 32], now: SystemTime::UNIX_EPOCH };

/// The data of a store.
pub(crate) struct State {
    pub(crate) wasi: Wasi,
    limiter: Limiter,
}

/// A component's code for the engines that can run it.
pub(crate) struct Code {
    pub(crate) ticker: Arc<Ticker>,
    /// `None` if the component does not fit a slot of the pool.
    pub(crate) pooled: Option<Mapping>,
    pub(crate) on_demand: Mapping,
}

/// A loaded component, which any number of threads can call.
///
/// A call is a future that computes and waits for nothing. It is pending at most once, after the guest has run for a
/// few milliseconds: a caller with other work on the thread can then continue the call on another thread. [`run_here`]
/// runs a call to its end.
pub struct Component {
    surface: Surface,
    descriptor: Descriptor,
    /// The schema that parents must fit, if the contract's version promises it to plugins.
    parents: Option<ParentSchema>,
    code: Code,
}

impl Component {
    /// Calls `describe`, and checks the descriptor.
    pub(crate) fn describe_first(surface: Surface, code: Code, limits: &Limits) -> Result<Self, CallFailure> {
        let (described, _) = run_here(code.call(limits, DESCRIBE, 0, Instance::describe));
        let described = described?;
        descriptor::check(&described).map_err(CallFailure::Malformed)?;
        let version = link::version_of(surface.exports.iter().map(String::as_str));
        let checks_parents = version.is_ok_and(Version::checks_parents);
        let parents = if checks_parents { ParentSchema::of(&described) } else { None };
        Ok(Self { surface, descriptor: described, parents, code })
    }

    /// Digest of the component's bytes.
    pub fn digest(&self) -> Digest {
        self.surface.digest
    }

    /// Imports, exports and contract version.
    pub fn surface(&self) -> &Surface {
        &self.surface
    }

    /// The descriptor that `describe` returned when the component was loaded.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns true if calls use slots of the pool, instead of memory that is mapped for each call.
    pub fn is_pooled(&self) -> bool {
        self.code.pooled.is_some()
    }

    /// Calls `describe` again. [`Component::descriptor`] suffices except for tests and tools.
    pub async fn describe(&self, limits: &Limits) -> (Result<Descriptor, CallFailure>, CallReport) {
        self.code.call(limits, DESCRIBE, 0, Instance::describe).await
    }

    /// Releases the code that no call needed since this was last called. The next call maps it again.
    pub(crate) fn release_unused(&self) {
        self.code.pooled.iter().chain([&self.code.on_demand]).for_each(Mapping::release_unused);
    }

    /// Runs one reconcile. Equal requests with equal `ambient` give equal responses. `ambient.now` matters only if the
    /// report has `impure` set. A parent that does not fit the schema of the component is [invalid](Failure::Invalid) without a call,
    /// except to finalize it.
    ///
    /// # Errors
    /// The failure that the host determined; failures that the plugin reports are part of the [`PluginResult`].
    pub async fn reconcile(
        &self,
        request: &Request,
        limits: &Limits,
        ambient: Ambient,
    ) -> (Result<PluginResult, CallFailure>, CallReport) {
        let request = match self.checked(request) {
            Ok(request) => request,
            Err(invalid) => return (Ok(Err(Failure::Invalid(invalid))), CallReport::default()),
        };
        let request = &*request;
        let size = request_bytes(request);
        if size > limits.request_bytes {
            let report = CallReport { request_bytes: size, ..CallReport::default() };
            return (Err(CallFailure::RequestTooLarge { size, limit: limits.request_bytes }), report);
        }
        let reconcile = |instance: Instance, store| instance.reconcile(store, request);
        let (response, mut report) = self.code.call(limits, ambient, size, reconcile).await;
        report.response_bytes = response.as_ref().map_or(0, result_bytes);
        let response = match response {
            Ok(_) if report.response_bytes > limits.response_bytes => {
                Err(CallFailure::ResponseTooLarge(limits.response_bytes))
            }
            response => response,
        };
        (response, report)
    }

    /// The request with a parent that has the defaults of the component's schema, or what the schema does not allow.
    fn checked<'a>(&self, request: &'a Request) -> Result<Cow<'a, Request>, String> {
        let Some(schema) = &self.parents else { return Ok(Cow::Borrowed(request)) };
        let Checked { completed, problems } = schema.check(&request.parent.object);
        if request.phase == Phase::Sync && !problems.is_empty() {
            return Err(problems.join("; "));
        }
        Ok(match completed {
            None => Cow::Borrowed(request),
            Some(parent) => {
                let mut request = request.clone();
                request.parent.object = parent.into();
                Cow::Owned(request)
            }
        })
    }
}

impl Code {
    /// Calls an export on a fresh instance.
    async fn call<T, F: Future<Output = (wasmtime::Result<Returned<T>>, Store<State>)>>(
        &self,
        limits: &Limits,
        ambient: Ambient,
        request_bytes: u64,
        export: impl Fn(Instance, Store<State>) -> F,
    ) -> (Result<T, CallFailure>, CallReport) {
        let start = Instant::now();
        let _running = self.ticker.enter();
        let attempt = async |mapping: &Mapping| {
            let pre = mapping.code_of_call()?;
            let mut store = store_of_call(pre.engine(), limits, ambient, start);
            let instance = match pre.instantiate_async(&mut store).await {
                Ok(instance) => instance,
                Err(error) => return Ok((Err((error, Stage::Start)), store)),
            };
            let (result, store) = export(instance, store).await;
            Ok::<_, String>((result.map_err(|error| (error, Stage::Call)), store))
        };
        let mut tried = attempt(self.pooled.as_ref().unwrap_or(&self.on_demand)).await;
        // If the pool has no free instance or stack, the export has not run, and the failed call has released what it had of the pool.
        let is_full = matches!(&tried, Ok((Err((error, _)), _)) if error.is::<PoolConcurrencyLimitError>());
        if self.pooled.is_some() && is_full {
            tried = attempt(&self.on_demand).await;
        }
        let (result, store) = match tried {
            Ok(tried) => tried,
            Err(message) => return (Err(CallFailure::Host(message)), CallReport::default()),
        };
        let mut stack = None;
        let result = result.map_err(|(error, stage)| {
            let failure = classify(&error, stage, &store.data().limiter);
            stack = stack_of(&error, &failure);
            failure
        });
        let (mut report, last_error) = report_of(store, start, request_bytes);
        // After the guest's own lines, and even if those filled the log: a stack is short.
        report.notes.extend(stack);
        let result = result.map_err(|failure| explained(failure, last_error.as_deref()));
        (result.and_then(|returned| returned.map_err(CallFailure::Malformed)), report)
    }
}

/// Runs a call to its end on this thread.
pub fn run_here<T>(call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    // The call waits for nothing, so it needs no waker.
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = call.as_mut().poll(&mut context) {
            return result;
        }
    }
}

/// A store for a single call.
fn store_of_call(engine: &Engine, limits: &Limits, ambient: Ambient, start: Instant) -> Store<State> {
    let wasi = Wasi::new(Notes::new(limits.log_bytes), ambient);
    let mut store = Store::new(engine, State { wasi, limiter: Limiter::new(limits) });
    store.limiter(|state| &mut state.limiter);
    let fuel = limits.response_bytes.saturating_add(COPY_SLACK);
    store.set_hostcall_fuel(usize::try_from(fuel).unwrap_or(usize::MAX));
    // Every tick reads the clock, instead of counting ticks up to the deadline: on a busy machine ticks are late,
    // and missed ticks must not delay the deadline.
    let (deadline, short_until) = (start.checked_add(limits.deadline), start + SHORT);
    let mut may_step_aside = true;
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| {
        let now = Instant::now();
        match deadline {
            Some(deadline) if now >= deadline => Err(DeadlineReached(deadline).into()),
            _ if may_step_aside && now >= short_until => {
                may_step_aside = false;
                Ok(UpdateDeadline::Yield(1))
            }
            _ => Ok(UpdateDeadline::Continue(1)),
        }
    });
    store
}

/// Returns the report of the call, and the last error that the guest reported.
fn report_of(mut store: Store<State>, start: Instant, request_bytes: u64) -> (CallReport, Option<String>) {
    let state = store.data_mut();
    let mut report = CallReport {
        guest_time_us: u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX),
        memory_peak: state.limiter.memory,
        request_bytes,
        impure: state.wasi.impure,
        ..CallReport::default()
    };
    let last_error = state.wasi.notes.report(&mut report);
    (report, last_error)
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
    let size = request.parent.object.len()
        + request.config.as_ref().map_or(0, |config| config.len())
        + request.children.iter().map(object).sum::<usize>()
        + related.sum::<usize>();
    size as u64
}

fn result_bytes(result: &PluginResult) -> u64 {
    let size = match result {
        Ok(response) => response_bytes(response),
        Err(Failure::Invalid(message) | Failure::Failed(message) | Failure::Retry { message, .. }) => message.len(),
    };
    size as u64
}

fn response_bytes(response: &Response) -> usize {
    let requirement = |requirement: &Requirement| {
        let (Selection::Name(select) | Selection::Labels(select)) = &requirement.select;
        let names = if let Namespaces::Named(names) = &requirement.namespaces { &**names } else { &[] };
        let namespaces = names.iter().map(String::len).sum::<usize>();
        requirement.id.len() + namespaces + select.len()
    };
    response.children.iter().map(Vec::len).sum::<usize>()
        + response.status.as_ref().map_or(0, Vec::len)
        + response.events.iter().map(|event| event.reason.len() + event.message.len()).sum::<usize>()
        + response.requirements.iter().map(requirement).sum::<usize>()
}
