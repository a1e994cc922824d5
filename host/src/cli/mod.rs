//! Subcommands and flags. No logic of their own: they call what the host calls.

mod component;
mod connect;
mod crd;
mod generate;
mod inspect;
mod output;
mod push;
mod render;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use clap::{Parser, Subcommand};

/// Run Kubernetes operators as sandboxed WebAssembly components
#[derive(Parser)]
#[command(name = "windlass", version, about, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the host: watch Plugins and reconcile their parents
    Run(run::Args),
    /// Print Windlass' own CRDs, or the CRD that a component carries
    Crd(crd::Args),
    /// Show what a component is: digest, contract, descriptor, imports, exports
    Inspect(inspect::Args),
    /// Show what a component wants for one parent, without a cluster
    Render(render::Args),
    /// Put a component into a ConfigMap and run it as a Plugin
    Push(push::Args),
    /// Print generated manifests (`cargo xtask codegen` calls this)
    #[command(hide = true)]
    Generate(generate::Args),
    /// Compile a component from standard input to standard output (the host starts this by itself)
    #[command(name = windlass_sandbox::compile::SUBCOMMAND, hide = true)]
    Compile,
}

/// Exit code: the answer is no.
const ANSWER_IS_NO: u8 = 1;
/// Exit code: it could not be done. (2, wrong usage, is clap's.)
const NOT_DONE: u8 = 3;

/// Parses the command line, runs the command and says how it went.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::main(&args),
        Command::Crd(args) => crd::main(args),
        Command::Inspect(args) => inspect::main(&args),
        Command::Render(args) => render::main(&args),
        Command::Push(args) => push::main(&args),
        Command::Generate(args) => generate::main(&args),
        Command::Compile => return windlass_sandbox::compile::child_main(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(NOT_DONE)
        }
    }
}

/// Runs a command's asynchronous part to its end.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?.block_on(work)
}

/// `$XDG_CACHE_HOME/windlass/components`, or below `~/.cache`.
fn default_cache_dir() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Ok(base.context("no folder for compiled components: set --cache-dir")?.join("windlass/components"))
}
