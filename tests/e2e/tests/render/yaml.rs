//! Files are read as kubectl reads them, and printed YAML is read back by kubectl.

use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_e2e::{run_offline, shared};

use super::{file, path};

/// Scalars that parsers of YAML read differently.
const SCALARS: [&str; 47] = [
    "0644",
    "012",
    "08",
    "0o17",
    "0x1F",
    "0b101",
    "-0b101",
    "0b-101",
    "1_000",
    "+1",
    "-0",
    "1e3",
    "1e+3",
    "1E-1",
    "1.",
    ".5",
    "+.5",
    "1.0",
    "1.50",
    "18446744073709551615",
    "12345678901234567890123",
    "yes",
    "On",
    "y",
    "n",
    "off",
    "TRUE",
    "tRUE",
    "nULL",
    "1:30",
    "190:20:30",
    "2024-01-01",
    "2001-12-14t21:59:43.10-05:00",
    "0x",
    "0o8",
    "1e",
    "1.2.3",
    "=",
    "1Gi",
    "NaN",
    "\"0644\"",
    "'yes'",
    "!!str 0644",
    "!!int \"012\"",
    "!!binary aGk=",
    "!secret 0644",
    "1e999",
];

/// Texts that writers of YAML must quote or escape.
const TEXTS: [&str; 22] = [
    "",
    " ",
    "\t",
    "a\tb",
    "a\n\tb\n",
    "\ta\nb",
    "a\n\n\nb\n\n",
    " a\nb",
    "a \nb",
    "a\r\nb",
    "yes",
    "0644",
    "1e3",
    "~",
    "- a",
    "a: b",
    "#",
    "\u{1b}[2J\u{9b}\u{7f}",
    "\u{202e}\u{2028}\u{feff}",
    "😀\u{e0041}",
    "\u{85}\u{a0}",
    "a long line of words that a writer could fold into several lines, because it is much longer than eighty characters",
];

/// The objects in a file, as kubectl reads them.
fn read_by_kubectl(file: &str) -> Vec<Value> {
    let printed = shared().env.kubectl(&["annotate", "--local", "-f", file, "read=yes", "-o", "json"]);
    let objects = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
    objects.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}: {printed}"))
}

#[test]
fn render_reads_scalars_as_kubectl_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut text =
        "apiVersion: puppets.example/v1\nkind: Puppet\nmetadata: {name: web, namespace: demo}\nspec:\n  status:\n"
            .to_owned();
    for (at, scalar) in SCALARS.iter().enumerate() {
        writeln!(text, "    s{at}: {scalar}").expect("a String");
    }
    let file = folder.path().join("parent.yaml").to_string_lossy().into_owned();
    std::fs::write(&file, &text).expect("written");
    let (code, printed, stderr) =
        run_offline(&["render", &path("puppets/puppet"), "-f", &file, "--full", "-o", "json"]);
    assert_eq!(code, 0, "{printed}{stderr}");
    let rendered: Value = serde_json::from_str(&printed).expect("JSON");
    let expected = read_by_kubectl(&file).pop().expect("an object");
    for (at, scalar) in SCALARS.iter().enumerate() {
        let field = format!("s{at}");
        assert_eq!(rendered["status"][&field], expected["spec"]["status"][&field], "{scalar}");
    }
}

#[test]
fn kubectl_reads_printed_yaml_as_it_was_meant() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data: serde_json::Map<_, _> =
        TEXTS.iter().enumerate().map(|(at, text)| (format!("t{at}"), json!(text))).collect();
    let child = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data});
    let parent = json!({"apiVersion": "puppets.example/v1", "kind": "Puppet", "metadata": {"name": "web", "namespace": "demo"},
        "spec": {"children": [child]}});
    let parent = file(&folder, &parent);
    let (code, printed, stderr) = run_offline(&["render", &path("puppets/puppet"), "-f", &parent]);
    assert_eq!(code, 0, "{printed}{stderr}");
    let is_odd = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{2028}\u{feff}\u{e0041}".contains(c);
    assert!(!printed.contains(is_odd), "{printed:?}");
    let yaml = folder.path().join("printed.yaml").to_string_lossy().into_owned();
    std::fs::write(&yaml, &printed).expect("written");
    let read = read_by_kubectl(&yaml).pop().expect("a child");
    for (at, text) in TEXTS.iter().enumerate() {
        assert_eq!(read["data"][format!("t{at}")], json!(text), "{printed}");
    }
}
