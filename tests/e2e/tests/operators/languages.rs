//! Echo in every language: a component in another language replaces the live one without changing its children.

use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use serde_json::json;
use windlass_e2e::{Env, Namespace, guest};

use crate::ECHO;

const PARENTS: usize = 10;

/// Edits the annotations of [`PARENTS`] Echoes again and again until the other end of the channel is dropped, and returns how
/// often. The host calls the plugin for each edit that it sees, and the response is always the same.
fn edit(ns: &Namespace, until: &Receiver<()>) -> usize {
    let mut edits = 0;
    while until.try_recv() != Err(TryRecvError::Disconnected) {
        let edited = |at: usize| {
            let mut echo = ns.echo_manifest(&format!("echo-{at}"), 1, "nginx:1");
            echo["metadata"]["annotations"] = json!({ "edit": edits.to_string() });
            echo.to_string()
        };
        ns.env().apply(&(0..PARENTS).map(edited).collect::<Vec<_>>().join("\n---\n"));
        edits += 1;
    }
    edits
}

#[test]
fn echo_component_in_another_language_writes_nothing_while_parents_are_edited() {
    let env = Env::start();
    let _host = env.start_host();
    let (ns, edited) = (&env.namespace("languages"), &env.namespace("edited"));
    let swap = |component: &Path| {
        env.compile_for_host(component);
        env.push(component, "echo", &[]);
        // Python needs this much memory.
        env.patch_plugin("echo", &json!({ "limits": { "memory": "256Mi" } }));
        env.wait_live("echo", component);
    };
    swap(&guest("echo"));
    for at in 0..PARENTS {
        edited.echo(&format!("echo-{at}"), 1, "nginx:1");
    }
    for at in 0..PARENTS {
        edited.wait_settled(&format!("echo-{at}"));
    }
    let start = env.mark();
    let edits = std::thread::scope(|scope| {
        // Dropped at the end, also by a panic.
        let (until, ends) = channel();
        let edits = scope.spawn(move || edit(edited, &ends));
        let languages =
            ["echo", "languages/echo-go", "languages/echo-js", "languages/echo-python", "languages/echo-zig", "echo"];
        for (before, language) in languages.into_iter().enumerate() {
            let mark = env.mark();
            swap(&guest(language));
            let echo = ECHO.settle(ns, "chorus", &json!({ "replicas": before + 1, "image": "nginx:1.27" }));
            assert_eq!(echo["status"]["currentReplicas"], before + 1, "{language}");
            // The host would have applied any difference in the other Pods.
            let writes = env.host_writes(mark).namespace(ns.name()).resource("pods");
            let writes: Vec<_> = writes.iter().map(|write| (write.verb.as_str(), write.name.clone())).collect();
            assert_eq!(writes, [("create", format!("chorus-{before}"))], "{language}");
        }
        drop(until);
        edits.join().expect("the edits")
    });
    assert!(edits > 5, "the parents were edited {edits} times");
    assert_eq!(env.host_writes(start).namespace(edited.name()).to_vec(), []);
    ECHO.delete(ns, "chorus");
    ns.wait_pods(&[]);
}
