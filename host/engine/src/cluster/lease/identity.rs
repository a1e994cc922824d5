//! The identity of this host in the Lease. It equals that of an earlier host only if that host's process has ended.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use windlass_core::hosts::lease::Identity;

/// Lock file in the folder of compiled components. A running host holds the lock; the kernel releases it when the
/// process ends, for whatever reason.
const FILE: &str = "lease.lock";
/// Length of the name in the lock file.
const LENGTH: usize = 16;

/// The identity of a host, valid as long as its process lives.
#[derive(Debug)]
pub struct Instance {
    /// The name in the Lease.
    pub identity: Identity,
    /// The lock, which guarantees that no other process has this name.
    _lock: Option<File>,
}

impl Instance {
    /// The identity of this process: the name in the folder's lock file, if the process can lock the file. A copied
    /// folder, a folder in use by another process and another node each give another name.
    pub fn of(folder: &Path) -> Self {
        let node = hostname::get().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        match locked(folder) {
            Ok((lock, instance)) => Self { identity: Identity::new(&node, &instance), _lock: Some(lock) },
            Err(error) => {
                tracing::warn!(
                    folder = %folder.display(),
                    %error,
                    "{FILE} cannot be locked: after a crash the next host waits until the Lease expires"
                );
                Self { identity: Identity::new(&node, &random()), _lock: None }
            }
        }
    }
}

fn locked(folder: &Path) -> std::io::Result<(File, String)> {
    fs::create_dir_all(folder)?;
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(folder.join(FILE))?;
    file.try_lock()?;
    let mut name = String::new();
    file.read_to_string(&mut name)?;
    if name.len() != LENGTH || !name.chars().all(|char| char.is_ascii_hexdigit()) {
        name = random();
        file.set_len(0)?;
        std::os::unix::fs::FileExt::write_all_at(&file, name.as_bytes(), 0)?;
        file.flush()?;
    }
    let meta = file.metadata()?;
    Ok((file, format!("{name}-{:x}-{:x}", meta.dev(), meta.ino())))
}

fn random() -> String {
    format!("{:016x}", fastrand::u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h01_host_reuses_its_identity_only_after_the_process_that_had_it_has_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Instance::of(folder.path());
        let beside = Instance::of(folder.path());
        assert_ne!(first.identity, beside.identity, "the first process still runs");
        let name = first.identity.clone();
        drop(first);
        assert_eq!(Instance::of(folder.path()).identity, name);

        let copy = tempfile::tempdir().expect("a folder");
        fs::copy(folder.path().join(FILE), copy.path().join(FILE)).expect("copied");
        assert_ne!(Instance::of(copy.path()).identity, name, "a copied file is another file");
    }
}
