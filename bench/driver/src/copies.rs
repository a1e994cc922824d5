//! Copies of the measured plugin, each with its own API group, and so with its own kind and binary.

use std::path::Path;

use anyhow::Context;

use crate::stage::Stage;

/// The API group of the measured plugin's kind, which is replaced in the copies. The kind itself is so short that a
/// compiler may turn it into numbers.
const GROUP: &[u8; 13] = b"bench.example";

/// The group of a copy's kind.
pub fn group(number: usize) -> String {
    format!("b{number:03}h.example")
}

/// Pushes this number of copies, and returns the names of their Plugins.
pub fn push(stage: &Stage, load: &Path, count: usize) -> anyhow::Result<Vec<String>> {
    let original = std::fs::read(load).context("the measured component cannot be read")?;
    let copies = (0..count).map(|number| {
        let path = stage.dir().join(format!("copy-{number:03}.wasm"));
        // The new group has the same length, so that all offsets in the binary stay valid.
        let copy = replaced(&original, GROUP, group(number).as_bytes());
        anyhow::ensure!(copy != original, "the group is not found in the measured component");
        std::fs::write(&path, copy)?;
        Ok((format!("copy-{number:03}"), path))
    });
    let copies = copies.collect::<anyhow::Result<Vec<_>>>()?;
    stage.define(copies.iter().map(|(_, path)| path.as_path()))?;
    let plugins: Vec<_> = copies.iter().map(|(name, path)| (name.as_str(), path.as_path())).collect();
    stage.push(&plugins)?;
    Ok(copies.into_iter().map(|(name, _)| name).collect())
}

/// Replaces all occurrences by text of the same length.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = bytes.to_vec();
    let mut at = 0;
    while let Some(rest) = replaced.get_mut(at..).filter(|rest| rest.len() >= from.len()) {
        if rest.starts_with(from) {
            rest.iter_mut().zip(to).for_each(|(old, new)| *old = *new);
        }
        at += 1;
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_another_group_and_the_same_length() {
        assert_eq!(replaced(b"Load aLoadLoa", b"Load", b"L007"), b"L007 aL007Loa");
    }
}
