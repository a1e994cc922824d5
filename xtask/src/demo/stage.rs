//! The output of the demo: steps, commands and their output. Colours and progress are only for a terminal.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::Instant;

const PLAIN: &str = "";
const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const CYAN: &str = "36";

/// The output.
pub(super) struct Stage {
    terminal: bool,
    steps: Cell<u32>,
    start: Instant,
}

impl Stage {
    /// Writes to standard output.
    pub(super) fn new() -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self {
            terminal: terminal && std::env::var_os("NO_COLOR").is_none(),
            steps: Cell::new(0),
            start: Instant::now(),
        }
    }

    /// Begins a step.
    pub(super) fn step(&self, title: &str) {
        let number = self.steps.get();
        self.steps.set(number + 1);
        say("");
        say(&self.paint(BOLD, &format!("── {number}. {title}")));
    }

    /// The number of the current step, for messages.
    pub(super) fn current(&self) -> u32 {
        self.steps.get().saturating_sub(1)
    }

    /// Prints a note.
    pub(super) fn note(&self, text: &str) {
        say(&self.paint(DIM, &format!("# {text}")));
    }

    /// Prints a command that a user would type.
    pub(super) fn command(&self, line: &str) {
        say(&self.paint(CYAN, &format!("$ {line}")));
    }

    /// Prints the output of a command.
    pub(super) fn output(&self, text: &str) {
        for line in text.lines() {
            say(&self.paint(PLAIN, line));
        }
    }

    /// Prints that a claim was observed.
    pub(super) fn seen(&self, what: &str, begun: Instant) {
        let line = format!("✓ {what} ({:.1} s)", begun.elapsed().as_secs_f32());
        say(&self.paint(GREEN, &line));
    }

    /// Prints that all steps succeeded.
    pub(super) fn done(&self, text: &str) {
        say("");
        say(&self.paint(GREEN, &format!("✓ {text} ({} s in all)", self.start.elapsed().as_secs())));
    }

    /// Prints that the current step failed.
    pub(super) fn failed(&self, why: &str, log: &str) {
        say("");
        say(&self.paint(RED, &format!("✗ step {} failed: {why}", self.current())));
        if !log.is_empty() {
            self.note("the host's last log lines:");
            self.output(log);
        }
    }

    /// Does work that takes a while; shows `what` meanwhile on a terminal.
    pub(super) fn during<T>(&self, what: &str, work: impl FnOnce() -> T) -> T {
        if self.terminal {
            write(&format!("{}\r", self.paint(DIM, &format!("… {what}"))));
        }
        let result = work();
        if self.terminal {
            write("\x1b[2K");
        }
        result
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.terminal && !code.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn say(line: &str) {
    write(&format!("{line}\n"));
}

fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    // Even if standard output is closed, the demo must stop and remove what it started.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
