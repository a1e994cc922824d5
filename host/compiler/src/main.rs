//! `windlass-compile`: compiles a component from standard input to standard output, within limits. `windlass-host` starts it.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().len() > 1 {
        eprintln!("windlass-compile {}: windlass-host starts it, without arguments", env!("CARGO_PKG_VERSION"));
        return ExitCode::from(2);
    }
    windlass_sandbox::compile::child_main()
}
