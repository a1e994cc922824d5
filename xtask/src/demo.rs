//! `cargo xtask demo`: Windlass at work on a real control plane.

/// Flags.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Shows it.
pub fn main(_: &Args) -> anyhow::Result<()> {
    Ok(())
}
