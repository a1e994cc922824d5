//! The versions of the contract, one folder each: `bindgen!` and the conversion between WIT and the core's types.
//! Generated types are private to their folder. Everything else in the sandbox is the same for all versions.

#[macro_use]
mod shared;
mod v0_1;
mod v0_2;

use wasmtime::component::{HasSelf, InstancePre, Linker};
use wasmtime::{Engine, Store};
use windlass_core::contract::{Descriptor, PluginResult, Request};

use crate::call::State;
use crate::notes::Notes;

/// Interfaces that [`add_to_linker`] provides.
pub(crate) const SUPPORTED: [&[&str]; 2] = [v0_2::SUPPORTED, v0_1::SUPPORTED];

/// A version of the contract that this host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// `windlass:plugin@0.1.x`
    V0_1,
    /// `windlass:plugin@0.2.0-rc.1`
    V0_2,
}

impl Version {
    /// All of them, the newest first: as this one a component is called that exports several.
    pub(crate) const ALL: [Self; 2] = [Self::V0_2, Self::V0_1];

    /// The export that makes a component a plugin of this version.
    pub(crate) const fn reconciler(self) -> &'static str {
        match self {
            Self::V0_1 => v0_1::RECONCILER,
            Self::V0_2 => v0_2::RECONCILER,
        }
    }

    /// Whether a plugin is called only with parents that fit the schema of its CRD, and gets its defaults.
    pub(crate) const fn checks_parents(self) -> bool {
        match self {
            Self::V0_1 => false,
            Self::V0_2 => true,
        }
    }
}

/// Adds the functions that a component may call, in all versions.
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    v0_1::Instance::add_to_linker::<_, HasSelf<Notes>>(linker, |state: &mut State| &mut state.wasi.notes)?;
    v0_2::Instance::add_to_linker::<_, HasSelf<Notes>>(linker, |state: &mut State| &mut state.wasi.notes)
}

/// A component whose imports are linked and whose exports are those of a version.
pub(crate) enum Pre {
    V0_1(v0_1::Pre<State>),
    V0_2(v0_2::Pre<State>),
}

impl Pre {
    /// # Errors
    /// The exports are not those of the version.
    pub(crate) fn new(version: Version, linked: InstancePre<State>) -> wasmtime::Result<Self> {
        Ok(match version {
            Version::V0_1 => Self::V0_1(v0_1::Pre::new(linked)?),
            Version::V0_2 => Self::V0_2(v0_2::Pre::new(linked)?),
        })
    }

    pub(crate) fn engine(&self) -> &Engine {
        match self {
            Self::V0_1(pre) => pre.engine(),
            Self::V0_2(pre) => pre.engine(),
        }
    }

    pub(crate) async fn instantiate_async(&self, store: &mut Store<State>) -> wasmtime::Result<Instance> {
        Ok(match self {
            Self::V0_1(pre) => Instance::V0_1(pre.instantiate_async(store).await?),
            Self::V0_2(pre) => Instance::V0_2(pre.instantiate_async(store).await?),
        })
    }
}

/// An instance for one call.
pub(crate) enum Instance {
    V0_1(v0_1::Instance),
    V0_2(v0_2::Instance),
}

/// What a guest returned, or why the host cannot carry it out, as a message for the plugin author.
pub(crate) type Returned<T> = Result<T, String>;

impl Instance {
    pub(crate) async fn describe(self, store: Store<State>) -> (wasmtime::Result<Returned<Descriptor>>, Store<State>) {
        match self {
            Self::V0_1(instance) => {
                let (descriptor, store) = instance.describe(store).await;
                (descriptor.map(Ok), store)
            }
            Self::V0_2(instance) => instance.describe(store).await,
        }
    }

    pub(crate) async fn reconcile(
        self,
        store: Store<State>,
        request: &Request,
    ) -> (wasmtime::Result<Returned<PluginResult>>, Store<State>) {
        match self {
            Self::V0_1(instance) => {
                let (result, store) = instance.reconcile(store, request).await;
                (result.map(Ok), store)
            }
            Self::V0_2(instance) => instance.reconcile(store, request).await,
        }
    }
}
