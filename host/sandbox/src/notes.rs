//! Collects the notes that a guest emits while it runs, through `host` or its standard streams. Notes are kept up to a
//! limit, and counted beyond it.

use std::collections::VecDeque;

use windlass_core::contract::{CallReport, Level, Note};

/// Added to the size of each note, so that empty notes count as well.
const NOTE_OVERHEAD: usize = 64;

/// Maximum length of a line on a standard stream, in bytes. Of each write, the bytes beyond it are dropped; a later
/// write starts a new line.
const LINE: usize = 8 * 1024;

/// Maximum length of a guest's last error that is kept, in characters; messages show less of it.
const LAST_WORDS: usize = 512;
/// Number of last lines on standard error to keep: a Rust panic takes two, and a hint one more.
const LAST_LINES: usize = 3;
/// Beginnings of the line with which Go's runtime ends a program. The stacks of all goroutines follow, so the last lines do
/// not say what happened.
const LAST_OF_GO: [&str; 2] = ["panic: ", "fatal error: "];
/// Beginning of the stack of a goroutine. A guest in any language may write a line like those of [`LAST_OF_GO`], and go on; without a
/// stack after it, the line is not from Go's runtime.
const STACK_OF_GO: &str = "goroutine ";

/// A guest's standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// The notes of one call.
#[derive(Default)]
pub(crate) struct Notes {
    kept: Vec<Note>,
    /// Remaining bytes for log lines, span attributes and span events. Measurements have a limit of their own, so that
    /// a verbose log does not displace them.
    room: usize,
    measure_room: usize,
    dropped: u64,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// The last logged error, even if the log has no room for it.
    last_error: Option<String>,
    /// The last lines on standard error: runtimes report panics there, over several lines.
    last_lines: VecDeque<String>,
    /// The last line that may have ended a Go program, if there is one, and whether a stack followed.
    last_of_go: Option<(String, bool)>,
}

impl Notes {
    pub(crate) fn new(log_bytes: usize) -> Self {
        Self { room: log_bytes, measure_room: log_bytes, ..Self::default() }
    }

    pub(crate) fn push(&mut self, note: Note) {
        if let Note::Log { level: Level::Error, message, .. } = &note {
            self.last_error = Some(message.chars().take(LAST_WORDS).collect());
        }
        let (text, room) = match &note {
            Note::Log { message, fields, .. } => (message.len() + pairs(fields), &mut self.room),
            Note::SpanAttribute { key, value } => (key.len() + value.len(), &mut self.room),
            Note::SpanEvent { name, attributes } => (name.len() + pairs(attributes), &mut self.room),
            Note::Measure { metric, labels, .. } => (metric.len() + pairs(labels), &mut self.measure_room),
        };
        match room.checked_sub(text.saturating_add(NOTE_OVERHEAD)) {
            Some(rest) => {
                *room = rest;
                self.kept.push(note);
            }
            None => self.dropped += 1,
        }
    }

    /// Records bytes that a guest wrote to a standard stream. Each line becomes a log line.
    pub(crate) fn write(&mut self, stream: Stream, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let pending = match stream {
                Stream::Stdout => &mut self.stdout,
                Stream::Stderr => &mut self.stderr,
            };
            // Bytes beyond the maximum length are dropped, not buffered: an endless line must not fill the host's
            // memory.
            pending.extend(piece.iter().take(LINE.saturating_sub(pending.len())));
            if piece.ends_with(b"\n") || pending.len() >= LINE {
                self.end_line(stream);
            }
        }
    }

    fn end_line(&mut self, stream: Stream) {
        let (pending, level, name) = match stream {
            Stream::Stdout => (&mut self.stdout, Level::Info, "stdout"),
            // Runtimes report panics on standard error.
            Stream::Stderr => (&mut self.stderr, Level::Warn, "stderr"),
        };
        let line = std::mem::take(pending);
        let message = String::from_utf8_lossy(&line).trim_end().to_owned();
        if !message.is_empty() {
            if name == "stderr" {
                let words: String = message.chars().take(LAST_WORDS).collect();
                if LAST_OF_GO.iter().any(|beginning| words.starts_with(beginning)) {
                    self.last_of_go = Some((words.clone(), false));
                } else if words.starts_with(STACK_OF_GO)
                    && let Some((_, has_stack)) = &mut self.last_of_go
                {
                    *has_stack = true;
                }
                self.last_lines.truncate(LAST_LINES - 1);
                self.last_lines.push_front(words);
            }
            let fields = vec![("stream".to_owned(), name.to_owned())];
            self.push(Note::Log { level, message, fields });
        }
    }

    /// Moves all notes into the report at the end of a call. Returns the last error that the guest reported: the panic of
    /// a Go program, or else its last log line of level error, or else its last lines on standard error.
    pub(crate) fn report(&mut self, report: &mut CallReport) -> Option<String> {
        self.end_line(Stream::Stdout);
        self.end_line(Stream::Stderr);
        report.notes = std::mem::take(&mut self.kept);
        report.notes_dropped = self.dropped;
        let lines = self.last_lines.drain(..).rev().collect::<Vec<_>>().join(" ");
        let last_of_go = self.last_of_go.take().and_then(|(line, has_stack)| has_stack.then_some(line));
        last_of_go.or_else(|| self.last_error.take()).or_else(|| Some(lines).filter(|lines| !lines.is_empty()))
    }
}

