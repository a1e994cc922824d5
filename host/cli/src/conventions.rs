//! Tests of `conventions.md`: what holds for every command.

use std::collections::BTreeMap;

use clap::{Arg, Command, CommandFactory as _, Parser as _};

use super::Cli;
use super::tests::commands_of;

/// The commands that connect to no cluster.
const OFFLINE: [&str; 3] = ["new", "build", "completion"];
/// The commands that are about the host itself.
const ABOUT_THE_HOST: [&str; 3] = ["run", "install", "uninstall"];

/// The commands that users see.
fn commands() -> Vec<Command> {
    let mut all = Cli::command();
    all.build();
    all.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help").cloned().collect()
}

fn flag<'a>(command: &'a Command, long: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(long))
}

fn help(arg: &Arg) -> String {
    arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default()
}

#[test]
fn every_command_that_connects_to_a_cluster_has_the_same_flags_for_it() {
    for long in ["kubeconfig", "context", "as", "as-group", "request-timeout", "v"] {
        let mut helps = BTreeMap::<_, Vec<_>>::new();
        for command in commands() {
            let (name, found) = (command.get_name().to_owned(), flag(&command, long));
            assert_eq!(found.is_none(), OFFLINE.contains(&&*name), "windlass {name}: --{long}");
            if let Some(found) = found {
                helps.entry(help(found)).or_default().push(name);
            }
        }
        assert_eq!(helps.len(), 1, "--{long} has several meanings: {helps:#?}");
    }
}

#[test]
fn namespace_is_that_of_the_named_objects_or_of_the_host_that_the_command_is_about() {
    for command in commands() {
        let name = command.get_name();
        let is_about_host = ABOUT_THE_HOST.contains(&name);
        if let Some(namespace) = flag(&command, "namespace") {
            let help = help(namespace);
            let meaning =
                if is_about_host { "Namespace of the host" } else { "Namespace of the objects that the command names" };
            assert!(help.starts_with(meaning), "windlass {name}: --namespace: {help}");
            assert_eq!(namespace.get_env().is_some(), is_about_host, "windlass {name}: the variable is of the host");
        }
        if let Some(host) = flag(&command, "host-namespace") {
            assert!(!is_about_host, "windlass {name} has two flags for the host's namespace");
            assert!(help(host).starts_with("Namespace of the host"), "windlass {name}: {}", help(host));
        }
    }
}

#[test]
fn output_is_a_format_of_reports_or_of_objects() {
    for command in commands() {
        let name = command.get_name();
        let Some(output) = flag(&command, "output") else { continue };
        let values = output.get_possible_values();
        let values: Vec<_> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        assert!(
            [["text", "json", "yaml"], ["yaml", "json", "name"]].iter().any(|set| values == set),
            "{name}: {values:?}"
        );
        assert_eq!(output.get_default_values(), &values[..1], "windlass {name}");
    }
}

#[test]
fn flag_has_the_same_short_form_in_every_command() {
    let (mut shorts, mut longs) = (BTreeMap::new(), BTreeMap::new());
    for command in commands() {
        for arg in command.get_arguments() {
            let (Some(long), short) = (arg.get_long().map(str::to_owned), arg.get_short()) else { continue };
            let name = command.get_name();
            assert_eq!(*shorts.entry(long.clone()).or_insert(short), short, "windlass {name}: --{long}");
            if let Some(short) = short {
                assert_eq!(*longs.entry(short).or_insert(long.clone()), long, "windlass {name}: -{short}");
            }
        }
    }
}

#[test]
fn help_of_every_command_has_examples_that_are_valid() {
    for command in commands() {
        let name = command.get_name();
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default().replace("\\\n", " ");
        let Some((_, examples)) = after.split_once("Examples:\n") else { panic!("windlass {name} has no examples") };
        let lines = examples.lines().filter(|line| line.starts_with("  "));
        let all: Vec<_> = lines.take_while(|line| !line.starts_with("  0  ")).flat_map(commands_of).collect();
        let own: Vec<_> = all.iter().filter(|words| words.iter().take(2).eq(["windlass", name])).collect();
        assert!(!own.is_empty(), "windlass {name} has no example of itself");
        for words in own {
            let parsed = Cli::try_parse_from(words);
            assert!(
                parsed.is_ok(),
                "{}: {}",
                words.join(" "),
                parsed.err().map_or_else(String::new, |why| why.to_string())
            );
        }
    }
}

#[test]
fn help_of_a_flag_does_not_describe_another_command() {
    let names: Vec<_> = commands().iter().map(|command| format!("`{}`", command.get_name())).collect();
    for command in commands() {
        for arg in command.get_arguments() {
            let values = arg.get_possible_values();
            let values = values.iter().filter_map(|value| value.get_help().map(ToString::to_string));
            for text in std::iter::once(help(arg)).chain(values) {
                let other = names.iter().find(|name| text.contains(*name));
                assert_eq!(other, None, "windlass {}: {}: {text}", command.get_name(), arg.get_id());
            }
        }
    }
}
