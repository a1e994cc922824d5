//! The WIT files of the contract, for tools that read them from a folder.

use std::path::Path;

use crate::{create, write};

/// The world of a plugin without admission.
pub const WORLD: &str = "plugin";
/// The world of a plugin with admission.
pub(crate) const ADMITTING_WORLD: &str = "admitting-plugin";

const FILES: [(&str, &str); 7] = [
    ("admission.wit", include_str!("../../../wit/0.2/admission.wit")),
    ("conversion.wit", include_str!("../../../wit/0.2/conversion.wit")),
    ("host.wit", include_str!("../../../wit/0.2/host.wit")),
    ("reconciler.wit", include_str!("../../../wit/0.2/reconciler.wit")),
    ("schedule.wit", include_str!("../../../wit/0.2/schedule.wit")),
    ("types.wit", include_str!("../../../wit/0.2/types.wit")),
    ("worlds.wit", include_str!("../../../wit/0.2/worlds.wit")),
];

/// Writes the WIT files of the contract that the SDKs use into a folder.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write_wit(folder: &Path) -> anyhow::Result<()> {
    create(folder)?;
    FILES.iter().try_for_each(|(name, text)| write(&folder.join(name), text))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn all_files_of_the_contract_are_included() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/0.2");
        let mut files: Vec<_> =
            fs::read_dir(folder).expect("the contract").map(|file| file.expect("a file").file_name()).collect();
        files.sort();
        assert_eq!(files, FILES.map(|(name, _)| name));
    }
}