fn pairs(fields: &[(String, String)]) -> usize {
    fields.iter().map(|(key, value)| key.len() + value.len() + NOTE_OVERHEAD).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(mut notes: Notes) -> (Vec<String>, u64) {
        let mut report = CallReport::default();
        notes.report(&mut report);
        let messages = report.notes.into_iter().map(|note| match note {
            Note::Log { message, level, .. } => format!("{level:?} {message}"),
            other => format!("{other:?}"),
        });
        (messages.collect(), report.notes_dropped)
    }

    #[test]
    fn notes_beyond_the_limit_are_counted_and_dropped() {
        let mut notes = Notes::new(1000);
        for _ in 0..10_000 {
            notes.push(Note::SpanAttribute { key: String::new(), value: String::new() });
        }
        let (kept, dropped) = reported(notes);
        assert_eq!((kept.len(), dropped), (15, 9985));
    }

    #[test]
    fn a_flood_of_log_lines_does_not_hide_a_measurement() {
        let mut notes = Notes::new(200);
        for _ in 0..10 {
            notes.write(Stream::Stdout, b"a line\n");
        }
        notes.push(Note::Measure { metric: "m".into(), value: 1.0, labels: Vec::new() });
        let (kept, _) = reported(notes);
        assert!(kept.last().is_some_and(|note| note.starts_with("Measure")), "{kept:?}");
    }

    #[test]
    fn standard_streams_become_log_lines_even_without_a_last_newline() {
        let mut notes = Notes::new(10_000);
        notes.write(Stream::Stdout, b"one\ntw");
        notes.write(Stream::Stderr, b"\xff!\n\n");
        notes.write(Stream::Stdout, b"o");
        assert_eq!(reported(notes).0, ["Info one", "Warn \u{fffd}!", "Info two"]);
    }

    #[test]
    fn last_error_is_the_last_logged_error_or_else_the_end_of_stderr() {
        let last = |mut notes: Notes| notes.report(&mut CallReport::default());
        let log = |level, message: &str| Note::Log { level, message: message.to_owned(), fields: Vec::new() };
        assert_eq!(last(Notes::new(1000)), None);
        let mut notes = Notes::new(1000);
        notes.write(Stream::Stderr, b"a\nb\nthread 'main' panicked at x:\nboom\nnote: see");
        assert_eq!(last(notes).as_deref(), Some("thread 'main' panicked at x: boom note: see"));
        // Go prints the stack of each goroutine after the panic.
        let mut notes = Notes::new(1000);
        notes.push(log(Level::Error, "an earlier error"));
        notes.write(
            Stream::Stderr,
            b"panic: boom\n\ngoroutine 18 [running]:\nmain.reconcile.func1()\n\tmain.go:54 +0xa\n",
        );
        notes.write(Stream::Stderr, b"created by main.reconcile in goroutine 1\n\tmain.go:54 +0x2a\n");
        assert_eq!(last(notes).as_deref(), Some("panic: boom"));
        // Such a line without a stack is one that any guest may write, and an earlier one did not end the program.
        for (stderr, expected) in [
            (
                "fatal error: retrying\nthread 'main' panicked at x:\nboom",
                "fatal error: retrying thread 'main' panicked at x: boom",
            ),
            (
                "panic: an example\nfatal error: out of memory\n\ngoroutine 1 [running]:\n\tmain.go:54",
                "fatal error: out of memory",
            ),
            ("goroutine 1 starts\npanic: no more\ngoodbye", "goroutine 1 starts panic: no more goodbye"),
        ] {
            let mut notes = Notes::new(1000);
            notes.write(Stream::Stderr, stderr.as_bytes());
            assert_eq!(last(notes).as_deref(), Some(expected));
        }
        // The last error is kept even if the log is full.
        let mut notes = Notes::new(0);
        notes.write(Stream::Stderr, b"a warning\n");
        for (level, message) in [(Level::Error, "first"), (Level::Error, "second"), (Level::Warn, "third")] {
            notes.push(log(level, message));
        }
        assert_eq!(last(notes).as_deref(), Some("second"));
    }

    #[test]
    fn line_without_a_newline_takes_bounded_memory() {
        let mut notes = Notes::new(100_000);
        for _ in 0..1000 {
            notes.write(Stream::Stdout, &[b'x'; LINE]);
            assert!(notes.stdout.capacity() <= 2 * LINE);
        }
    }
}
