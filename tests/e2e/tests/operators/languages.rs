//! Echo in every language: logic changes its language while its parents live on.

use serde_json::json;
use windlass_e2e::{Env, guest};

use crate::ECHO;

#[test]
fn echo_changes_its_language_and_nothing_that_is_there_changes() {
    let env = Env::start();
    let _host = env.start_host();
    let ns = &env.namespace("languages");
    let languages = ["echo", "languages/echo-go", "languages/echo-js", "languages/echo-python", "echo"];
    for (before, language) in languages.into_iter().enumerate() {
        let mark = env.mark();
        let logic = guest(language);
        env.push(&logic, "echo", &[]);
        // What Python needs.
        env.patch_plugin("echo", &json!({ "limits": { "memory": "256Mi" } }));
        env.wait_live("echo", &logic);
        let echo = ECHO.settle(ns, "chorus", &json!({ "replicas": before + 1, "image": "nginx:1.27" }));
        assert_eq!(echo["status"]["currentReplicas"], before + 1, "{language}");
        // One byte of the others that was wanted otherwise would have been applied.
        let writes = env.host_writes(mark).namespace(ns.name()).resource("pods");
        let writes: Vec<_> = writes.iter().map(|write| (write.verb.as_str(), write.name.clone())).collect();
        assert_eq!(writes, [("create", format!("chorus-{before}"))], "{language}");
    }
    ECHO.delete(ns, "chorus");
    ns.wait_pods(&[]);
}
