//! Deletes the objects that a command has found.

use super::output::DryRun;

/// Flags of a command that deletes objects.
#[derive(Debug, clap::Args)]
pub struct DeletionArgs {
    /// Print which objects would be deleted and which would be kept, and delete nothing
    #[arg(long, value_name = "WHERE", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
}
