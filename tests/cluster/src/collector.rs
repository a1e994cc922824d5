//! An OpenTelemetry Collector that writes the received telemetry to files, for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::otlp::{self, Metric, Span};
use crate::poll::until;
use crate::ports;
use crate::supervised::{Plan, Process, Ready, Supervised};
use crate::tools;

const TRACES: &str = "traces.jsonl";
const METRICS: &str = "metrics.jsonl";
const LOGS: &str = "logs.jsonl";

/// A running collector. Dropping it ends it; so does any end of this process.
pub struct Collector {
    dir: PathBuf,
    grpc: u16,
    http: u16,
    processes: Supervised,
}

impl Collector {
    /// Starts a collector on free loopback ports, with its files in `dir`, which the caller removes.
    pub fn start(dir: &Path) -> Result<Self> {
        let program = tools::collector(&tools::stderr)?;
        let supervise = tools::supervise(&tools::stderr)?;
        let dir = std::path::absolute(dir)?;
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let mut tries = 1;
        loop {
            let [grpc, http] = ports::free()?;
            let config = dir.join("collector.yaml");
            fs::write(&config, configuration(&dir, grpc, http))
                .with_context(|| format!("cannot write {}", config.display()))?;
            let argv = vec![program.display().to_string(), format!("--config=file:{}", config.display())];
            let plan = Plan {
                dir: dir.clone(),
                processes: vec![Process { name: "otelcol", argv, after_server: false }],
                ready: Ready {
                    tcp: vec![format!("127.0.0.1:{grpc}"), format!("127.0.0.1:{http}")],
                    timeout_seconds: 60,
                    ..Ready::default()
                },
                ..Plan::default()
            };
            match Supervised::start(&supervise, &plan) {
                Ok(processes) => {
                    return Ok(Self { dir, grpc, http, processes });
                }
                // Another process took a port in the meantime.
                Err(error) if tries < 3 && format!("{error:#}").contains("address already in use") => {
                    tries += 1;
                }
                Err(error) => {
                    return Err(error.context(format!("no collector; its files are in {}", dir.display())));
                }
            }
        }
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT` with protocol `grpc`.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.grpc)
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT` with protocol `http/protobuf` or `http/json`.
    pub fn http_endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.http)
    }

    /// All spans received so far, in the order of their arrival.
    pub fn spans(&self) -> Result<Vec<Span>> {
        Ok(self.batches(TRACES)?.iter().flat_map(otlp::spans).collect())
    }

    /// All metrics received so far: each export of an instrument is a separate entry.
    pub fn metrics(&self) -> Result<Vec<Metric>> {
        Ok(self.batches(METRICS)?.iter().flat_map(otlp::metrics).collect())
    }

    /// All batches of log records received so far, as OTLP JSON.
    pub fn logs(&self) -> Result<Vec<Value>> {
        self.batches(LOGS)
    }

    /// Waits until the spans received so far satisfy `condition`, and returns them.
    pub fn wait_for_spans(&self, timeout: Duration, condition: impl Fn(&[Span]) -> bool) -> Result<Vec<Span>> {
        until(format_args!("spans in {}", self.dir.display()), timeout, || {
            Ok(Some(self.spans()?).filter(|spans| condition(spans)))
        })
    }

    /// Kills the collector, as a crash does; [`Collector::resume`] starts it again on the same ports.
    pub fn stop(&mut self) -> Result<()> {
        self.processes.command("stop otelcol")
    }

    /// Starts a collector that was stopped. Returns at once: it needs some time until it accepts connections.
    pub fn resume(&mut self) -> Result<()> {
        self.processes.command("start otelcol")
    }

    /// Suspends the collector: it accepts connections and data, and never responds.
    pub fn suspend(&mut self) -> Result<()> {
        self.processes.command("pause otelcol")
    }

    fn batches(&self, file: &str) -> Result<Vec<Value>> {
        let path = self.dir.join(file);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        lines
            .map(|line| {
                serde_json::from_slice(line).with_context(|| format!("a line of {} is no JSON", path.display()))
            })
            .collect()
    }
}

fn configuration(dir: &Path, grpc: u16, http: u16) -> String {
    let dir = dir.display();
    let exporter =
        |name: &str, file: &str| format!("  file/{name}:\n    path: '{dir}/{file}'\n    flush_interval: 50ms\n");
    let exporters = [exporter("traces", TRACES), exporter("metrics", METRICS), exporter("logs", LOGS)].concat();
    let pipeline = |name: &str| format!("    {name}: {{receivers: [otlp], exporters: [file/{name}]}}\n");
    let pipelines = ["traces", "metrics", "logs"].map(pipeline).concat();
    format!(
        "receivers:
  otlp:
    protocols:
      grpc: {{endpoint: '127.0.0.1:{grpc}'}}
      http: {{endpoint: '127.0.0.1:{http}'}}
exporters:
{exporters}service:
  # Its own metrics would want one more port.
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
{pipelines}"
    )
}
