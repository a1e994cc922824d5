//! The cost of a plugin's language: sizes, compiling, calls and idle memory of the same plugins in each language.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use http::Method;
use serde_json::{Value, json};
use windlass_delivery::Encoding;
use windlass_testbed::until;

use crate::contestant::{Contestant, Task, start_traced};
use crate::http::{JSON, MERGE};
use crate::process::{Memory, Process, peak_of};
use crate::scale::quiet;
use crate::settings::{Amounts, Paths, UNTIL_IDLE};
use crate::stage::{NAMESPACE, SYSTEM_NAMESPACE, Stage};
use crate::stats::{median, percentile};

/// The children of Echo in the second measurement of calls.
pub const MANY: usize = 1000;
/// Compilations of each component, at most; the figures are medians.
const COMPILATIONS: usize = 3;
/// The time after which a component is not compiled once more.
const ENOUGH: Duration = Duration::from_secs(20);
/// The name of the measured parent.
const PARENT: &str = "parent";
/// Bytes of an annotation of the parent, with which the parent has about 1 KB.
const PADDING: usize = 600;
/// The time that one call may take, with the change that causes it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A plugin of which components in several languages exist.
#[derive(Debug, Clone, Copy)]
struct Plugin {
    name: &'static str,
    /// The API path of its parents.
    path: &'static str,
    api_version: &'static str,
    kind: &'static str,
}

const ECHO: Plugin = Plugin {
    name: "echo",
    path: "/apis/my-operator.dev/v1/namespaces/bench/echoes",
    api_version: "my-operator.dev/v1",
    kind: "Echo",
};
const MYAPP: Plugin = Plugin {
    name: "myapp",
    path: "/apis/example.com/v1/namespaces/bench/myapps",
    api_version: "example.com/v1",
    kind: "MyApp",
};

impl Plugin {
    /// The spec of a parent with three children.
    fn spec(self) -> Value {
        match self.name {
            "echo" => json!({"replicas": 3, "image": "nginx:1.27"}),
            _ => json!({"image": "shop:1.4", "ingressHost": "shop.example.com"}),
        }
    }
}

/// A plugin in one language.
#[derive(Debug)]
pub struct Component {
    plugin: Plugin,
    language: &'static str,
    /// Its file, below the folder of the components.
    file: &'static str,
}

impl Component {
    const fn new(plugin: Plugin, language: &'static str, file: &'static str) -> Self {
        Self { plugin, language, file }
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        format!("{} in {}", self.plugin.kind, self.language)
    }
}

/// The components, as `cargo xtask guests` names them.
pub const COMPONENTS: [Component; 7] = [
    Component::new(ECHO, "Rust", "echo.wasm"),
    Component::new(ECHO, "Go", "languages/echo-go.wasm"),
    Component::new(ECHO, "JavaScript", "languages/echo-js.wasm"),
    Component::new(ECHO, "Python", "languages/echo-python.wasm"),
    Component::new(MYAPP, "Rust", "myapp.wasm"),
    Component::new(MYAPP, "Go", "languages/myapp-go.wasm"),
    Component::new(MYAPP, "Python", "languages/myapp-python.wasm"),
];

/// The figures of one component.
#[derive(Debug, Clone)]
pub struct Language {
    /// The plugin's kind.
    pub kind: &'static str,
    /// The language of its source.
    pub name: &'static str,
    /// Size of the component, in bytes.
    pub size: u64,
    /// Its size after compression as `windlass push` compresses, in bytes.
    pub packed: u64,
    /// The number of ConfigMaps with its bytes.
    pub config_maps: usize,
    /// What compiling it takes.
    pub compiling: Compiling,
    /// Calls for a parent with three children, all of which exist.
    pub few: Calls,
    /// Calls for a parent with [`MANY`] children, all of which exist; only for plugins that have so many.
    pub many: Option<Calls>,
    /// The memory of a host with this component alone and no parent.
    pub idle: Memory,
}

/// The medians of several compilations.
#[derive(Debug, Clone, Copy)]
pub struct Compiling {
    /// Time from the start of the compiling child to its end, in seconds.
    pub seconds: f64,
    /// Peak of its resident memory, in bytes.
    pub peak: f64,
    /// Size of the compiled file, in bytes.
    pub size: u64,
}

