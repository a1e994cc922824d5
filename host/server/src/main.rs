//! `windlass-host`: runs the host, as the image does. `windlass-compile` beside it compiles components.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser};
use windlass_engine::command;
use windlass_sandbox::CompilerCommand;

/// Run the host: watch Plugins and reconcile their parents
#[derive(Parser)]
#[command(name = "windlass-host", version, about)]
#[command(after_help = format!("Examples:
  windlass-host --kubeconfig ~/.kube/config
  windlass-host --check

`windlass run` takes the same flags. This binary is smaller: it has no other command, and starts `windlass-compile`, which lies \
beside it, to compile components.

{}", command::EXIT_CODES))]
struct Host {
    #[command(flatten)]
    args: command::HostArgs,
}

fn main() -> ExitCode {
    let host = Host::parse();
    let compiler = CompilerCommand::beside("windlass-compile").context("the compiler cannot be opened");
    command::exit_code(compiler.and_then(|compiler| command::main(&host.args, compiler, Host::command)))
}
