//! `windlass`: the commands and their flags.

#[macro_use(err, out)]
extern crate windlass_engine;

// Each command.
mod build;
mod completion;
mod crd;
mod dev;
mod diff;
mod explain;
mod generate;
mod harness;
mod inspect;
mod install;
mod new;
mod push;
mod record;
mod remove;
mod render;
mod replay;
mod run;
mod test;
mod uninstall;

// What several commands need.
mod applied; // writes objects
mod component; // COMPONENT arguments: a file, a reference, a ConfigMap
mod connect; // namespaces, and what a refused request says
mod deleted; // finds objects and deletes them
mod fields; // sets fields of objects
mod files; // reads files that users name
mod host_calls; // asks hosts for their recent calls
mod host_lease; // whether a host runs
mod manifests; // objects from files
mod offline; // calls a component without a host
mod output; // prints texts, YAML and JSON
mod pushed; // what `windlass push` wrote
mod recording_file; // files of recorded calls
mod repeat; // repeats a recorded call
mod secrets; // masks the values of Secrets
mod yaml; // as kubectl reads and writes it

#[cfg(test)]
mod conventions;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use windlass_engine::command::{COMMAND_FAILED, INPUT_REJECTED, NOT_HOLDER, exit_code};

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
    /// Install Windlass on a cluster: CRD, permissions, admission policies, Deployment
    Install(install::Args),
    /// Uninstall what `windlass install` wrote, once no Plugin is left
    Uninstall(uninstall::Args),
    /// Print the Plugin CRD, or the CRD that a component carries
    Crd(crd::Args),
    /// Make the project of a new plugin
    New(new::Args),
    /// Build the component of a plugin's project
    Build(build::Args),
    /// Develop a plugin: build it when its sources change, run it on a cluster, and print what the host decides
    Dev(dev::Args),
    /// Show what a component declares: digest, contract, descriptor, imports, exports
    Inspect(inspect::Args),
    /// Show the children that a component desires for parents from files
    Render(render::Args),
    /// Show what a component would change in a cluster
    Diff(diff::Args),
    /// Test a component: golden cases, and properties of its responses to parents that its CRD accepts
    Test(test::Args),
    /// Deliver a component by a ConfigMap or a registry, and run it as a Plugin
    Push(push::Args),
    /// Explain what the host did with a parent, and why
    Explain(explain::Args),
    /// Save the calls of a plugin in a file, without values of Secrets
    Record(record::Args),
    /// Repeat recorded calls without a cluster, and show differences
    Replay(replay::Args),
    /// Delete a Plugin and the objects that `windlass push` wrote for it
    Remove(remove::Args),
    /// Print completions for a shell
    Completion(completion::Args),
    /// Check a call in a native test of a plugin as the host would (used by the SDKs' test harnesses)
    #[command(hide = true)]
    Harness(harness::Args),
    /// Print generated manifests (used by `cargo xtask codegen`)
    #[command(hide = true)]
    Generate(generate::Args),
    /// Compile a component from standard input to standard output (started by the host)
    #[command(name = windlass_sandbox::compile::SUBCOMMAND, hide = true)]
    Compile,
}

/// Exit code: timeout.
const TIMED_OUT: u8 = 4;
/// Exit code: a setting of the Plugin keeps the component from working.
const BLOCKED_BY_SETTING: u8 = 5;
/// Exit code: the parent does not match the schema of its CRD.
const INVALID_PARENT: u8 = 6;

/// Exit code: Plugins exist.
const PLUGINS_EXIST: u8 = 8;

/// Parses the name of an object, whose namespace is a flag of its own.
fn parse_name(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((namespace, _)) => Err(format!("write the name alone, and its namespace as -n {namespace}")),
        None if text.is_empty() => Err("the name is empty".to_owned()),
        None => Ok(text.to_owned()),
    }
}

/// Parses the command line, runs the command and returns its exit code.
fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::main(&args),
        Command::Install(args) => install::main(&args),
        Command::Uninstall(args) => uninstall::main(&args),
        Command::Crd(args) => crd::main(args),
        Command::New(args) => new::main(&args),
        Command::Build(args) => build::main(&args),
        Command::Dev(args) => dev::main(&args),
        Command::Inspect(args) => inspect::main(&args),
        Command::Render(args) => render::main(&args),
        Command::Diff(args) => diff::main(&args),
        Command::Test(args) => test::main(&args),
        Command::Push(args) => push::main(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Record(args) => record::main(args),
        Command::Replay(args) => replay::main(args),
        Command::Remove(args) => remove::main(&args),
        Command::Completion(args) => completion::main(&args),
        Command::Generate(args) => generate::main(&args),
        Command::Harness(args) => harness::main(&args),
        Command::Compile => return windlass_sandbox::compile::child_main(),
    };
    match result {
        // The reader of the output has what it needs.
        Err(error) if error.is::<output::Closed>() => ExitCode::from(COMMAND_FAILED),
        result => exit_code(result),
    }
}

/// Runs a future to its end on a new runtime.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?.block_on(work)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    /// The commands after pipes and redirections of a shell line, each as its words. Placeholders such as `NAME` become
    /// lower-case words, which are valid names.
    pub fn commands_of(line: &str) -> Vec<Vec<String>> {
        let words = shlex::split(line).unwrap_or_default();
        assert!(!words.is_empty() || !line.contains("windlass "), "unbalanced quotes: {line}");
        let is_end = |word: &String| matches!(word.as_str(), "|" | "||" | "&&" | ";" | "&" | ">" | ">>");
        let is_variable = |word: &&String| word.split_once('=').is_some_and(|(name, _)| !name.starts_with('-'));
        let is_placeholder = |word: &str| word.chars().all(|char| char.is_ascii_uppercase() || char == '_');
        let filled = |word: &String| if is_placeholder(word) { word.to_lowercase() } else { word.clone() };
        let commands = words.split(is_end);
        commands.map(|words| words.iter().skip_while(is_variable).map(filled).collect()).collect()
    }

    #[test]
    fn documented_commands_have_valid_arguments() {
        let mut parsed = 0;
        for page in windlass_book::pages().expect("readable pages") {
            for block in page.commands() {
                let commands = block.text.replace("\\\n", " ");
                for command in commands.lines().flat_map(commands_of) {
                    let words = command.iter().map(String::as_str).skip_while(|word| *word == "kubectl");
                    if words.clone().next() != Some("windlass") {
                        continue;
                    }
                    parsed += 1;
                    if let Err(error) = Cli::try_parse_from(words)
                        && error.use_stderr()
                    {
                        panic!("{}:{}: {error}", page.path.display(), block.line);
                    }
                }
            }
        }
        assert!(parsed > 20, "too few commands found: {parsed}");
    }

    /// Commands in a sentence may be incomplete, but have no flag or subcommand that does not exist.
    #[test]
    fn commands_in_sentences_of_the_documentation_exist() {
        let mut parsed = 0;
        for page in windlass_book::pages().expect("readable pages") {
            for command in page.code.iter().flat_map(|code| commands_of(code)) {
                if command.len() < 2 || command.first().is_none_or(|program| program != "windlass") {
                    continue;
                }
                parsed += 1;
                let kind = Cli::try_parse_from(&command).map_or_else(|error| Some(error.kind()), |_| None);
                let is_unknown = matches!(kind, Some(ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand));
                assert!(!is_unknown, "{}: {}: {kind:?}", page.path.display(), command.join(" "));
            }
        }
        assert!(parsed > 50, "too few commands found: {parsed}");
    }
}
