//! The WIT files of the contract, for tools that read them from a folder.

use std::path::Path;

use crate::{create, write};

/// The world of a plugin without admission.
pub const WORLD: &str = "plugin";
/// The world of a plugin with admission.
pub(crate) const ADMITTING_WORLD: &str = "admitting-plugin";

/// A version of the contract: the names and texts of its WIT files.
pub(crate) type Contract = [(&'static str, &'static str); 6];

macro_rules! contract {
    ($folder:literal) => {
        [
            ("admission.wit", include_str!(concat!("../../../wit/", $folder, "/admission.wit"))),
            ("conversion.wit", include_str!(concat!("../../../wit/", $folder, "/conversion.wit"))),
            ("host.wit", include_str!(concat!("../../../wit/", $folder, "/host.wit"))),
            ("reconciler.wit", include_str!(concat!("../../../wit/", $folder, "/reconciler.wit"))),
            ("types.wit", include_str!(concat!("../../../wit/", $folder, "/types.wit"))),
            ("worlds.wit", include_str!(concat!("../../../wit/", $folder, "/worlds.wit"))),
        ]
    };
}

/// Contract 0.1.
pub(crate) const V0_1: Contract = contract!("0.1");
/// Contract 0.2.
pub(crate) const V0_2: Contract = contract!("0.2");
/// Writes the WIT files of a contract into a folder.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write_wit(contract: &Contract, folder: &Path) -> anyhow::Result<()> {
    create(folder)?;
    contract.iter().try_for_each(|(name, text)| write(&folder.join(name), text))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn all_files_of_the_contracts_are_included() {
        let versions = [("0.1", V0_1), ("0.2", V0_2)];
        for (version, contract) in versions {
            let folder = format!("{}/../../wit/{version}", env!("CARGO_MANIFEST_DIR"));
            let mut files: Vec<_> =
                fs::read_dir(folder).expect("the contract").map(|file| file.expect("a file").file_name()).collect();
            files.sort();
            assert_eq!(files, contract.map(|(name, _)| name));
        }
    }
}
