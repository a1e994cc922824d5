//! A small JSON file beside the compiled components. It outlives the process, is written whole or not at all, and an
//! error never stops the host.

use std::io::{self, Write};
use std::path::PathBuf;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::NamedTempFile;

/// The content, and the path of its file.
pub(super) struct JsonFile<T> {
    path: PathBuf,
    content: Mutex<T>,
    /// Whether the file is older than the content, because it could not be written. Locked while the file is written.
    lacking: Mutex<bool>,
}

impl<T: Default + DeserializeOwned + Serialize> JsonFile<T> {
    /// Opens the file of an earlier process. An unreadable file counts as empty.
    pub fn open(path: PathBuf) -> Self {
        let read = std::fs::read(&path).and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from));
        let content = read.unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "record ignored, because it is unreadable: components are fetched again");
            }
            T::default()
        });
        Self { path, content: Mutex::new(content), lacking: Mutex::default() }
    }

    /// Reads the content, without waiting for the file.
    pub fn read<A>(&self, read: impl FnOnce(&T) -> A) -> A {
        read(&self.content.lock())
    }

    /// Changes the content, and writes the file if `change` returns true. Blocks for the time of writing a small file.
    /// Readers of the content do not wait for the write.
    pub fn change(&self, change: impl FnOnce(&mut T) -> bool) {
        let mut lacking = self.lacking.lock();
        let bytes = {
            let mut content = self.content.lock();
            if !change(&mut content) && !*lacking {
                return;
            }
            serde_json::to_vec(&*content)
        };
        let written = bytes.map_err(io::Error::from).and_then(|bytes| self.write(&bytes));
        *lacking = written.is_err();
        if let Err(error) = written {
            tracing::warn!(path = %self.path.display(), %error, "record not written: the next start may fetch components again");
        }
    }

    /// Writes the file, whole or not at all.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = NamedTempFile::new_in(self.path.parent().unwrap_or(&self.path))?;
        file.write_all(bytes)?;
        file.persist(&self.path)?;
        Ok(())
    }
}
