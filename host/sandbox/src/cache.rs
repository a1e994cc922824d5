//! Compiled components on disk, by digest and engine compatibility, in a folder that is ours alone. The only `unsafe` of
//! the host: mapping such a file as code.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use wasmtime::Engine;
use wasmtime::component::Component;
use windlass_core::digest::Digest;

/// Write permission of anybody but the owner.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Permissions of the folder.
const PRIVATE: u32 = 0o700;

/// The cache folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The system refused something.
    #[error("cannot {action} {}: {error}; give the host a folder of its own that it may write", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Others could put code there, which the host would run.
    #[error(
        "{} belongs to somebody else or is writable by others (owner {owner}, mode {mode:o}): \
         name a folder that only the host's user may write, or one that does not exist yet",
        .path.display()
    )]
    NotPrivate {
        /// The folder.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
}

/// A compiled file that may be mapped.
pub(crate) struct Compiled {
    pub(crate) path: PathBuf,
    /// Size of the component that it was made from, in bytes.
    pub(crate) component_size: u64,
}

/// Compiled files for engines of one compatibility.
pub(crate) struct Cache {
    folder: PathBuf,
    compatibility: String,
}

impl Cache {
    pub(crate) fn open(folder: PathBuf, compatibility: String) -> Result<Self, CacheError> {
        let cache = Self { folder, compatibility };
        let created = DirBuilder::new().recursive(true).mode(PRIVATE).create(&cache.folder);
        created.map_err(|error| cache.failed("create", error))?;
        // Not following a link: whoever owns the link chooses the folder.
        let metadata = fs::symlink_metadata(&cache.folder).map_err(|error| cache.failed("look at", error))?;
        if !metadata.is_dir() || !is_private(&metadata) {
            let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
            return Err(CacheError::NotPrivate { path: cache.folder, owner, mode });
        }
        if metadata.mode() & 0o7777 != PRIVATE {
            // Nobody else could write there, so that all in it is ours; from now on nobody reads what plugins are made of.
            let made = fs::set_permissions(&cache.folder, Permissions::from_mode(PRIVATE));
            made.map_err(|error| cache.failed("make private", error))?;
        }
        Ok(cache)
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{}-{}.cwasm", digest.hex(), self.compatibility))
    }

    /// The compiled file of this component, if it is there and is what was put there. Anything else is removed.
    pub(crate) fn find(&self, digest: Digest) -> Option<Compiled> {
        let path = self.path(digest);
        match verify(&path) {
            Ok(Some(component_size)) => Some(Compiled { path, component_size }),
            Ok(None) => {
                tracing::warn!(path = %path.display(), "a compiled component was damaged or foreign: compiling again");
                self.remove(digest);
                None
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a compiled component cannot be read: compiling again");
                self.remove(digest);
                None
            }
        }
    }

    /// A file to compile into, on the same file system.
    pub(crate) fn begin(&self) -> Result<NamedTempFile, CacheError> {
        self.half_made().map_err(|error| self.failed("create a file in", error))
    }

    fn half_made(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(".cwasm-").tempfile_in(&self.folder)
    }

    /// Keeps what a component of so many bytes was compiled to.
    pub(crate) fn keep(
        &self,
        digest: Digest,
        component_size: u64,
        compiled: NamedTempFile,
    ) -> Result<Compiled, CacheError> {
        let path = self.path(digest);
        let keep = || -> io::Result<()> {
            let sum = sum(File::open(compiled.path())?)?;
            let mut sum_file = self.half_made()?;
            sum_file.write_all(format!("{} {component_size}", sum.hex()).as_bytes())?;
            // The sum comes first: between the two, a reader finds no file and waits for the compiler's lock.
            sum_file.persist(sum_path(&path))?;
            compiled.persist(&path)?;
            Ok(())
        };
        keep().map_err(|error| self.failed("write to", error))?;
        Ok(Compiled { path, component_size })
    }

    /// Removes what was put here before `since`, but for the files of these components: those of others, of engines of
    /// another kind, and what an interrupted compilation left. Answers with how many files went.
    ///
    /// # Errors
    /// If the folder cannot be read. A file that cannot be removed stays.
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
        // Missing files are what is wanted; others show when the new ones are written.
        let _ = fs::remove_file(sum_path(&path));
        let _ = fs::remove_file(&path);
    }

    fn failed(&self, action: &'static str, error: io::Error) -> CacheError {
        CacheError::Io { action, path: self.folder.clone(), error }
    }

    /// Maps the compiled file that [`Cache::find`] or [`Cache::keep`] gave.
    #[allow(unsafe_code)]
    pub(crate) fn map(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
        // SAFETY: the file was written by the compiling child of this host into a folder that only this user may
        // write, its bytes have the sum that was taken then, and it is replaced by renaming, never changed in place.
        unsafe { Component::deserialize_file(engine, path) }
    }
}

fn sum_path(path: &Path) -> PathBuf {
    path.with_extension("cwasm.sha256")
}

fn is_private(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & WRITABLE_BY_OTHERS == 0
}

/// The size of the component that was compiled, if the file is what it was made as.
fn verify(path: &Path) -> io::Result<Option<u64>> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_file() || !is_private(&metadata) {
        return Ok(None);
    }
    let Ok(expected) = fs::read_to_string(sum_path(path)) else {
        return Ok(None);
    };
    let Some((expected, component_size)) = expected.split_once(' ') else {
        return Ok(None);
    };
    let is_whole = sum(File::open(path)?)?.hex() == expected;
    Ok(component_size.parse().ok().filter(|_| is_whole))
}

/// Read piece by piece: a compiled Python component has tens of megabytes, which an idle host must not keep.
fn sum(mut file: File) -> io::Result<Digest> {
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
