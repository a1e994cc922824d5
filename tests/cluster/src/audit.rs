//! The audit log of the API server: who sent which requests.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::audit_events::{AuditEvents, Line};
use crate::poll::until;

/// A position in the audit log; [`Audit::since`] returns the requests after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// Reads the audit log of one cluster.
///
/// The API server writes the line of a request when the request's handler ends. A short response (up to some 4 KB)
/// leaves the server after that; a long one may reach the client a moment earlier, so wait for its request with
/// [`Audit::wait`].
#[derive(Clone, Debug)]
pub struct Audit {
    path: PathBuf,
}

impl Audit {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The current end of the audit log.
    pub fn mark(&self) -> Result<Mark> {
        // A long line becomes visible in pieces, so only a position right after a line's end is used.
        until("a whole line in the audit log", Duration::from_secs(5), || {
            let end = self.len()?;
            let last = self.read(Mark(end.saturating_sub(1)))?;
            Ok(last.first().is_none_or(|byte| *byte == b'\n').then_some(Mark(end)))
        })
    }

    /// All requests so far.
    pub fn entries(&self) -> Result<AuditEvents> {
        self.since(Mark(0))
    }

    /// The requests after a mark, in the order in which they ended.
    pub fn since(&self, mark: Mark) -> Result<AuditEvents> {
        let text = self.read(mark)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = text.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let events = lines.map(|line| {
            let line: Line = serde_json::from_slice(line).with_context(|| {
                format!("cannot read a line of {}: {}", self.path.display(), String::from_utf8_lossy(line))
            })?;
            Ok(line.into())
        });
        Ok(AuditEvents(events.collect::<Result<_>>()?))
    }

    /// Waits until the requests after a mark satisfy `condition`, and returns them.
    pub fn wait(&self, mark: Mark, timeout: Duration, condition: impl Fn(&AuditEvents) -> bool) -> Result<AuditEvents> {
        until(format_args!("the audit log {}", self.path.display()), timeout, || {
            Ok(Some(self.since(mark)?).filter(|events| condition(events)))
        })
    }

    fn len(&self) -> Result<u64> {
        match self.path.metadata() {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error).with_context(|| format!("cannot look at {}", self.path.display())),
        }
    }

    fn read(&self, from: Mark) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(from.0))?;
            file.read_to_end(&mut text)
        });
        match read {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot read {}", self.path.display()))
            }
            _ => Ok(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn incomplete_audit_line_is_read_once_it_is_complete() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::new(path.clone());
        assert_eq!(audit.entries()?.len(), 0, "there is no file yet");
        let line = r#"{"stage":"ResponseComplete","verb":"get","user":{"username":"a"},"requestURI":"/","requestReceivedTimestamp":"t"}"#;
        std::fs::write(&path, format!("{line}\n{}", line.get(..20).unwrap_or_default()))?;
        assert_eq!(audit.entries()?.len(), 1);
        std::fs::write(&path, format!("{line}\n"))?;
        let mark = audit.mark()?;
        std::fs::write(&path, format!("{line}\n{line}\n"))?;
        assert_eq!(audit.since(mark)?.len(), 1);

        // A mark that is taken during writes never points into a line.
        let written = std::thread::spawn({
            let path = path.clone();
            move || -> std::io::Result<()> {
                let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
                for _ in 0..2000 {
                    let (half, rest) = line.split_at(40);
                    file.write_all(half.as_bytes())?;
                    file.write_all(format!("{rest}\n").as_bytes())?;
                }
                Ok(())
            }
        });
        while !written.is_finished() {
            audit.since(audit.mark()?)?;
        }
        assert!(written.join().is_ok_and(|done| done.is_ok()));
        Ok(())
    }
}
