//! Measures the latency of calls, each in a fresh store: `call-latency <component.wasm> [calls]`, in a release build.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Instant;

use windlass_core::contract::{Limits, Observed, Phase, Request};
use windlass_core::value::ids::Gvk;
use windlass_sandbox::{Ambient, Options, Sandbox, run_here};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == windlass_sandbox::compile::SUBCOMMAND) {
        std::process::exit(i32::from(windlass_sandbox::compile::child_main() != std::process::ExitCode::SUCCESS));
    }
    let bytes = std::fs::read(&args[1]).unwrap();
    let calls = args.get(2).map_or(20_000, |calls| calls.parse().unwrap());
    let cache = tempfile::TempDir::new().unwrap();
    let sandbox = Sandbox::new(Options::new(cache.path().join("cache"))).unwrap();
    println!("RSS with engines: {}", rss());
    let begun = Instant::now();
    let component = sandbox.load(&bytes).unwrap();
    println!("compiled and loaded in {:?}, RSS {}", begun.elapsed(), rss());
    let begun = Instant::now();
    drop(sandbox.load(&bytes).unwrap());
    println!("loaded from the cache in {:?}, pooled: {}", begun.elapsed(), component.is_pooled());
    let parent = br#"{"apiVersion":"demo.windlass.dev/v1","kind":"Echo","metadata":{"name":"a","namespace":"default","uid":"u"},"spec":{"image":"nginx","replicas":3}}"#;
    let parent = Observed {
        deleting: false,
        kind: Gvk::from_api_version("demo.windlass.dev/v1", "Echo"),
        namespace: Some("default".into()),
        name: "a".into(),
        object: parent[..].into(),
    };
    let request = Request::about(Phase::Sync, parent);
    let limits = Limits::default();
    let mut times: Vec<_> = (0..calls)
        .map(|_| {
            let begun = Instant::now();
            let response = run_here(component.reconcile(&request, &limits, Ambient::now([0; 32]))).0;
            let time = begun.elapsed();
            drop(response.unwrap());
            time
        })
        .collect();
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{calls} calls: p50 {:?}, p90 {:?}, p99 {:?}; RSS {}", at(50), at(90), at(99), rss());
    println!(
        "{:?}",
        run_here(component.reconcile(&request, &limits, Ambient::now([0; 32])))
            .0
            .map(|response| response.map(|r| r.children.len()))
    );
}

fn rss() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |key| status.lines().find(|line| line.starts_with(key)).unwrap_or_default().replace('\t', " ");
    format!("{} {}", line("VmRSS"), line("RssAnon"))
}
