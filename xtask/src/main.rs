//! The repository's own commands: `cargo xtask --help`.

mod bench;
mod book;
mod cluster;
mod codegen;
mod demo;
mod faults;
mod guests;
mod image;
mod npm;
mod references;
mod run;
mod sdks;
mod simulate;
mod test;
mod venv;

use std::process::ExitCode;

use clap::Parser;

/// Windlass' own commands: everything that contributors and CI run.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Run the demo: a real control plane, the host, a plugin from a ConfigMap, a hot swap, a trace
    Demo(demo::Args),
    /// Build what the tests need, then run them (of the fault tests, a sample)
    Test(test::Args),
    /// Build the components into target/guests
    Guests(guests::Options),
    /// Start or stop a local control plane
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Write the generated files: CRDs, roles, command reference
    Codegen(codegen::Args),
    /// Build the book from docs/, and the API references of the SDKs, into target/book/html
    Book,
    /// Compare Windlass with controller-runtime, kopf and a plain client
    Bench(bench::Args),
    /// Run every fault test: the host is killed at each of its writes, and each fault is injected
    Faults(faults::Args),
    /// Run hosts against a model of the API server, and look for histories that end badly
    Simulate(simulate::Args),
    /// Build the host's image; with --try, also run it as its Deployment does
    Image(image::Args),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Demo(args) => demo::main(&args),
        Command::Test(args) => test::main(&args),
        Command::Guests(options) => guests::build(&options).map(drop),
        Command::Cluster(command) => cluster::main(&command),
        Command::Codegen(args) => codegen::main(&args),
        Command::Book => book::main(),
        Command::Bench(args) => bench::main(&args),
        Command::Faults(args) => faults::main(&args),
        Command::Simulate(args) => simulate::main(&args),
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
