//! Prints what happens, a line with the time for each event, in colours on a terminal.

use std::io::{self, IsTerminal as _, Write};
use std::sync::mpsc::{self, Sender};
use std::thread;

use anstyle::{AnsiColor, Style};
use windlass_core::value::line::printable;
use windlass_engine::command::LINGER;

/// How a line is shown on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// A success.
    Good,
    /// A failure.
    Bad,
}

/// Standard output. Its own thread writes to it, so that a slow reader, such as a pager, does not block the host: a host that
/// is blocked loses the Lease.
#[derive(Debug, Clone)]
pub struct Terminal {
    is_coloured: bool,
    queue: Sender<Queued>,
}

/// Work for the thread that writes.
enum Queued {
    /// A text to write.
    Text(String),
    /// Reports that all texts before it are written.
    Flush(Sender<()>),
}

impl Terminal {
    /// Colours the lines if standard output is a terminal and `NO_COLOR` is not set.
    pub fn new() -> Self {
        let output = io::stdout();
        let is_coloured = output.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self::with(output, is_coloured)
    }

    fn with(mut output: impl Write + Send + 'static, is_coloured: bool) -> Self {
        let (queue, queued) = mpsc::channel();
        // The thread ends with the process, or with the last sender.
        thread::spawn(move || {
            for next in queued {
                // Without a reader, the work goes on.
                match next {
                    Queued::Text(text) => drop(output.write_all(text.as_bytes())),
                    Queued::Flush(done) => drop(output.flush().map(|()| done.send(()))),
                }
            }
        });
        Self { is_coloured, queue }
    }

    /// Prints a text with the time; further lines of the text are indented. Returns at once.
    pub fn print(&self, tone: Tone, text: &str) {
        let time = jiff::Timestamp::now().strftime("%H:%M:%SZ").to_string();
        let text = printable(text.trim_end()).replace('\n', "\n          ");
        let style = match tone {
            Tone::Good if self.is_coloured => AnsiColor::Green.on_default(),
            Tone::Bad if self.is_coloured => AnsiColor::Red.on_default(),
            Tone::Good | Tone::Bad | Tone::Plain => Style::new(),
        };
        // The thread receives as long as there is a sender.
        let _ = self.queue.send(Queued::Text(format!("{time} {style}{text}{style:#}\n")));
    }

    /// Waits until everything is written, but not long for a reader that has stopped.
    pub fn flush(&self) {
        let (done, all_written) = mpsc::channel();
        let _ = self.queue.send(Queued::Flush(done));
        let _ = all_written.recv_timeout(LINGER);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::Receiver;

    use parking_lot::Mutex;

    use super::*;

    /// An output whose reader does not read before it is dropped.
    struct Stopped {
        reader: Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stopped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.reader.recv();
            self.written.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn print_does_not_wait_for_a_reader_and_flush_loses_no_line() {
        let (reading, reader) = mpsc::channel();
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let terminal = Terminal::with(Stopped { reader, written: written.clone() }, false);
        terminal.print(Tone::Plain, "one");
        terminal.clone().print(Tone::Bad, "two\nthree\n");
        assert!(written.lock().is_empty(), "the reader has not read");
        drop(reading);
        terminal.flush();
        let text = String::from_utf8(written.lock().clone()).expect("UTF-8");
        let lines: Vec<_> = text.lines().filter_map(|line| line.get("00:00:00Z ".len()..)).collect();
        assert_eq!(lines, ["one", "two", "three"]);
    }
}
