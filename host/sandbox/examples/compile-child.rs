//! The compiling child for the tests, which have no binary of their own that could play it.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_sandbox::compile::child_main()
}
