//! Provides `wasi:filesystem` without files. There is no preopened folder, so no descriptor exists, and no stream of this
//! host fails, so no error does. Each function of `wasi:filesystem/types` takes one of them: a guest's call ends at the
//! handle that it does not have, before it reaches the host.

use wasmtime::component::{Linker, Resource, ResourceType};
use wasmtime::{Result, bail};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{Descriptor, DirectoryEntryStream};

use super::Wasi;

const TYPES: &str = "wasi:filesystem/types@0.2.12";

/// All functions of [`TYPES`]. As none can be called, the linker needs neither their types nor the megabyte of
/// wasmtime-wasi that works on real files.
const FUNCTIONS: &[&str] = &[
    "[method]descriptor.read-via-stream",
    "[method]descriptor.write-via-stream",
    "[method]descriptor.append-via-stream",
    "[method]descriptor.advise",
    "[method]descriptor.sync-data",
    "[method]descriptor.get-flags",
    "[method]descriptor.get-type",
    "[method]descriptor.set-size",
    "[method]descriptor.set-times",
    "[method]descriptor.read",
    "[method]descriptor.write",
    "[method]descriptor.read-directory",
    "[method]descriptor.sync",
    "[method]descriptor.create-directory-at",
    "[method]descriptor.stat",
    "[method]descriptor.stat-at",
    "[method]descriptor.set-times-at",
    "[method]descriptor.link-at",
    "[method]descriptor.open-at",
    "[method]descriptor.readlink-at",
    "[method]descriptor.remove-directory-at",
    "[method]descriptor.rename-at",
    "[method]descriptor.symlink-at",
    "[method]descriptor.unlink-file-at",
    "[method]descriptor.is-same-object",
    "[method]descriptor.metadata-hash",
    "[method]descriptor.metadata-hash-at",
    "[method]directory-entry-stream.read-directory-entry",
    "filesystem-error-code",
];

pub(super) fn add_to_linker<T: 'static>(linker: &mut Linker<T>) -> Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.resource("descriptor", ResourceType::host::<Descriptor>(), |_, _| Ok(()))?;
    types.resource("directory-entry-stream", ResourceType::host::<DirectoryEntryStream>(), |_, _| Ok(()))?;
    for name in FUNCTIONS {
        types.func_new(name, move |_, _, _, _| bail!("{TYPES}#{name}: there are no files"))?;
    }
    Ok(())
}

impl preopens::Host for Wasi {
    fn get_directories(&mut self) -> Result<Vec<(Resource<preopens::Descriptor>, String)>> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::Engine;
    use wasmtime::component::ResourceTable;
    use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemCtx, WasiFilesystemCtxView};
    use wasmtime_wasi::p2::bindings::sync::filesystem::types;

    use super::*;

    #[derive(Default)]
    struct Files {
        ctx: WasiFilesystemCtx,
        table: ResourceTable,
    }

    #[test]
    fn functions_are_those_of_wasi() {
        let mut linker = Linker::<Files>::new(&Engine::default());
        types::add_to_linker::<_, WasiFilesystem>(&mut linker, |files| WasiFilesystemCtxView {
            ctx: &mut files.ctx,
            table: &mut files.table,
        })
        .unwrap();
        let mut instance = linker.instance(TYPES).unwrap();
        for name in FUNCTIONS {
            // Finds names that WASI does not have; it cannot find those that are missing here. Defining a name fails exactly if it is already defined.
            assert!(instance.func_new(name, |_, _, _, _| Ok(())).is_err(), "{name}");
        }
    }
}
