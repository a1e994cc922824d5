//! Stores compiled components on disk, by digest and key of the engines, in a private folder. Contains the host's
//! only `unsafe` code, which maps a stored file as code.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use wasmtime::Engine;
use wasmtime::component::Component;
use windlass_core::value::digest::Digest;

/// Write permission for group and others.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Permissions of the folder.
const PRIVATE: u32 = 0o700;

/// The cache folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// A system call failed.
    #[error("cannot {action} {}: {error}; give the host a folder of its own that it may write", .path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Other users could put code that the host would run into the folder.
    #[error(
        "{} belongs to another user or is writable by others (owner {owner}, mode {mode:o}): \
         name a folder that only the host's user may write, or one that does not exist yet",
        .path.display()
    )]
    NotPrivate {
        /// The folder.
        path: PathBuf,
        /// The UID of its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
}

/// A verified compiled file.
pub(crate) struct Compiled {
    /// Opened once, so that the verified file is mapped, even if another file takes its name meanwhile.
    file: File,
    /// Size of the original component, in bytes.
    pub(crate) component_size: u64,
}

impl Compiled {
    /// A path to the open file itself, independent of its name.
    fn path(&self) -> String {
        // In a container, only the first one is sure to exist.
        let open_files = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
        format!("{open_files}/{}", self.file.as_raw_fd())
    }
}

/// Compiled files for engines with one key.
pub(crate) struct Cache {
    folder: PathBuf,
    key: String,
}

impl Cache {
    pub(crate) fn open(folder: PathBuf, key: String) -> Result<Self, CacheError> {
        let cache = Self { folder, key };
        let created = DirBuilder::new().recursive(true).mode(PRIVATE).create(&cache.folder);
        created.map_err(|error| cache.failed("create", error))?;
        // `symlink_metadata` does not follow a symbolic link: the owner of the link controls its target.
        let metadata = fs::symlink_metadata(&cache.folder).map_err(|error| cache.failed("look at", error))?;
        cache.check_parents()?;
        if !metadata.is_dir() || !is_private(&metadata) {
            return Err(not_private(cache.folder, &metadata));
        }
        if metadata.mode() & 0o7777 != PRIVATE {
            // No other user could write to the folder, so the host wrote all its content. From now on other users
            // cannot read it either.
            let made = fs::set_permissions(&cache.folder, Permissions::from_mode(PRIVATE));
            made.map_err(|error| cache.failed("make private", error))?;
        }
        Ok(cache)
    }

    /// Checks the folders above, whose owners could replace the cache folder.
    fn check_parents(&self) -> Result<(), CacheError> {
        let folder = fs::canonicalize(&self.folder).map_err(|error| self.failed("look at", error))?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        for parent in folder.ancestors().skip(1) {
            let metadata = fs::metadata(parent).map_err(|error| self.failed("look at the folders above", error))?;
            match danger(metadata.uid(), metadata.mode()) {
                Danger::None => {}
                Danger::Writable if is_empty_dir(parent, &mounts) => {}
                Danger::Writable => tracing::warn!(
                    folder = %parent.display(),
                    "other users can write in a folder above the cache, and could replace the cache: run chmod +t on it, or choose another --cache-dir"
                ),
                Danger::Foreign => return Err(not_private(parent.to_owned(), &metadata)),
            }
        }
        Ok(())
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{}-{}.cwasm", digest.hex(), self.key))
    }

    /// Returns the compiled file of this component, if it exists and is intact. Removes a file that is damaged or not
    /// private.
    pub(crate) fn find(&self, digest: Digest) -> Option<Compiled> {
        let path = self.path(digest);
        match verify(&path) {
            Ok(Some(compiled)) => return Some(compiled),
            Ok(None) => {
                tracing::warn!(path = %path.display(), "a compiled component was damaged or foreign: compiling again");
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a compiled component cannot be read: compiling again");
            }
        }
        self.remove(digest);
        None
    }

