//! Reads files that users name. Somebody else may have made them, so their sizes are limited.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use windlass_delivery::{MAX_COMPONENT_BYTES, read_up_to};

/// Maximum size of a file of objects, in bytes: more than the API server's largest answers.
const TEXT_MAX: u64 = 256 * 1024 * 1024;

/// Reads a component.
///
/// # Errors
/// If the file cannot be read, or is larger than a component may be.
pub fn component(file: &Path) -> anyhow::Result<Vec<u8>> {
    read_up_to(file, MAX_COMPONENT_BYTES).with_context(|| format!("component {}", file.display()))
}

/// Reads a text; `what` describes it in the error: `file`, `key`.
///
/// # Errors
/// If the file cannot be read, is too large, or is not UTF-8.
pub fn text(what: &str, file: &Path) -> anyhow::Result<String> {
    let name = || format!("{what} {}", file.display());
    let bytes = read_up_to(file, TEXT_MAX).with_context(name)?;
    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("the text is not UTF-8")).with_context(name)
}

/// Reads standard input as a text.
///
/// # Errors
/// If it cannot be read, is too large, or is not UTF-8.
pub fn standard_input() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().take(TEXT_MAX + 1).read_to_string(&mut text).context("standard input")?;
    ensure!(text.len() as u64 <= TEXT_MAX, "standard input is larger than the limit of {TEXT_MAX} bytes");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn file_beyond_the_limit_is_named_and_not_read_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let (huge, binary) = (folder.path().join("huge"), folder.path().join("binary"));
        File::create(&huge).and_then(|file| file.set_len(1 << 40)).expect("a file without blocks");
        std::fs::write(&binary, [0xff]).expect("written");
        for (error, words) in [
            (component(&huge).err(), "component"),
            (text("key", &huge).err(), "key"),
            (text("file", &binary).err(), "not UTF-8"),
        ] {
            let error = format!("{:#}", error.expect(words));
            assert!(error.contains(words) && error.contains(folder.path().to_str().expect("a path")), "{error}");
        }
    }
}
