//! Finds out when the sources of a project change, by scans of its folder.
//!
//! Scans work on every file system, with every editor and in containers; notifications of files do not. They also need no
//! watch on each folder of `node_modules` or `target`: a project without these has few files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ignore::{DirEntry, WalkBuilder};

/// Time between two scans.
const PERIOD: Duration = Duration::from_millis(300);
/// A change is complete when the files stay the same for this time: an editor or a tool may write several.
const QUIET: Duration = Duration::from_millis(150);

/// Folders of build outputs, of tools and of version control, anywhere in a project.
const NO_SOURCES: [&str; 4] = [".git", ".venv", "__pycache__", "node_modules"];
/// Folders of build outputs in the project's own folder. Further below, folders of these names may have sources.
const OUTPUTS: [&str; 2] = ["build", "target"];
/// Marks a folder as a cache (<https://bford.info/cachedir>); cargo puts it into each target folder.
const CACHE_TAG: &str = "CACHEDIR.TAG";
/// Files that the tools of a language write during a build.
const LOCK_FILES: [&str; 3] = ["Cargo.lock", "go.sum", "package-lock.json"];

/// State by which a changed file is recognized: length and modification time.
type State = (u64, Option<SystemTime>);
type Files = BTreeMap<PathBuf, State>;

/// The sources of a project, and further files, as the last scan showed them.
pub struct Sources {
    folder: PathBuf,
    further: Vec<PathBuf>,
    seen: Files,
}

impl Sources {
    /// Scans a project's folder and further files.
    pub fn new(folder: PathBuf, further: Vec<PathBuf>) -> Self {
        let seen = scan(&folder, &further);
        Self { folder, further, seen }
    }

    /// Waits until files have changed, and returns their paths. Changes since the last call count, so none is missed while
    /// the caller does something else; an abandoned call loses no change.
    pub async fn changed(&mut self) -> anyhow::Result<Vec<PathBuf>> {
        loop {
            tokio::time::sleep(PERIOD).await;
            let mut now = self.scan().await?;
            if now == self.seen {
                continue;
            }
            loop {
                tokio::time::sleep(QUIET).await;
                let next = self.scan().await?;
                if next == now {
                    break;
                }
                now = next;
            }
            let changed = differing(&self.seen, &now);
            self.seen = now;
            if !changed.is_empty() {
                return Ok(changed);
            }
        }
    }

    /// Takes the lock files as they are after a build: the tools have written them.
    pub async fn accept_lock_files(&mut self) -> anyhow::Result<()> {
        let now = self.scan().await?;
        for name in LOCK_FILES {
            let path = self.folder.join(name);
            if let Some(state) = now.get(&path) {
                self.seen.insert(path, *state);
            }
        }
        Ok(())
    }

    async fn scan(&self) -> anyhow::Result<Files> {
        let (folder, further) = (self.folder.clone(), self.further.clone());
        Ok(tokio::task::spawn_blocking(move || scan(&folder, &further)).await?)
    }
}

/// The sources in a folder, without what its `.gitignore` files name, and further files. Files that cannot be read are left
/// out: the build reports them.
fn scan(folder: &Path, further: &[PathBuf]) -> Files {
    let mut walk = WalkBuilder::new(folder);
    // The project alone decides, so that it does not matter where it is.
    walk.hidden(false).parents(false).git_global(false).git_exclude(false).require_git(false);
    let walk = walk.filter_entry(is_source).build();
    let found = walk.filter_map(Result::ok).filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let paths = found.map(DirEntry::into_path).chain(further.iter().cloned());
    paths.filter_map(|path| Some((state(&path)?, path))).map(|(state, path)| (path, state)).collect()
}

fn state(path: &Path) -> Option<State> {
    let meta = path.metadata().ok()?;
    Some((meta.len(), meta.modified().ok()))
}

/// Whether an entry may be a source, or contain some.
fn is_source(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    if entry.depth() == 0 {
        return true;
    }
    if entry.file_type().is_some_and(|kind| kind.is_dir()) {
        let is_output = entry.depth() == 1 && OUTPUTS.contains(&&*name);
        return !is_output && !NO_SOURCES.contains(&&*name) && !entry.path().join(CACHE_TAG).exists();
    }
    !is_of_an_editor(&name)
}

/// Whether an editor keeps its own data in a file of this name: a backup, a lock or a swap file.
fn is_of_an_editor(name: &str) -> bool {
    let is_swap = name.starts_with('.') && [".swp", ".swo", ".swx"].iter().any(|end| name.ends_with(end));
    is_swap || name.ends_with('~') || name.starts_with(".#") || name == "4913"
}

/// The files that are in one scan only, or differ.
fn differing(before: &Files, now: &Files) -> Vec<PathBuf> {
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    let fresh = now.iter().filter(|(path, state)| before.get(*path) != Some(state)).map(|(path, _)| path);
    gone.chain(fresh).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(folder: &Path, path: &str, text: &str) {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("created");
        fs::write(file, text).expect("written");
    }

    fn names(folder: &Path, files: impl IntoIterator<Item = PathBuf>) -> Vec<String> {
        let name = |path: PathBuf| path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        files.into_iter().map(name).collect()
    }

    #[test]
    fn build_outputs_and_what_gitignore_names_are_no_sources() {
        let project = tempfile::tempdir().expect("a folder");
        let folder = project.path();
        write(folder, ".gitignore", "*.log\n/generated/\n");
        write(folder, "sdk/target/CACHEDIR.TAG", "");
        for source in ["Cargo.toml", "src/lib.rs", "src/target/mod.rs", "src/build/mod.rs", ".cargo/config.toml"] {
            write(folder, source, "");
        }
        for other in [
            "target/debug/x",
            "build/greeting.wasm",
            "node_modules/a/index.js",
            "sdk/node_modules/a/index.js",
            ".venv/bin/python",
            "src/__pycache__/x.pyc",
            ".git/index",
            "sdk/target/debug/x",
            "src/.lib.rs.swp",
            "src/lib.rs~",
            "out.log",
            "generated/x",
        ] {
            write(folder, other, "");
        }
        assert_eq!(
            names(folder, scan(folder, &[]).into_keys()),
            [".cargo/config.toml", ".gitignore", "Cargo.toml", "src/build/mod.rs", "src/lib.rs", "src/target/mod.rs"]
        );
    }

    #[tokio::test]
    async fn changes_are_reported_once_also_those_between_two_calls() {
        let project = tempfile::tempdir().expect("a folder");
        let elsewhere = tempfile::tempdir().expect("a folder");
        let (folder, sample) = (project.path(), elsewhere.path().join("sample.yaml"));
        write(folder, "src/lib.rs", "one");
        write(folder, "src/old.rs", "");
        write(folder, "Cargo.lock", "");
        let mut sources = Sources::new(folder.to_owned(), vec![sample.clone()]);
        write(folder, "src/lib.rs", "other");
        write(folder, "src/new.rs", "");
        write(folder, "Cargo.lock", "locked");
        write(folder, "target/x", "");
        fs::remove_file(folder.join("src/old.rs")).expect("removed");
        fs::write(&sample, "kind: Greeting").expect("written");
        sources.accept_lock_files().await.expect("scanned");
        let mut changed = names(folder, sources.changed().await.expect("scanned"));
        changed.sort();
        let mut expected = ["src/lib.rs", "src/new.rs", "src/old.rs"].map(str::to_owned).to_vec();
        expected.push(sample.display().to_string());
        expected.sort();
        assert_eq!(changed, expected);
        assert_eq!(sources.scan().await.expect("scanned"), sources.seen, "nothing is left to report");
    }
}
