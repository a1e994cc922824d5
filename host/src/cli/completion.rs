//! `windlass completion`: prints shell completions of commands and flags.

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
    /// Shell to print completions for
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completions.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    // Generated into memory first: `generate` panics if standard output is closed.
    let mut script = Vec::new();
    generate(args.shell, &mut super::Cli::command(), "windlass", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
