//! The files of the corpus.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Users read the corpus, and every case copies it.
const MAX_SEED: usize = 16 * 1024;

/// One file.
pub struct Seed {
    /// Folder and name.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
    /// Whether the code must accept it; otherwise it must reject it.
    pub is_good: bool,
}

impl Seed {
    /// A file; its name begins with `good-` or `bad-`.
    pub fn new(name: &str, bytes: Vec<u8>) -> Self {
        let file = name.rsplit('/').next().unwrap_or_default();
        let is_good = file.starts_with("good-");
        assert!(is_good || file.starts_with("bad-"), "{name} must be named good-… or bad-…");
        assert!(bytes.len() <= MAX_SEED, "{name} has more than {MAX_SEED} bytes");
        Self { name: name.to_owned(), bytes, is_good }
    }
}

/// A file in the forms that mutations need.
#[derive(Debug)]
pub struct ParsedSeed {
    /// The content.
    pub bytes: Vec<u8>,
    /// The content as JSON, if it is JSON.
    pub json: Option<Value>,
}

impl ParsedSeed {
    /// Parses a file's bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), json: serde_json::from_slice(bytes).ok() }
    }
}

/// The files of a folder, in the order of their names.
pub fn read(folder: &str) -> Vec<Seed> {
    let mut seeds: Vec<_> = entries(&root().join(folder))
        .into_iter()
        .map(|path| {
            let name = format!("{folder}/{}", name_of(&path));
            let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            Seed::new(&name, bytes)
        })
        .collect();
    seeds.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(!seeds.is_empty(), "tests/corpus/{folder} is empty");
    seeds
}

/// The names of all folders, in order.
#[cfg(test)]
pub fn folders() -> Vec<String> {
    let mut names: Vec<_> = entries(&root()).iter().filter(|path| path.is_dir()).map(|path| name_of(path)).collect();
    names.sort();
    names
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}
