//! `windlass completion`: completions of commands and flags for a shell.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

/// Flags of `windlass completion`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass completion bash > /etc/bash_completion.d/windlass
  source <(windlass completion zsh)
  windlass completion fish > ~/.config/fish/completions/windlass.fish")]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints them.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    // Into memory first: `generate` panics where standard output is closed.
    let mut script = Vec::new();
    generate(args.shell, &mut super::Cli::command(), "windlass", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
