//! `cargo xtask test`: all set-up, then every test.

use crate::guests;
use crate::run::{cargo, root, run};

/// Flags.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only tests whose name holds this
    filter: Option<String>,
}

/// Sets up and runs.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let root = root()?;
    // One after the other: each uses all cores by itself.
    guests::build(guests::Options::default())?;
    windlass_testbed::tools::control_plane(&windlass_testbed::tools::stderr)?;
    windlass_testbed::tools::collector(&windlass_testbed::tools::stderr)?;
    windlass_testbed::tools::registry(&windlass_testbed::tools::stderr)?;
    windlass_testbed::tools::cosign(&windlass_testbed::tools::stderr)?;
    let filter = args.filter.as_slice();
    run(cargo()
        .args(["test", "--quiet"])
        .args(["--manifest-path", "plugins/Cargo.toml"])
        .args(filter)
        .current_dir(&root)
        .env("CARGO_TARGET_DIR", root.join("target/plugins-native")))?;
    // Builds the `windlass` that the end-to-end tests start, too: a package with integration tests gets its binary.
    run(cargo().args(["test", "--workspace", "--no-fail-fast"]).args(filter).current_dir(&root))
}