    /// Creates a file to compile into, on the same file system.
    pub(crate) fn begin(&self) -> Result<NamedTempFile, CacheError> {
        self.half_made().map_err(|error| self.failed("create a file in", error))
    }

    fn half_made(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(".cwasm-").tempfile_in(&self.folder)
    }

    /// Stores the compiled file of a component of this size.
    pub(crate) fn keep(
        &self,
        digest: Digest,
        component_size: u64,
        compiled: NamedTempFile,
    ) -> Result<Compiled, CacheError> {
        let path = self.path(digest);
        let keep = || -> io::Result<File> {
            let sum = sum(&File::open(compiled.path())?)?;
            let mut sum_file = self.half_made()?;
            sum_file.write_all(format!("{} {component_size}", sum.hex()).as_bytes())?;
            // The checksum is written first: in between, a reader finds no file and waits for the compiler's lock.
            sum_file.persist(sum_path(&path))?;
            Ok(compiled.persist(&path)?)
        };
        let file = keep().map_err(|error| self.failed("write to", error))?;
        Ok(Compiled { file, component_size })
    }

    /// Removes files that were last modified before `since`, except the files of these components for these engines:
    /// files of other components, files for engines with another key, and temporary files of interrupted
    /// compilations. Returns the number of removed files.
    ///
    /// # Errors
    /// The folder cannot be read. A file that cannot be removed stays.
    pub(crate) fn retain(&self, used: &HashSet<Digest>, since: SystemTime) -> io::Result<usize> {
        let of_used: HashSet<_> =
            used.iter().flat_map(|digest| [self.path(*digest), sum_path(&self.path(*digest))]).collect();
        let mut removed = 0;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let is_ours = entry.file_name().to_string_lossy().contains(".cwasm");
            let is_old = || entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|at| at < since);
            if is_ours && !of_used.contains(&entry.path()) && is_old() && fs::remove_file(entry.path()).is_ok() {
                removed += 1;
            }
        }
        Ok(removed)
    }

    pub(crate) fn remove(&self, digest: Digest) {
        let path = self.path(digest);
        // A missing file needs no removal; other errors show up when the new files are written.
        let _ = fs::remove_file(sum_path(&path));
        let _ = fs::remove_file(&path);
    }

    fn failed(&self, action: &'static str, error: io::Error) -> CacheError {
        CacheError::Io { action, path: self.folder.clone(), error }
    }

    /// Maps a compiled file from [`Cache::find`] or [`Cache::keep`].
    #[allow(unsafe_code)]
    pub(crate) fn map(engine: &Engine, compiled: &Compiled) -> wasmtime::Result<Component> {
        let file = compiled.path();
        // SAFETY: the compiling child of this host wrote the file into a folder that only this user can write, its
        // bytes match the checksum taken then, and it is replaced by renaming, never changed in place.
        unsafe { Component::deserialize_file(engine, file) }
    }
}

fn not_private(path: PathBuf, metadata: &Metadata) -> CacheError {
    CacheError::NotPrivate { path, owner: metadata.uid(), mode: metadata.mode() & 0o7777 }
}

fn sum_path(path: &Path) -> PathBuf {
    path.with_extension("cwasm.sha256")
}

fn is_private(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & WRITABLE_BY_OTHERS == 0
}

/// Changes that the permissions of a folder above the cache allow other users.
#[derive(Debug, PartialEq, Eq)]
enum Danger {
    /// None, or only adding files of their own (sticky bit).
    None,
    /// Renaming the folder's entries.
    Writable,
    /// Any change: another user owns the folder.
    Foreign,
}

fn danger(owner: u32, mode: u32) -> Danger {
    const STICKY: u32 = 0o1000;
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        Danger::Foreign
    } else if mode & WRITABLE_BY_OTHERS != 0 && mode & STICKY == 0 {
        Danger::Writable
    } else {
        Danger::None
    }
}

