//! Finds out when the sources of a project change, by scans of its folder.
//!
//! Scans work on every file system, with every editor and in containers; notifications of files do not. They also need no
//! watch on each folder of `node_modules` or `target`: a project without these has few files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
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

/// The sources of a project, and its samples, as the last scan showed them.
pub struct Sources {
    folder: PathBuf,
    samples: Vec<PathBuf>,
    seen: Files,
}

/// Files that have changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Changes {
    /// Names of the files, in the project if they are there.
    pub names: Vec<String>,
    /// Whether a source is among them.
    pub has_sources: bool,
    /// Whether a sample is among them.
    pub has_samples: bool,
}

impl Sources {
    /// Scans a project's folder and its samples, which may be anywhere, and need not exist.
    ///
    /// # Errors
    /// If the folder cannot be found.
    pub fn new(folder: &Path, samples: &[PathBuf]) -> anyhow::Result<Self> {
        let unusable = |path: &Path| format!("{} cannot be found", path.display());
        let samples = samples.iter().map(|file| resolved(file).with_context(|| unusable(file)));
        let samples = samples.collect::<anyhow::Result<Vec<_>>>()?;
        let folder = folder.canonicalize().with_context(|| unusable(folder))?;
        let seen = scan(&folder, &samples);
        Ok(Self { folder, samples, seen })
    }

    /// Waits until files have changed, and returns them. Changes since the last call count, so none is missed while
    /// the caller does something else; an abandoned call loses no change.
    pub async fn changed(&mut self) -> anyhow::Result<Changes> {
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
                return Ok(self.changes(&changed));
            }
        }
    }

    fn changes(&self, files: &[PathBuf]) -> Changes {
        let name = |file: &PathBuf| file.strip_prefix(&self.folder).unwrap_or(file).display().to_string();
        Changes {
            names: files.iter().map(name).collect(),
            has_sources: files.iter().any(|file| !self.samples.contains(file)),
            has_samples: files.iter().any(|file| self.samples.contains(file)),
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
        let (folder, samples) = (self.folder.clone(), self.samples.clone());
        Ok(tokio::task::spawn_blocking(move || scan(&folder, &samples)).await?)
    }
}

/// The path that a scan of the project has for a file in it: without links, `.` and `..` on the way to the file.
fn resolved(file: &Path) -> io::Result<PathBuf> {
    let file = std::path::absolute(file)?;
    match (file.parent().map(Path::canonicalize), file.file_name()) {
        (Some(Ok(folder)), Some(name)) => Ok(folder.join(name)),
        // The folder may be created later.
        _ => Ok(file),
    }
}

/// The sources in a folder, without what its `.gitignore` files name, and samples. Files that cannot be read are left
/// out: the build reports them.
fn scan(folder: &Path, samples: &[PathBuf]) -> Files {
    let mut walk = WalkBuilder::new(folder);
    // The project's `.gitignore` files alone decide, so that it does not matter where the project is.
    walk.hidden(false).parents(false).ignore(false).git_global(false).git_exclude(false).require_git(false);
    let walk = walk.filter_entry(is_source).build();
    let found = walk.filter_map(Result::ok).filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let paths = found.map(DirEntry::into_path).chain(samples.iter().cloned());
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
        write(folder, ".ignore", "lib.rs\n");
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
            [
                ".cargo/config.toml",
                ".gitignore",
                ".ignore",
                "Cargo.toml",
                "src/build/mod.rs",
                "src/lib.rs",
                "src/target/mod.rs"
            ]
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
        let mut sources = Sources::new(folder, std::slice::from_ref(&sample)).expect("scanned");
        write(folder, "src/lib.rs", "other");
        write(folder, "src/new.rs", "");
        write(folder, "Cargo.lock", "locked");
        write(folder, "target/x", "");
        fs::remove_file(folder.join("src/old.rs")).expect("removed");
        fs::write(&sample, "kind: Greeting").expect("written");
        sources.accept_lock_files().await.expect("scanned");
        let mut changes = sources.changed().await.expect("scanned");
        changes.names.sort();
        let mut names = ["src/lib.rs", "src/new.rs", "src/old.rs"].map(str::to_owned).to_vec();
        names.push(resolved(&sample).expect("a path").display().to_string());
        names.sort();
        assert_eq!(changes, Changes { names, has_sources: true, has_samples: true });
        assert_eq!(sources.scan().await.expect("scanned"), sources.seen, "nothing is left to report");
    }

    #[tokio::test]
    async fn sample_in_the_project_is_no_source_by_whatever_path_the_user_names_both() {
        let project = tempfile::tempdir().expect("a folder");
        let folder = project.path();
        write(folder, "samples/small.yaml", "");
        let (by_user, sample) = (folder.join("samples/.."), folder.join("./samples/../samples/small.yaml"));
        let mut sources = Sources::new(&by_user, &[sample]).expect("scanned");
        write(folder, "samples/small.yaml", "kind: Greeting");
        let changes = sources.changed().await.expect("scanned");
        let names = vec!["samples/small.yaml".to_owned()];
        assert_eq!(changes, Changes { names, has_sources: false, has_samples: true });
    }
}
