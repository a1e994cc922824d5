//! A Prometheus server that scrapes one address, for tests.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::poll::until;
use crate::ports;
use crate::supervised::{Plan, Process, Ready, Supervised};
use crate::tools;

/// How long the server may take until it is ready.
const START: Duration = Duration::from_mins(1);

/// A running Prometheus server. Dropping it ends it; so does any end of this process.
pub struct Prometheus {
    port: u16,
    _processes: Supervised,
}

impl Prometheus {
    /// Starts a server on a free loopback port, with its files in `dir`, which the caller removes. It scrapes
    /// `/metrics` of `target` once a second.
    pub fn start(dir: &Path, target: SocketAddr) -> Result<Self> {
        let program = tools::prometheus(&tools::stderr)?;
        let supervise = tools::supervise(&tools::stderr)?;
        let dir = std::path::absolute(dir)?;
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let config = dir.join("prometheus.yaml");
        let scrape = format!(
            "scrape_configs:\n- job_name: windlass\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  static_configs:\n  - \
             targets: ['{target}']\n"
        );
        fs::write(&config, scrape).with_context(|| format!("cannot write {}", config.display()))?;
        let mut tries = 1;
        loop {
            let [port] = ports::free()?;
            let argv = vec![
                program.display().to_string(),
                format!("--config.file={}", config.display()),
                format!("--storage.tsdb.path={}", dir.join("data").display()),
                format!("--web.listen-address=127.0.0.1:{port}"),
            ];
            let plan = Plan {
                dir: dir.clone(),
                processes: vec![Process { name: "prometheus", argv, after_server: false }],
                ready: Ready { tcp: vec![format!("127.0.0.1:{port}")], timeout_seconds: 60, ..Ready::default() },
                ..Plan::default()
            };
            match Supervised::start(&supervise, &plan) {
                Ok(processes) => {
                    let server = Self { port, _processes: processes };
                    server.wait_ready()?;
                    return Ok(server);
                }
                // Another process took the port in the meantime.
                Err(error) if tries < 3 && format!("{error:#}").contains("address already in use") => tries += 1,
                Err(error) => {
                    return Err(error.context(format!("no Prometheus; its files are in {}", dir.display())));
                }
            }
        }
    }

    /// Waits until the server has loaded its database: before, it accepts connections, but responds 503 to queries.
    fn wait_ready(&self) -> Result<()> {
        until("Prometheus to be ready", START, || self.get("/-/ready").map(Some))?;
        Ok(())
    }

    /// The values of the series that an expression (`PromQL`) selects now.
    pub fn query(&self, expression: &str) -> Result<Vec<f64>> {
        let mut encoded = String::new();
        for byte in expression.bytes() {
            write!(encoded, "%{byte:02X}")?;
        }
        let body = self.get(&format!("/api/v1/query?query={encoded}"))?;
        let body: Value = serde_json::from_str(&body).with_context(|| format!("not valid JSON: {body}"))?;
        let result = body.pointer("/data/result").and_then(Value::as_array);
        let result = result.with_context(|| format!("query {expression} failed: {body}"))?;
        let values = result.iter().map(|series| {
            let value = series.pointer("/value/1").and_then(Value::as_str);
            let value = value.with_context(|| format!("no value in {series}"))?;
            value.parse().with_context(|| format!("{value} is not a number"))
        });
        values.collect()
    }

    /// The body of the response to a GET of `path`. An error unless the server responds 200.
    fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).context("cannot connect to Prometheus")?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response).context("no response of Prometheus")?;
        let (head, body) = response.split_once("\r\n\r\n").context("no body in the response of Prometheus")?;
        let status = head.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            bail!("GET {path}: {status}: {body}");
        }
        Ok(body.to_owned())
    }
}

/// Checks metrics in text format with `promtool check metrics`: syntax, names and help texts.
///
/// # Errors
/// What promtool found.
pub fn check_metrics(text: &str) -> Result<()> {
    let found = promtool(&["check", "metrics"], text)?;
    if found.is_empty() { Ok(()) } else { bail!("promtool check metrics: {found}") }
}

/// Runs promtool with this standard input, and returns its output.
///
/// # Errors
/// If promtool fails: its output.
pub fn promtool(arguments: &[&str], input: &str) -> Result<String> {
    let program = tools::prometheus(&tools::stderr)?.with_file_name("promtool");
    let mut child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    child.stdin.take().context("promtool has no standard input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output().context("cannot wait for promtool")?;
    let found = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if !output.status.success() {
        bail!("promtool {}: {found}", arguments.join(" "));
    }
    Ok(found)
}