/// Whether an `emptyDir` is mounted at this folder, by the kernel's list of mounts: all users may write in it, but only the containers
/// of one Pod have it. Other volumes may be shared.
fn is_empty_dir(folder: &Path, mounts: &str) -> bool {
    mounts.lines().any(|mount| {
        // The folder of the file system, and where it is mounted (proc_pid_mountinfo(5)).
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next(), fields.next());
        root.is_some_and(|root| root.contains("/kubernetes.io~empty-dir/")) && point.map(Path::new) == Some(folder)
    })
}

/// Returns the compiled file if it is intact and private.
fn verify(path: &Path) -> io::Result<Option<Compiled>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || !is_private(&metadata) {
        return Ok(None);
    }
    let Ok(expected) = fs::read_to_string(sum_path(path)) else { return Ok(None) };
    let Some((expected, component_size)) = expected.split_once(' ') else { return Ok(None) };
    let is_whole = sum(&file)?.hex() == expected;
    let compiled = component_size.parse().ok().map(|component_size| Compiled { file, component_size });
    Ok(compiled.filter(|_| is_whole))
}

/// Computes the checksum in chunks: a compiled Python component has tens of megabytes, which an idle host must not keep
/// in memory.
fn sum(mut file: &File) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(Digest::from_bytes(hasher.finalize().into()));
        }
        hasher.update(piece.get(..read).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_dir_is_known_and_another_volume_at_the_same_place_is_not() {
        let mount = |root: &str| {
            format!(
                "22 1 0:20 / / ro - overlay overlay rw\n30 22 254:0 {root} /var/cache/windlass rw,relatime - ext4 /dev/vda rw\n"
            )
        };
        let (folder, above) = (Path::new("/var/cache/windlass"), Path::new("/var/cache"));
        let empty_dir = mount("/kubelet/pods/3f/volumes/kubernetes.io~empty-dir/cache");
        assert!(is_empty_dir(folder, &empty_dir));
        assert!(!is_empty_dir(above, &empty_dir));
        for other in ["/srv/shared", "/kubelet/pods/3f/volumes/kubernetes.io~nfs/cache"] {
            assert!(!is_empty_dir(folder, &mount(other)), "{other}");
        }
    }

    #[test]
    fn checked_file_is_the_mapped_one_even_if_another_file_takes_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(folder.path().join("cache"), "c".to_owned()).expect("private");
        let digest = Digest::of(b"component");
        let mut partial = cache.begin().expect("a file");
        partial.write_all(b"compiled").expect("written");
        cache.keep(digest, 9, partial).expect("kept");
        let found = cache.find(digest).expect("there");
        let another = cache.folder.join("another");
        fs::write(&another, b"foreign code").expect("written");
        fs::rename(&another, cache.path(digest)).expect("in its place");
        let mapped = fs::read(found.path()).expect("open");
        assert_eq!(mapped, b"compiled");
        assert!(cache.find(digest).is_none(), "a file that the host did not compile is not accepted");
    }

    #[test]
    fn cache_below_a_folder_of_another_user_is_refused() {
        let above = tempfile::tempdir().expect("a folder");
        let open = || Cache::open(above.path().join("cache"), "c".to_owned());
        assert!(open().is_ok());
        if std::os::unix::fs::chown(above.path(), Some(12345), None).is_err() {
            // Only root can change a folder's owner.
            return;
        }
        assert!(matches!(open(), Err(CacheError::NotPrivate { owner: 12345, .. })));
    }

    #[test]
    fn folder_above_the_cache_must_belong_to_root_or_to_the_host() {
        let own = rustix::process::geteuid().as_raw();
        for owner in [0, own] {
            assert_eq!(danger(owner, 0o40755), Danger::None);
            assert_eq!(danger(owner, 0o41777), Danger::None, "sticky, like /tmp");
            assert_eq!(danger(owner, 0o40777), Danger::Writable);
        }
        assert_eq!(danger(own + 1, 0o40700), Danger::Foreign);
    }
}
