//! Files of recorded calls: JSON lines, first a header, then one line for each call.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_core::reconcile::recording::{FORMAT, RecordedCall};
use windlass_core::value::line::json;
use windlass_delivery::{Encoding, MAX_COMPONENT_BYTES};

use super::output::failed;

/// Maximum size of a line, in bytes: more than the largest component in base64, and than the largest request and response. Somebody else may
/// have made the file.
const LINE_MAX: usize = 128 * 1024 * 1024;
/// Compression of the component: a recording is written once, and kept or sent.
const LEVEL: i32 = 9;

/// The first line of a recording.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Version of the format.
    windlass_recording: u32,
    /// Name of the Plugin.
    pub plugin: String,
    /// Digest of the component.
    pub component: String,
    /// Version of the contract that the component implements.
    pub contract: String,
    /// When the recording began.
    pub at: Timestamp,
    /// The component, compressed with Zstandard, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wasm: Option<String>,
}

impl Header {
    /// The header of a recording of calls of this component. `bytes`: the component, if the recording contains it.
    ///
    /// # Errors
    /// If the component cannot be compressed.
    pub fn new(plugin: &str, (component, contract): (&str, &str), bytes: Option<&[u8]>) -> anyhow::Result<Self> {
        let wasm = bytes.map(|bytes| zstd::bulk::compress(bytes, LEVEL)).transpose()?;
        Ok(Self {
            windlass_recording: FORMAT,
            plugin: plugin.to_owned(),
            component: component.to_owned(),
            contract: contract.to_owned(),
            at: Timestamp::now(),
            wasm: wasm.map(|bytes| STANDARD.encode(bytes)),
        })
    }

    /// The component, if the recording contains it.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn wasm(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(wasm) = &self.wasm else { return Ok(None) };
        let packed = STANDARD.decode(wasm).context("the component in the recording is damaged")?;
        let unpacked = Encoding::Zstd.unpack(packed, MAX_COMPONENT_BYTES).map_err(anyhow::Error::msg);
        unpacked.map(Some).context("the component in the recording is damaged")
    }
}

/// A recording that is being written. Its file is created with the first call, so that a command that records nothing
/// leaves an earlier recording as it is.
pub struct Recorder {
    /// The file.
    pub file: PathBuf,
    header: Header,
    out: Option<Box<dyn Write>>,
}

impl Recorder {
    /// A recording without calls, for this file, or for standard output if the file is `-`.
    pub fn new(file: PathBuf, header: Header) -> Self {
        Self { file, header, out: None }
    }

    /// Writes a call.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, call: &RecordedCall) -> anyhow::Result<()> {
        if let Some(out) = &mut self.out {
            return write_line(out, call);
        }
        let out = self.out.insert(create(&self.file)?);
        write_line(out, &self.header)?;
        write_line(out, call)
    }
}

fn create(file: &Path) -> anyhow::Result<Box<dyn Write>> {
    if file.as_os_str() == "-" {
        return Ok(Box::new(std::io::stdout()));
    }
    Ok(Box::new(File::create(file).with_context(|| format!("file {}", file.display()))?))
}

fn write_line(out: &mut impl Write, line: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(line)?;
    writeln!(out, "{}", json(&text)).and_then(|()| out.flush()).map_err(failed)
}

/// Reads a recording.
///
/// # Errors
/// If the file cannot be read, or is not a recording in this format.
pub fn read(file: &Path) -> anyhow::Result<(Header, impl Iterator<Item = anyhow::Result<RecordedCall>>)> {
    let name = file.display().to_string();
    let opened = File::open(file).with_context(|| format!("file {name}"))?;
    let mut lines = BufReader::new(opened);
    let not_recording = || format!("{name} is not a recording; make one with `windlass record`");
    let first = next_line(&mut lines, LINE_MAX).with_context(not_recording)?;
    let header: Header = serde_json::from_str(&first.unwrap_or_default()).with_context(not_recording)?;
    if header.windlass_recording != FORMAT {
        let found = header.windlass_recording;
        bail!(
            "{name} has format {found} of recordings, and this windlass reads format {FORMAT}: use the windlass that recorded it"
        );
    }
    let mut number = 1;
    let calls = std::iter::from_fn(move || {
        number += 1;
        let line = next_line(&mut lines, LINE_MAX).with_context(|| format!("file {name}, line {number}"));
        let parse = |line: String| {
            serde_json::from_str(&line).with_context(|| format!("{name}, line {number}: not a recorded call"))
        };
        line.transpose().map(|line| line.and_then(parse))
    });
    Ok((header, calls))
}

/// The next line, with its end; none after the last one.
fn next_line(lines: &mut impl BufRead, limit: usize) -> anyhow::Result<Option<String>> {
    let mut line = String::new();
    lines.by_ref().take(limit as u64 + 1).read_line(&mut line)?;
    ensure!(line.len() <= limit, "the line has more than {limit} bytes");
    Ok(Some(line).filter(|line| !line.is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recording_without_a_valid_header_is_rejected_with_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("calls.jsonl");
        for (text, expected) in [
            ("", "calls.jsonl is not a recording"),
            ("{}\n", "calls.jsonl is not a recording"),
            (
                r#"{"windlassRecording":9,"plugin":"a","component":"c","contract":"0","at":"2026-01-01T00:00:00Z"}"#,
                "has format 9 of recordings",
            ),
        ] {
            std::fs::write(&file, text).expect("written");
            let error = format!("{:#}", read(&file).err().expect("rejected"));
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn line_beyond_the_limit_is_an_error_and_is_not_read_whole() {
        let mut lines = &b"{}\n[1,2,3]\n"[..];
        assert_eq!(next_line(&mut lines, 4).expect("a line").as_deref(), Some("{}\n"));
        let error = next_line(&mut lines, 4).expect_err("too long").to_string();
        assert_eq!((error.as_str(), lines), ("the line has more than 4 bytes", &b"3]\n"[..]));
        assert_eq!(next_line(&mut &b""[..], 4).expect("the end"), None);
    }

    fn header() -> Header {
        Header::new("echo", ("sha256:0", "0.1.0"), Some(b"component")).expect("a header")
    }

    #[test]
    fn header_carries_the_component() {
        let mut line = Vec::new();
        write_line(&mut line, &header()).expect("written");
        let read: Header = serde_json::from_slice(&line).expect("a header");
        assert_eq!(read.wasm().expect("intact"), Some(b"component".to_vec()));
    }

    #[test]
    fn earlier_recording_is_replaced_by_the_first_call() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("calls.jsonl");
        std::fs::write(&file, "an earlier recording").expect("written");
        let call = json!({
            "number": 1, "at": "2026-01-01T00:00:00Z", "plugin": "echo", "trigger": "changed", "durationUs": 1,
            "parent": {"apiVersion": "v1", "kind": "Echo", "name": "web"},
            "decision": {"outcome": "Succeeded", "message": "", "status": "unchanged"},
        });
        let call: RecordedCall = serde_json::from_str(&call.to_string()).expect("a call");
        let mut recorder = Recorder::new(file.clone(), header());
        assert_eq!(std::fs::read_to_string(&file).expect("readable"), "an earlier recording");
        recorder.add(&call).expect("written");
        recorder.add(&call).expect("written");
        let (header, calls) = read(&file).expect("a recording");
        assert_eq!((&*header.plugin, calls.flatten().count()), ("echo", 2));
    }
}
