//! Subcommands and flags. No logic of their own: they call what the host calls.

mod completion;
mod component;
mod connect;
mod crd;
mod generate;
mod inspect;
mod output;
mod push;
mod pushed;
mod remove;
mod render;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

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
    /// Delete a Plugin and what `windlass push` wrote for it
    Remove(remove::Args),
    /// Print the completions of a shell
    Completion(completion::Args),
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
/// Exit code: it did not happen in time.
const TIMED_OUT: u8 = 4;
/// Exit code: a setting of the Plugin holds it back.
const HELD_BACK: u8 = 5;
/// Exit code: the parent breaks the schema of its CRD.
const INVALID_PARENT: u8 = 6;

/// Exit code: another host holds the Lease.
const NOT_HOLDER: u8 = 7;

/// A duration as kubectl takes it (`120s`, `1m30s`), or seconds.
fn parse_timeout(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) || text.ends_with(|c: char| c.is_ascii_digit()) {
        return Err("write it as in 120s, 5m or 1m30s".to_owned());
    }
    text.parse::<kube::core::Duration>().map(Duration::from).map_err(|error| error.to_string())
}

/// Parses the command line, runs the command and says how it went.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::main(&args),
        Command::Crd(args) => crd::main(args),
        Command::Inspect(args) => inspect::main(&args),
        Command::Render(args) => render::main(&args),
        Command::Push(args) => push::main(&args),
        Command::Remove(args) => remove::main(&args),
        Command::Completion(args) => completion::main(&args),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_written_as_for_kubectl_or_in_seconds() {
        for (text, seconds) in [("60", 60), ("120s", 120), ("5m", 300), ("1m30s", 90), ("0", 0)] {
            assert_eq!(parse_timeout(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "soon", "-1s", "-5", "1.5"] {
            assert!(parse_timeout(text).is_err(), "{text}");
        }
    }
}
