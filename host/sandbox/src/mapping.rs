//! The code of a component for one engine: mapped by a call that needs it, and released when no call has needed it for a while.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use wasmtime::component::{Component, Linker};

use crate::bindings::Pre;
use crate::cache::{Cache, Compiled};
use crate::call::State;
use crate::link;

/// The code of a component, and where it comes from. The file stays open: it was verified, and need not stay in the cache.
pub(crate) struct Mapping {
    linker: Arc<Linker<State>>,
    file: Arc<Compiled>,
    code: Mutex<Code>,
}

/// Code that may be mapped.
#[derive(Default)]
struct Code {
    linked: Option<Arc<Pre>>,
    /// Whether a call needed the code since the last [`Mapping::release_unused`].
    used: bool,
}

impl Mapping {
    /// Maps nothing until the first call.
    pub(crate) fn later(linker: &Arc<Linker<State>>, file: &Arc<Compiled>) -> Self {
        Self { linker: linker.clone(), file: file.clone(), code: Mutex::default() }
    }

    /// Links a component that was mapped from this file. Returns also the names of its unsupported imports.
    ///
    /// # Errors
    /// Its imports cannot be linked.
    pub(crate) fn of(
        component: &Component,
        linker: &Arc<Linker<State>>,
        file: &Arc<Compiled>,
    ) -> wasmtime::Result<(Self, Vec<String>)> {
        let (pre, unsupported) = link::link(linker, component)?;
        let code = Mutex::new(Code { linked: Some(Arc::new(pre)), used: true });
        Ok((Self { linker: linker.clone(), file: file.clone(), code }, unsupported))
    }

    /// The code, which stays mapped at least until the returned pointer is dropped. Blocks while the file is mapped: one to two
    /// milliseconds for a component in Rust.
    ///
    /// # Errors
    /// The message for a user, for example if the system has no memory left.
    pub(crate) fn code_of_call(&self) -> Result<Arc<Pre>, String> {
        let mut code = self.code.lock();
        code.used = true;
        if let Some(linked) = &code.linked {
            return Ok(linked.clone());
        }
        let mapped =
            Cache::map(self.linker.engine(), &self.file).and_then(|component| link::link(&self.linker, &component));
        let (pre, _) = mapped.map_err(|error| format!("its code cannot be mapped: {error:#}"))?;
        Ok(code.linked.insert(Arc::new(pre)).clone())
    }

    /// Releases the code if no call needed it since this was last called.
    pub(crate) fn release_unused(&self) {
        let mut code = self.code.lock();
        if !mem::take(&mut code.used) {
            code.linked = None;
        }
    }
}
