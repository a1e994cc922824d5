//! The user's folder of what is built once, programs and components: one folder for each hash of its inputs, written once and
//! then only read, until nobody has used it for a month.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::Progress;

/// Digits of a hash in a folder's name.
const SHORT: usize = 16;

/// How long what nobody uses is kept.
const KEPT: Duration = Duration::from_hours(30 * 24);
/// How many builds of one thing are kept: those that were used last.
const BUILDS: usize = 8;

/// The file `name` (a program, a component) made from `inputs`. If it does not exist yet, `build` builds it into the folder that
/// it is given.
///
/// Callers in other processes wait for one build and do not repeat it, and never see an incomplete one.
///
/// # Errors
/// If the build fails, or the user's cache folder cannot be written.
pub fn built_once(
    name: &str,
    inputs: impl AsRef<[u8]>,
    what: &str,
    progress: Progress,
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let mut hash = Sha256::new();
    hash.update(format!("{} {}\n", env::consts::OS, env::consts::ARCH));
    hash.update(inputs.as_ref());
    let hash = hex::encode(hash.finalize());
    let short: String = hash.chars().take(SHORT).collect();

    let root = folder()?;
    let home = root.join(format!("{name}-{short}"));
    let program = home.join(name);
    if program.exists() {
        mark_used(&home);
        return Ok(program);
    }
    fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
    let lock =
        File::create(root.join(format!("{name}.lock"))).with_context(|| format!("cannot lock {}", root.display()))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        progress(&format!("waiting for {name}, which another process builds"));
        flock(&lock, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {}", root.display()))?;
    }
    if program.exists() {
        return Ok(program);
    }
    progress(&format!("building {what}; once, it is kept in {}", home.display()));
    let begun = std::time::Instant::now();
    remove_unfinished(&root, name);
    remove_unused(&root, name);
    // Next to its target, because a rename is atomic only within one file system.
    let fresh =
        tempfile::Builder::new().prefix(&unfinished(name)).tempdir_in(&root).context("cannot create a folder")?;
    build(fresh.path())?;
    ensure!(
        fresh.path().join(name).exists(),
        "the build of {name} succeeded and left no file {name}: please report this"
    );
    fs::rename(fresh.path(), &home).with_context(|| format!("cannot move the built {name} to {}", home.display()))?;
    progress(&format!("built {name} in {} s", begun.elapsed().as_secs()));
    Ok(program)
}

fn unfinished(name: &str) -> String {
    format!(".{name}-")
}

/// Removes the folders that a killed build left. The caller holds the lock, so no other process writes such a folder
/// now.
fn remove_unfinished(root: &Path, name: &str) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&unfinished(name)) {
            // If a folder cannot be removed, it only uses space.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The time of a folder's last use is that of its last modification.
fn mark_used(home: &Path) {
    // Without the mark it is built again in a month.
    let _ = File::open(home).and_then(|folder| folder.set_modified(SystemTime::now()));
}

/// Removes builds of `name` that nobody has used for a while, or after [`BUILDS`] others. The caller holds the lock.
fn remove_unused(root: &Path, name: &str) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    let unused = |entry: fs::DirEntry| {
        let used = entry.metadata().and_then(|folder| folder.modified()).ok()?;
        Some((used.elapsed().unwrap_or_default(), entry.path()))
    };
    let mut builds: Vec<_> = entries.flatten().filter(|entry| is_build(entry, name)).filter_map(unused).collect();
    builds.sort();
    for (at, (unused, path)) in builds.iter().enumerate() {
        if *unused > KEPT || at >= BUILDS {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Whether anything has been built by this name and is still kept.
///
/// # Errors
/// If there is no folder for what is built.
pub fn has_build(name: &str) -> Result<bool> {
    let entries = fs::read_dir(folder()?);
    Ok(entries.is_ok_and(|entries| entries.flatten().any(|entry| is_build(&entry, name))))
}

fn is_build(entry: &fs::DirEntry, name: &str) -> bool {
    let file = entry.file_name();
    let hash = file.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix('-'));
    hash.is_some_and(|hash| hash.len() == SHORT && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn folder() -> Result<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    let cache = cache.context("no folder for built programs: set HOME or XDG_CACHE_HOME")?;
    Ok(cache.join("windlass/tools"))
}
