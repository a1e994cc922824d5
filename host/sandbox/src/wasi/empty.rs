//! Provides the interfaces by which a guest would see what is outside of its call: there are no arguments, variables, terminals and files.
//!
//! As there is no preopened folder, no descriptor exists, and no stream of this host fails, so no error does. Each function of
//! `wasi:filesystem/types` takes one of them: a guest's call ends at the handle that it does not have, before it reaches the host.

use wasmtime::component::{Linker, Resource, ResourceType};
use wasmtime::{Result, bail};
use wasmtime_wasi::p2::bindings::cli::terminal_input::TerminalInput;
use wasmtime_wasi::p2::bindings::cli::terminal_output::TerminalOutput;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{Descriptor, DirectoryEntryStream};

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
    let mut environment = linker.instance("wasi:cli/environment@0.2.12")?;
    environment.func_wrap("get-environment", |_, ()| Ok((Vec::<(String, String)>::new(),)))?;
    environment.func_wrap("get-arguments", |_, ()| Ok((Vec::<String>::new(),)))?;
    environment.func_wrap("initial-cwd", |_, ()| Ok((None::<String>,)))?;
    let mut input = linker.instance("wasi:cli/terminal-input@0.2.12")?;
    input.resource("terminal-input", ResourceType::host::<TerminalInput>(), |_, _| Ok(()))?;
    let mut output = linker.instance("wasi:cli/terminal-output@0.2.12")?;
    output.resource("terminal-output", ResourceType::host::<TerminalOutput>(), |_, _| Ok(()))?;
    let mut stdin = linker.instance("wasi:cli/terminal-stdin@0.2.12")?;
    stdin.func_wrap("get-terminal-stdin", |_, ()| Ok((None::<Resource<TerminalInput>>,)))?;
    for stream in ["stdout", "stderr"] {
        let mut instance = linker.instance(&format!("wasi:cli/terminal-{stream}@0.2.12"))?;
        instance.func_wrap(&format!("get-terminal-{stream}"), |_, ()| Ok((None::<Resource<TerminalOutput>>,)))?;
    }
    let mut folders = linker.instance("wasi:filesystem/preopens@0.2.12")?;
    folders.func_wrap("get-directories", |_, ()| Ok((Vec::<(Resource<Descriptor>, String)>::new(),)))?;
    let mut types = linker.instance(TYPES)?;
    types.resource("descriptor", ResourceType::host::<Descriptor>(), |_, _| Ok(()))?;
    types.resource("directory-entry-stream", ResourceType::host::<DirectoryEntryStream>(), |_, _| Ok(()))?;
    for name in FUNCTIONS {
        types.func_new(name, move |_, _, _, _| bail!("{TYPES}#{name}: there are no files"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use wasmtime::Engine;
    use wasmtime::component::ResourceTable;
    use wasmtime_wasi::cli::{WasiCli, WasiCliCtx, WasiCliCtxView};
    use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemCtx, WasiFilesystemCtxView};
    use wasmtime_wasi::p2::bindings::cli;
    use wasmtime_wasi::p2::bindings::sync::filesystem::{preopens, types};

    use super::*;

    /// Each interface that this module provides, with its names except [`FUNCTIONS`].
    const NAMES: [(&str, &[&str]); 8] = [
        ("wasi:cli/environment@0.2.12", &["get-environment", "get-arguments", "initial-cwd"]),
        ("wasi:cli/terminal-input@0.2.12", &["terminal-input"]),
        ("wasi:cli/terminal-output@0.2.12", &["terminal-output"]),
        ("wasi:cli/terminal-stdin@0.2.12", &["get-terminal-stdin"]),
        ("wasi:cli/terminal-stdout@0.2.12", &["get-terminal-stdout"]),
        ("wasi:cli/terminal-stderr@0.2.12", &["get-terminal-stderr"]),
        ("wasi:filesystem/preopens@0.2.12", &["get-directories"]),
        (TYPES, &["descriptor", "directory-entry-stream"]),
    ];

    #[derive(Default)]
    struct Real {
        cli: WasiCliCtx,
        files: WasiFilesystemCtx,
        table: ResourceTable,
    }

    fn cli(real: &mut Real) -> WasiCliCtxView<'_> {
        WasiCliCtxView { ctx: &mut real.cli, table: &mut real.table }
    }

    fn files(real: &mut Real) -> WasiFilesystemCtxView<'_> {
        WasiFilesystemCtxView { ctx: &mut real.files, table: &mut real.table }
    }

    /// A linker with wasmtime-wasi's own interfaces.
    fn real() -> Result<Linker<Real>> {
        let mut linker = Linker::new(&Engine::default());
        cli::environment::add_to_linker::<_, WasiCli>(&mut linker, cli)?;
        cli::terminal_input::add_to_linker::<_, WasiCli>(&mut linker, cli)?;
        cli::terminal_output::add_to_linker::<_, WasiCli>(&mut linker, cli)?;
        cli::terminal_stdin::add_to_linker::<_, WasiCli>(&mut linker, cli)?;
        cli::terminal_stdout::add_to_linker::<_, WasiCli>(&mut linker, cli)?;
        cli::terminal_stderr::add_to_linker::<_, WasiCli>(&mut linker, cli)?;
        preopens::add_to_linker::<_, WasiFilesystem>(&mut linker, files)?;
        types::add_to_linker::<_, WasiFilesystem>(&mut linker, files)?;
        Ok(linker)
    }

    #[test]
    fn functions_are_those_of_wasi() {
        let (mut ours, mut theirs) = (Linker::<()>::new(&Engine::default()), real().unwrap());
        add_to_linker(&mut ours).unwrap();
        for (interface, names) in NAMES.into_iter().chain([(TYPES, FUNCTIONS)]) {
            let (mut ours, mut theirs) = (ours.instance(interface).unwrap(), theirs.instance(interface).unwrap());
            for name in names {
                // Finds names that WASI or this module does not have; it cannot find those that both lists lack.
                // Defining a name fails exactly if it is already defined.
                assert!(ours.func_new(name, |_, _, _, _| Ok(())).is_err(), "{interface}#{name}");
                assert!(theirs.func_new(name, |_, _, _, _| Ok(())).is_err(), "{interface}#{name} of wasmtime-wasi");
            }
        }
    }
}
