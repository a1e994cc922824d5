//! `windlass run`: runs the host in this process.

use std::process::ExitCode;

use clap::CommandFactory as _;
use windlass_engine::command;
use windlass_sandbox::CompilerCommand;

use super::Cli;

/// Flags of `windlass run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass run --kubeconfig ~/.kube/config
  windlass run --check
  windlass run --plugins target/guests
  WINDLASS_LOG=debug windlass run --log-traces
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 windlass run

Exit codes:
  0  stopped by SIGTERM or SIGINT; with --check: all is well
  1  --check found a problem
  2  wrong usage
  3  the host could not start, or failed; the message says why
  7  this host does not hold the Lease `windlass` in the namespace: it lost it to another host, or, with
     --leader-elect=false, another host holds it; or it lost its shard")]
pub struct Args {
    #[command(flatten)]
    host: command::HostArgs,
}

/// Runs until SIGTERM or SIGINT, or checks whether a host can run.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    command::main(&args.host, CompilerCommand::own(), Cli::command)
}
