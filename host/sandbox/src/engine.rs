//! The two wasmtime engines, with equal tunables, that share one compiled file: a pooled engine for components that fit
//! its slots, and an on-demand engine for the others.

use std::sync::Arc;

use wasmtime::wasmparser::WasmFeatures;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};
use windlass_core::value::digest::Digest;

use crate::ticker::Ticker;

/// Stack size that a guest may use, in bytes.
const GUEST_STACK: usize = 1024 * 1024;

/// Stack size that the host's own functions need beyond the guest's part, in bytes.
const HOST_STACK: usize = 512 * 1024;

/// Stack size of a call, in bytes. The guest's part counts twice: a host function that returns a list calls the guest
/// to allocate memory (`cabi_realloc`), and wasmtime measures the guest's stack again from there. A guest that overran
/// the whole stack would crash the host. `cabi_realloc` may not call the host, so the guest's part does not count three
/// times.
const CALL_STACK: usize = 2 * GUEST_STACK + HOST_STACK;

/// The engines of this process, and the thread that ticks their epochs.
#[derive(Clone)]
pub(crate) struct Engines {
    /// For components that fit a slot of the pool: an instance costs no system call except for the reset of its memory.
    pub(crate) pooled: Engine,
    /// For all other components, and when all slots are in use.
    pub(crate) on_demand: Engine,
    pub(crate) ticker: Arc<Ticker>,
}

impl Engines {
    pub(crate) fn new(call_slots: u32) -> wasmtime::Result<Self> {
        let mut pooled = config();
        pooled.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(call_slots)));
        let pooled = Engine::new(&pooled)?;
        let on_demand = Engine::new(&config())?;
        let ticker = Ticker::start(vec![pooled.clone(), on_demand.clone()])?;
        Ok(Self { pooled, on_demand, ticker: Arc::new(ticker) })
    }
}

/// Names the build of the engines: files that a compiling child with another key has compiled are not looked at. wasmtime itself
/// also rejects a file of another version of wasmtime, with other settings or for another processor.
///
/// The settings are in this file. The hash that wasmtime makes of them exists only where the compiler is.
pub(crate) fn key() -> String {
    let settings = Digest::of(include_bytes!("engine.rs")).short();
    format!("{}-{settings}", env!("CARGO_PKG_VERSION"))
}

/// Creates the engine of the compiling child.
#[cfg(feature = "compiler")]
pub(crate) fn for_compiling() -> wasmtime::Result<Engine> {
    let mut config = config();
    config.strategy(wasmtime::Strategy::Cranelift).cranelift_opt_level(wasmtime::OptLevel::Speed);
    Engine::new(&config)
}

/// Settings that both engines and the compiling child share. All settings that a compiled file depends on belong here.
fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        // Only epochs interrupt guests: fuel would slow every guest down by some 10 %.
        .epoch_interruption(true)
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(CALL_STACK)
        // Memory images are mapped from the compiled file; a fresh instance copies only the pages that it writes.
        .memory_init_cow(true)
        // Each proposal is attack surface, so these are off until a supported language needs them. Go, JavaScript and
        // Python do not.
        .wasm_features(WasmFeatures::FUNCTION_REFERENCES, false)
        .wasm_gc(false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .wasm_stack_switching(false)
        .concurrency_support(false)
        // The name section provides function names for trap messages. Address maps to source lines would double the
        // size of the compiled file, and users of a plugin have no use for them.
        .generate_address_map(false);
    config
}

/// The pool's size. Its address space is only reserved; the cost is the memory that stays resident between calls.
fn pool(call_slots: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool
        // One component instance per call.
        .total_component_instances(call_slots)
        // A component in Rust, Go or JavaScript has 3 or 4 core instances (main module, shim and fix-up of
        // `wit-component`, perhaps the adapter of preview 1), one in Python has 14, since its runtime consists of
        // libraries. A component with more than 16 runs on demand.
        .max_core_instances_per_component(16)
        .total_core_instances(call_slots.saturating_mul(16))
        // Usually there is one memory; two leave room for a component composed of two.
        .max_memories_per_component(2)
        .max_memories_per_module(2)
        .total_memories(call_slots.saturating_mul(2))
        .max_tables_per_component(8)
        .max_tables_per_module(4)
        .total_tables(call_slots.saturating_mul(8))
        // A large JavaScript engine has 10 000 functions in a table; larger components run on demand.
        .table_elements(20_000)
        // One stack per call. The part of a stack that a guest used stays resident, up to the whole stack.
        .total_stacks(call_slots)
        // Memory that keeps its pages after a call is zeroed instead of returned to the kernel, which saves page faults
        // in the next call. An idle host keeps this amount for each slot.
        .linear_memory_keep_resident(64 * 1024)
        // Asks the kernel (Linux 6.7 on) which pages a call wrote, and resets only those: saves a quarter of the
        // latency of a small guest's call. Without it, a reset zeroes all memory that may stay resident.
        .pagemap_scan(Enabled::Auto)
        .table_keep_resident(4 * 1024)
        // Slots that keep a component's image mapped while idle, so that its next call maps nothing.
        .max_unused_warm_slots(call_slots);
    pool
}

#[cfg(all(test, feature = "compiler"))]
mod tests {
    use std::hash::{Hash, Hasher};

    use super::*;

    /// The hash by which wasmtime tells that a file compiled for one engine is of use to another.
    fn compatibility(engine: &Engine) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn one_compiled_file_serves_both_engines_and_the_compiling_child() {
        let engines = Engines::new(2).unwrap();
        let pooled = compatibility(&engines.pooled);
        assert_eq!(pooled, compatibility(&engines.on_demand));
        assert_eq!(pooled, compatibility(&for_compiling().unwrap()));
    }
}
