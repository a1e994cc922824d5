//! The WIT files of the contract, for tools that read them from a folder.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// The world of a plugin without admission.
pub const WORLD: &str = "plugin";
/// The world of a plugin with admission.
pub(crate) const ADMITTING_WORLD: &str = "admitting-plugin";

const FILES: [(&str, &str); 6] = [
    ("admission.wit", include_str!("../../../wit/admission.wit")),
    ("conversion.wit", include_str!("../../../wit/conversion.wit")),
    ("host.wit", include_str!("../../../wit/host.wit")),
    ("reconciler.wit", include_str!("../../../wit/reconciler.wit")),
    ("types.wit", include_str!("../../../wit/types.wit")),
    ("worlds.wit", include_str!("../../../wit/worlds.wit")),
];

/// Writes the WIT files of the contract into a folder.
///
/// # Errors
/// If a file cannot be written.
pub fn write_wit(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, text) in FILES {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_of_the_contract_are_included() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
        let mut files: Vec<_> =
            fs::read_dir(folder).expect("the contract").map(|file| file.expect("a file").file_name()).collect();
        files.sort();
        assert_eq!(files, FILES.map(|(name, _)| name));
    }
}
