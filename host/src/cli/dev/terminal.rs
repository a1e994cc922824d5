//! Prints what happens, a line with the time for each event, in colours on a terminal.

use std::io::{IsTerminal as _, Write as _};

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

impl Tone {
    /// The escape sequence that begins the colour.
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
        }
    }
}

/// Standard output.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    is_coloured: bool,
}

impl Terminal {
    /// Colours the lines if standard output is a terminal and `NO_COLOR` is not set.
    pub fn new() -> Self {
        Self { is_coloured: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    /// Prints a text with the time; further lines of the text are indented.
    pub fn say(self, tone: Tone, text: &str) {
        let time = jiff::Timestamp::now().strftime("%H:%M:%SZ").to_string();
        let text = text.trim_end().replace('\n', "\n          ");
        let line = match tone {
            Tone::Good | Tone::Bad if self.is_coloured => format!("{time} {}{text}\x1b[0m\n", tone.code()),
            Tone::Good | Tone::Bad | Tone::Plain => format!("{time} {text}\n"),
        };
        // Without a reader, the work goes on.
        let _ = std::io::stdout().write_all(line.as_bytes());
    }
}
