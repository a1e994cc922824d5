//! Components in a local folder, for development: `NAME.wasm` replaces the source of the Plugin `NAME`, and goes live a
//! moment after it was built.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use windlass_core::object::reason::PluginReason;
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::PluginName;

use super::{Delivered, DeliveryError, MAX_COMPONENT_BYTES, MAX_SIGNATURE_BYTES};
use crate::Changed;

/// Time between two scans of the folder. Polling works on every file system and with every tool; file notifications do
/// not.
const PERIOD: Duration = Duration::from_secs(1);

/// Extension of a component's file.
const COMPONENT: &str = "wasm";
/// Extension that the file of a component's signature has in addition to the component's.
const SIGNATURE: &str = "sigstore.json";

/// State by which a changed file is recognized: length and modification time of the component, modification time of its
/// signature.
type State = (u64, Option<SystemTime>, Option<SystemTime>);
type Files = BTreeMap<PluginName, State>;

/// A folder of components, which is scanned until this value is dropped.
pub struct Folder {
    path: PathBuf,
    files: Arc<Mutex<Files>>,
    task: AbortHandle,
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Folder {
    /// Starts to scan a folder, and calls `changed` for each Plugin whose file appears, changes or disappears.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn open(path: PathBuf, changed: Changed) -> io::Result<Self> {
        let files = Arc::new(Mutex::new(scan(&path)?));
        let task = tokio::spawn(follow(path.clone(), files.clone(), changed)).abort_handle();
        Ok(Self { path, files, task })
    }

    /// The file of a Plugin's component, if there is one.
    pub fn file(&self, plugin: &PluginName) -> Option<PathBuf> {
        self.files.lock().contains_key(plugin).then(|| file(&self.path, plugin.as_str()))
    }
}

/// Reads a component's file, and the file of its signature, if any. Blocks for as long as reading takes.
///
/// # Errors
/// If one of the files cannot be read, or is too large.
pub fn read(file: &Path) -> Result<Delivered, DeliveryError> {
    let bytes = read_up_to(file, MAX_COMPONENT_BYTES).map_err(|error| useless(file, &error))?;
    let beside = signature_of(file);
    let signature = match read_up_to(&beside, MAX_SIGNATURE_BYTES) {
        Ok(signature) => Some(signature),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(useless(&beside, &error)),
    };
    Ok(Delivered { digest: Digest::of(&bytes), bytes, signature })
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// If the file cannot be read, or is larger. Not more than the limit is read.
pub fn read_up_to(file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (opened, mut bytes) = (File::open(file)?, Vec::new());
    let size = opened.metadata()?.len();
    if size <= limit {
        // The file may grow meanwhile, and a pipe has no size.
        opened.take(limit + 1).read_to_end(&mut bytes)?;
    }
    if size.max(bytes.len() as u64) > limit {
        return Err(io::Error::other(format!("it is larger than the limit of {limit} bytes")));
    }
    Ok(bytes)
}

fn useless(file: &Path, error: &io::Error) -> DeliveryError {
    DeliveryError::new(PluginReason::SourceInvalid, format!("{}: {error}", file.display()))
}

fn file(folder: &Path, plugin: &str) -> PathBuf {
    folder.join(plugin).with_extension(COMPONENT)
}

fn signature_of(file: &Path) -> PathBuf {
    file.with_extension(format!("{COMPONENT}.{SIGNATURE}"))
}

async fn follow(path: PathBuf, files: Arc<Mutex<Files>>, changed: Changed) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let folder = path.clone();
        let Ok(scanned) = tokio::task::spawn_blocking(move || scan(&folder)).await else { return };
        // A build may recreate the folder, so a missing folder is not a change.
        let Ok(now) = scanned else { continue };
        let before = std::mem::replace(&mut *files.lock(), now.clone());
        let names = now.keys().chain(before.keys().filter(|&name| !now.contains_key(name)));
        for name in names.filter(|&name| before.get(name) != now.get(name)) {
            changed(name);
        }
    }
}

/// The components in a folder, with their state.
fn scan(folder: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let is_component = path.extension().is_some_and(|extension| extension == COMPONENT);
        let name = path.file_stem().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        // The file is not a component or not a regular file, or was removed meanwhile.
        let Some(meta) = path.metadata().ok().filter(|meta| is_component && meta.is_file()) else { continue };
        if let Some(name) = name {
            let signature = signature_of(&path).metadata().and_then(|meta| meta.modified());
            files.insert(name, (meta.len(), meta.modified().ok(), signature.ok()));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        scan(folder).expect("a folder").keys().map(ToString::to_string).collect()
    }

    #[test]
    fn components_are_files_named_after_their_plugins() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["echo.wasm", "echo.wasm.sigstore.json", "Not-A-Name.wasm", "other.txt", "no-ending", "a.b.wasm"] {
            fs::write(folder.path().join(name), "x").expect("written");
        }
        fs::create_dir(folder.path().join("folder.wasm")).expect("a folder");
        assert_eq!(names(folder.path()), ["echo"]);
        let delivered = read(&file(folder.path(), "echo")).expect("a component");
        assert_eq!((delivered.bytes, delivered.signature), (b"x".to_vec(), Some(b"x".to_vec())));
    }

    #[test]
    fn unreadable_component_file_is_named_in_the_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let huge = file(folder.path(), "huge");
        File::create(&huge).and_then(|file| file.set_len(MAX_COMPONENT_BYTES + 1)).expect("written");
        for (name, reason) in [("huge", "larger than the limit"), ("none", "No such file")] {
            let error = read(&file(folder.path(), name)).expect_err(name).to_string();
            assert!(error.contains(name) && error.contains(reason), "{error}");
        }
    }

    #[test]
    fn unreadable_signature_is_an_error_and_does_not_count_as_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = file(folder.path(), "echo");
        fs::write(&path, "x").expect("written");
        assert_eq!(read(&path).expect("a component").signature, None);
        let signature = signature_of(&path);
        fs::write(&signature, vec![b'x'; 262_145]).expect("written");
        let large = read(&path).expect_err("too large").to_string();
        fs::remove_file(&signature).and_then(|()| fs::create_dir(&signature)).expect("a folder");
        let folder = read(&path).expect_err("a folder").to_string();
        for (error, reason) in [(large, "larger than the limit"), (folder, "directory")] {
            assert!(error.contains("echo.wasm.sigstore.json: ") && error.contains(reason), "{error}");
        }
    }

    #[test]
    fn changed_component_or_signature_changes_the_scanned_state() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = file(folder.path(), "echo");
        fs::write(&path, "one").expect("written");
        let first = scan(folder.path()).expect("a folder");
        fs::write(&path, "other").expect("written");
        let second = scan(folder.path()).expect("a folder");
        fs::write(signature_of(&path), "signed").expect("written");
        let third = scan(folder.path()).expect("a folder");
        assert!(first != second && second != third);
        assert_eq!(third, scan(folder.path()).expect("a folder"));
    }
}
