//! `windlass`: one binary, whose subcommands live in `cli`.

mod cli;
mod cluster;
mod heap;
mod live;
mod plugins;
mod queue;
mod recent;
mod reconcile;
mod run;
mod serve;
mod telemetry;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
