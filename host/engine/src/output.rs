//! Prints lines for people on standard output and standard error, without characters that control a terminal: they may contain text of
//! components, registries or the cluster.

use std::fmt;
use std::io::{self, Write as _};

use windlass_core::value::line::one_line;

/// Prints one line to standard output; the arguments are those of `println!`. Newlines in them become spaces.
#[macro_export]
macro_rules! out {
    ($($arg:tt)*) => { $crate::output::line(format_args!($($arg)*)) };
}

/// Prints one line to standard error; the arguments are those of `eprintln!`. Newlines in them become spaces.
#[macro_export]
macro_rules! err {
    ($($arg:tt)*) => { $crate::output::error_line(format_args!($($arg)*)) };
}

/// See `out!`. Without a reader, the work goes on.
pub fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{}", one_line(&text.to_string()));
}

/// See `err!`. Without a reader, the work goes on.
pub fn error_line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", one_line(&text.to_string()));
}

/// Shows an error with its causes. A cause whose text was shown already is left out, because many libraries repeat the text of a
/// cause in their own.
pub struct WithCauses<'a>(pub &'a anyhow::Error);

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = String::new();
        for cause in self.0.chain().map(ToString::to_string) {
            if !shown.contains(&cause) {
                shown.push_str(if shown.is_empty() { "" } else { ": " });
                shown.push_str(&cause);
            }
        }
        f.write_str(&shown)
    }
}