/// Calls of a plugin, one at a time, as the host measures them.
#[derive(Debug, Clone, Copy)]
pub struct Calls {
    /// The number of calls.
    pub count: usize,
    /// The median of their durations, with the making of the instance, in milliseconds.
    pub p50: f64,
    /// The 99th percentile, in milliseconds.
    pub p99: f64,
    /// The largest linear memory of a call, in bytes.
    pub memory: u64,
    /// The largest request, in bytes.
    pub request: u64,
    /// The number of calls that read the wall clock. Echo does not, but Go's garbage collector does.
    pub impure: usize,
}

/// Measures a component on a cluster of its own.
pub async fn measure(paths: &Paths, amounts: &Amounts, measured: &Component) -> anyhow::Result<Language> {
    let Component { plugin, language, file } = *measured;
    let component = paths.guests.as_ref().context("no folder of components: give --guests")?.join(file);
    let component = component.as_path();
    let bytes = fs::read(component).with_context(|| format!("{} cannot be read", component.display()))?;
    let packed = Encoding::Zstd.pack(&bytes)?.len() as u64;
    let stage = Stage::without_loads(paths, false).await?;
    let compiling = compiling(&paths.windlass, component, &stage.dir().join("compiled"))?;
    stage.define([component])?;
    stage.push(&[(plugin.name, component)])?;
    // The runtimes of all languages fit, and no call ends at its deadline.
    let limits = json!({"spec": {"limits": {"memory": "256Mi", "deadline": "10s"}}});
    let path = format!("/apis/windlass.dev/v1alpha1/plugins/{}", plugin.name);
    stage.admin.write(Method::PATCH, &path, MERGE, limits.to_string().into()).await?;
    stage.controllers(false)?;

    // The second start is that of a host whose Plugin is ready already.
    let host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    stage.wait_ready(plugin.name).await?;
    host.stop()?;
    let host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    quiet(&host).await?;
    tokio::time::sleep(UNTIL_IDLE).await;
    let idle = host.memory()?;
    host.stop()?;

    let mut host = start_traced(&stage, paths)?;
    let parent = json!({
        "apiVersion": plugin.api_version,
        "kind": plugin.kind,
        "metadata": {"name": PARENT, "annotations": {"bench.example/padding": "x".repeat(PADDING)}},
        "spec": plugin.spec(),
    });
    stage.admin.write(Method::POST, plugin.path, JSON, parent.to_string().into()).await?;
    quiet(&host).await?;
    let [few_calls, many_calls] = amounts.language_calls;
    let few = calls(&stage, &mut host, plugin, few_calls).await?;
    let many = if plugin.name == ECHO.name {
        change(&stage, plugin, &json!({"spec": {"replicas": MANY}})).await?;
        quiet(&host).await?;
        let pods = stage.admin.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods")).await?;
        let pods = pods.get("items").and_then(Value::as_array).map_or(0, Vec::len);
        ensure!(pods == MANY, "{pods} of {MANY} children exist: {}", host.said());
        Some(calls(&stage, &mut host, plugin, many_calls).await?)
    } else {
        None
    };
    let config_maps = config_maps(&stage).await?;
    host.stop()?;
    Ok(Language {
        kind: plugin.kind,
        name: language,
        size: bytes.len() as u64,
        packed,
        config_maps,
        compiling,
        few,
        many,
        idle,
    })
}

/// The ConfigMaps with bytes of the component. The head of one that is in several parts has none.
async fn config_maps(stage: &Stage) -> anyhow::Result<usize> {
    let list = stage.admin.get(&format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps")).await?;
    let maps = list.get("items").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    Ok(maps.iter().filter(|map| map.get("binaryData").is_some()).count())
}

/// Compiles a component as the host does, in a child of the same binary, and without a host.
fn compiling(windlass: &Path, component: &Path, into: &Path) -> anyhow::Result<Compiling> {
    let (mut times, mut peaks) = (Vec::new(), Vec::new());
    let first = Instant::now();
    while times.len() < COMPILATIONS && (times.is_empty() || first.elapsed() < ENOUGH) {
        let mut command = Command::new(windlass);
        command.arg("compile-child").env_clear().stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.stdin(File::open(component)?).stdout(File::create(into)?).spawn()?;
        let mut peak = 0;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            // A child that has just ended has no memory any more.
            peak = peak.max(peak_of(child.id()).unwrap_or(0));
            std::thread::sleep(Duration::from_millis(1));
        };
        ensure!(status.success(), "{} does not compile: {status}", component.display());
        times.push(begun.elapsed().as_secs_f64());
        peaks.push(crate::process::as_float(peak));
    }
    let middle = |figures: Vec<f64>| median(figures).context("no compilations");
    Ok(Compiling { seconds: middle(times)?, peak: middle(peaks)?, size: fs::metadata(into)?.len() })
}

