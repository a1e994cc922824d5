//! Echo in every language: a component in another language replaces the live one without changing its children.

use serde_json::json;
use windlass_e2e::{Env, guest};

use crate::ECHO;

#[test]
fn echo_component_in_another_language_changes_no_existing_pod() {
    let env = Env::start();
    let _host = env.start_host();
    let ns = &env.namespace("languages");
    let languages = ["echo", "languages/echo-go", "languages/echo-js", "languages/echo-python", "echo"];
    for (before, language) in languages.into_iter().enumerate() {
        let mark = env.mark();
        let component = guest(language);
        env.compile_for_host(&component);
        env.push(&component, "echo", &[]);
        // Python needs this much memory.
        env.patch_plugin("echo", &json!({ "limits": { "memory": "256Mi" } }));
        env.wait_live("echo", &component);
        let echo = ECHO.settle(ns, "chorus", &json!({ "replicas": before + 1, "image": "nginx:1.27" }));
        assert_eq!(echo["status"]["currentReplicas"], before + 1, "{language}");
        // The host would have applied any difference in the other Pods.
        let writes = env.host_writes(mark).namespace(ns.name()).resource("pods");
        let writes: Vec<_> = writes.iter().map(|write| (write.verb.as_str(), write.name.clone())).collect();
        assert_eq!(writes, [("create", format!("chorus-{before}"))], "{language}");
    }
    ECHO.delete(ns, "chorus");
    ns.wait_pods(&[]);
}
