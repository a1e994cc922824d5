//! Tests of the program itself: text of others adds no line to its output, and controls no terminal. Each row is an output that shows
//! text of a registry, a host or a recording.

#![allow(clippy::expect_used, clippy::panic, reason = "a test ends by panicking")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

/// What must not reach a terminal: escape sequences, C1, DEL, changes of the direction, separators of lines, and unseen characters.
const ODD: &str = "odd\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{2066}\u{2028}\u{2029}\u{200b}\u{feff}\r\nerror: forged";

/// A server that answers each request with this status line, content type and body. Returns its address.
fn server(status: &str, content_type: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
            let _ = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).count();
            let _ = stream.write_all(response.as_bytes());
        }
    });
    address
}

/// Standard output and standard error of the program.
fn windlass(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(args).stdin(Stdio::null()).current_dir(folder);
    // No cluster and no configuration of the user.
    command.env_clear().env("HOME", folder).env("KUBECONFIG", folder.join("none"));
    let output = command.output().expect("the program starts");
    String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
}

/// A host's reconcile whose texts are all odd.
fn call() -> serde_json::Value {
    serde_json::json!({
        "number": 1, "at": "2026-01-01T00:00:00Z", "plugin": ODD, "trigger": ODD, "durationUs": 1, "repeated": 0, "traceId": ODD,
        "parent": {"apiVersion": ODD, "kind": ODD, "namespace": ODD, "name": ODD},
        "decision": {"outcome": ODD, "message": ODD, "status": ODD, "next": ODD},
    })
}

#[test]
fn requests_are_printed_from_verbosity_6_on_as_kubectl_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let status = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "message": "no"}"#;
    let address = server("403 Forbidden", "application/json", status);
    let kubeconfig = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a", "users": [],
        "clusters": [{"name": "a", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    });
    let file = folder.path().join("config");
    std::fs::write(&file, kubeconfig.to_string()).expect("written");
    let remove = |level: &str| windlass(folder.path(), &["remove", "echo", "--kubeconfig", "config", level]);
    let request = format!("GET http://{address}/apis/windlass.dev/v1alpha1/plugins/echo 403 Forbidden in ");
    let (quiet, verbose) = (remove("-v=5"), remove("-v=6"));
    assert!(!quiet.contains(&request) && verbose.contains(&request), "{quiet}{verbose}");
}

#[test]
fn text_of_others_adds_no_line_and_controls_no_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let error = serde_json::json!({"errors": [{"code": "DENIED", "message": ODD}]}).to_string();
    let registry = server("403 Forbidden", "application/json", &error);
    let image = format!("oci://{registry}/a/b:1");
    let calls = serde_json::json!({"isOn": true, "calls": [call()]}).to_string();
    let (host, refusing) = (server("200 OK", "application/json", &calls), server("400 Bad Request", "text/plain", ODD));
    let header = serde_json::json!({"windlassRecording": 2, "plugin": ODD, "component": ODD, "contract": ODD, "at": "2026-01-01T00:00:00Z"});
    let recording = write("hostile.jsonl", &format!("{header}\n"));
    let damaged = write("damaged.jsonl", &format!("{header}\n{{\"{}\": 1}}\n", "odd\\u001b[2J\\u202e"));
    let yaml =
        write("odd.yaml", "? \"odd\\e[2J\\u202E\\nerror: forged\"\n: 1\n? \"odd\\e[2J\\u202E\\nerror: forged\"\n: 2\n");
    let kubeconfig =
        write("kubeconfig", "apiVersion: v1\nkind: Config\ncurrent-context: \"odd\\e[2J\\u202E\\nerror: forged\"\n");
    for args in [
        vec!["inspect", &image],
        vec!["crd", &image],
        vec!["render", &image, "-f", &yaml],
        vec!["test", &image],
        vec!["replay", &recording],
        vec!["replay", &damaged, "--with", &image],
        vec!["explain", ODD, "web", "--debug-addr", &host],
        vec!["explain", ODD, "web", "--debug-addr", &host, "-o", "json"],
        vec!["explain", "echo", "web", "--debug-addr", &refusing],
        vec!["explain", "echo", "web", "--kubeconfig", &kubeconfig],
    ] {
        let printed = windlass(folder.path(), &args);
        assert!(printed.contains("odd"), "{args:?} shows no text of others: {printed:?}");
        let is_odd =
            |c: char| c.is_control() && c != '\n' || "\u{202e}\u{2066}\u{2028}\u{2029}\u{200b}\u{feff}".contains(c);
        assert!(!printed.contains(is_odd), "{args:?} controls the terminal: {printed:?}");
        assert!(!printed.lines().any(|line| line.starts_with("error: forged")), "{args:?} adds a line: {printed}");
    }
}

#[test]
fn new_project_says_that_the_plural_is_a_guess() {
    let folder = tempfile::tempdir().expect("a folder");
    let printed = windlass(folder.path(), &["new", "chassis", "--lang", "rust"]);
    assert!(printed.contains("note: the plural of Chassis is a guess: chassises."), "{printed}");
}

#[test]
fn command_without_a_cluster_names_the_cause_once() {
    let folder = tempfile::tempdir().expect("a folder");
    for args in [&["remove", "echo"][..], &["remove", "echo", "--kubeconfig", "none"]] {
        let output = windlass(folder.path(), args);
        assert_eq!(output.matches("os error 2").count(), 1, "{output}");
    }
}
