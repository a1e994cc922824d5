//! Which host this is: the same as a host before it only if that one's process has surely ended.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use windlass_core::lease::Identity;

/// The lock file in the folder of compiled components: held by a running host, and let go by the kernel when its process ends,
/// however that comes.
const FILE: &str = "lease.lock";
/// Length of the name in it.
const LENGTH: usize = 16;

/// A host as the Lease names it, for as long as its process lives.
#[derive(Debug)]
pub struct Instance {
    /// Its name.
    pub identity: Identity,
    /// What shows that no other process has that name.
    _lock: Option<File>,
}

impl Instance {
    /// This process, with the name that stands in the folder if it can lock it. A folder that is copied, or that another
    /// process uses, gives another name; so does another node.
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
    fn h01_host_has_its_name_again_only_after_the_process_that_had_it_has_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Instance::of(folder.path());
        let beside = Instance::of(folder.path());
        assert_ne!(first.identity, beside.identity, "the first one still runs");
        let name = first.identity.clone();
        drop(first);
        assert_eq!(Instance::of(folder.path()).identity, name);

        let copy = tempfile::tempdir().expect("a folder");
        fs::copy(folder.path().join(FILE), copy.path().join(FILE)).expect("copied");
        assert_ne!(Instance::of(copy.path()).identity, name, "another file");
    }
}