/// Changes the parent.
async fn change(stage: &Stage, plugin: Plugin, patch: &Value) -> anyhow::Result<()> {
    let parent = format!("{}/{PARENT}", plugin.path);
    stage.admin.write(Method::PATCH, &parent, MERGE, patch.to_string().into()).await.map(drop)
}

/// Changes an annotation of the parent this number of times, each time after the call for the previous change. The plugin
/// is called for each change, and its response needs no write.
async fn calls(stage: &Stage, host: &mut Process, plugin: Plugin, changes: usize) -> anyhow::Result<Calls> {
    let begin = host.log_size()?;
    for number in 0..changes {
        let mark = host.log_size()?;
        let patch = json!({"metadata": {"annotations": {"bench.example/change": number.to_string()}}});
        change(stage, plugin, &patch).await?;
        until("a call for a change", PATIENCE, || {
            if !host.lives() {
                bail!("the host ended by itself: {}", host.said());
            }
            Ok((!calls_in(&host.log_from(mark)?)?.is_empty()).then_some(()))
        })?;
    }
    let calls = calls_in(&host.log_from(begin)?)?;
    let times: Vec<_> = calls.iter().map(|call| call.time).collect();
    let at = |part| percentile(&times, part).context("no calls");
    Ok(Calls {
        count: calls.len(),
        p50: at(0.5)?,
        p99: at(0.99)?,
        memory: calls.iter().map(|call| call.memory).max().unwrap_or(0),
        request: calls.iter().map(|call| call.request).max().unwrap_or(0),
        impure: calls.iter().filter(|call| call.impure).count(),
    })
}

/// What the host's trace says about a call.
#[derive(Debug, PartialEq)]
struct Call {
    time: Duration,
    memory: u64,
    request: u64,
    impure: bool,
}

/// The calls in the complete lines of a log with `--log-traces`.
fn calls_in(log: &str) -> anyhow::Result<Vec<Call>> {
    let complete = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let spans = complete.lines().filter_map(|line| Some(line.split_once("─ plugin.call ")?.1));
    spans
        .map(|span| {
            let field = |name: &str| {
                let mut fields = span.split(' ').filter_map(|field| field.split_once('='));
                fields.find_map(|(found, value)| (found == name).then_some(value))
            };
            let number = |name: &str| {
                let number = field(name).and_then(|value| value.parse::<u64>().ok());
                number.with_context(|| format!("a call without {name}: {span}"))
            };
            ensure!(field("windlass.outcome") == Some("response"), "a call failed: {span}");
            Ok(Call {
                time: Duration::from_micros(number("windlass.guest_time_us")?),
                memory: number("windlass.memory_peak")?,
                request: number("windlass.request_bytes")?,
                impure: field("windlass.impure") == Some("true"),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_from_complete_lines_of_trees_and_a_failed_call_is_an_error() {
        let span = "├─ plugin.call 1.2ms windlass.plugin=echo windlass.guest_time_us=310 windlass.memory_peak=1048576 \
                    windlass.request_bytes=900 windlass.response_bytes=80 windlass.impure=false windlass.outcome=response";
        let log = format!("reconcile 2ms\n{span}\n└─ plan 0.1ms\nreconcile 2ms\n{span}");
        let call = Call { time: Duration::from_micros(310), memory: 1 << 20, request: 900, impure: false };
        assert_eq!(calls_in(&log).expect("one call"), [call]);
        assert!(calls_in(&format!("{}\n", span.replace("=response", "=aborted"))).is_err());
    }
}
