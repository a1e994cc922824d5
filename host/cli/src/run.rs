//! `windlass run`: runs the host in this process.

use std::process::ExitCode;

use clap::CommandFactory as _;
use windlass_engine::command;
use windlass_sandbox::CompilerCommand;

use super::Cli;

/// Flags of `windlass run`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  windlass run --kubeconfig ~/.kube/config
  windlass run --check
  windlass run --plugins target/guests
  WINDLASS_LOG=debug windlass run --log-traces
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 windlass run

{}", command::EXIT_CODES))]
pub struct Args {
    #[command(flatten)]
    host: command::HostArgs,
}

/// Runs until SIGTERM or SIGINT, or checks whether a host can run.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    command::main(&args.host, CompilerCommand::own(), Cli::command)
}
