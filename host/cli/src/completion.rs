//! `windlass completion`: prints shell completions of commands and flags.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::output::write;

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
    generate(args.shell, &mut offered(), "windlass", &mut script);
    write(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// The commands that a user may type: `clap_complete` would offer hidden ones as well.
fn offered() -> clap::Command {
    let all = super::Cli::command();
    let offered = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    clap::Command::new("windlass").subcommands(offered.collect::<Vec<_>>())
}
