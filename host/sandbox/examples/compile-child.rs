//! The compiling child for the tests, which have no binary of their own for it.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_sandbox::compile::child_main()
}
