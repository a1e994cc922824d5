//! `windlass`: one binary, whose subcommands live in `cli`.

mod apply;
mod call;
mod caps;
mod cli;
mod conduct;
mod definition;
mod delivery;
mod homes;
mod lease;
mod live;
mod memo;
mod observe;
mod pending;
mod plugins;
mod queue;
mod reconcile;
mod related;
mod report;
mod retry_after;
mod rights;
mod run;
mod seeds;
mod serve;
mod strays;
mod telemetry;
mod terminating;
mod triggers;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
