//! Subcommands and flags. No logic of their own: they call what the host calls.

mod connect;
mod run;

use std::process::ExitCode;

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
    /// Compile a component from standard input to standard output (the host starts this by itself)
    #[command(name = windlass_sandbox::compile::SUBCOMMAND, hide = true)]
    Compile,
}

/// Exit codes of all commands.
const NOT_DONE: u8 = 3;

/// Parses the command line, runs the command and says how it went.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::main(&args),
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
