//! The repository's own commands: `cargo xtask --help`.

mod bench;
mod cluster;
mod codegen;
mod demo;
mod faults;
mod guests;
mod image;
mod run;
mod test;
mod venv;

use std::process::ExitCode;

use clap::Parser;

/// Windlass' own commands: everything that contributors and CI run.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Show Windlass at work: a real control plane, the host, a plugin from a ConfigMap, a hot swap, a trace
    Demo(demo::Args),
    /// Run every test; sets up all they need first
    Test(test::Args),
    /// Build all components into target/guests
    Guests,
    /// Start or end a local control plane
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Write the generated files: CRDs, roles, command reference
    Codegen(codegen::Args),
    /// Measure Windlass beside its limits and its peers
    Bench(bench::Args),
    /// Disturb the operators' lives: kill the host at every write, inject every fault
    Faults(faults::Args),
    /// Build the image of the host, and try it as its Deployment runs it
    Image(image::Args),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Demo(args) => demo::main(&args),
        Command::Test(args) => test::main(&args),
        Command::Guests => guests::build(guests::Options::default()).map(drop),
        Command::Cluster(command) => cluster::main(&command),
        Command::Codegen(args) => codegen::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Faults(args) => faults::main(&args),
        Command::Image(args) => image::main(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
