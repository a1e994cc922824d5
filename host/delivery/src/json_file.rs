//! A small file beside the compiled components that outlives the process: whole or not at all, and never in the way.

use std::io::{self, Write};
use std::path::PathBuf;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::NamedTempFile;

/// What is kept, and its file.
pub(super) struct JsonFile<T> {
    path: PathBuf,
    content: Mutex<T>,
    /// Whether the file lacks what is kept: it could not be written. Held while it is written.
    lacking: Mutex<bool>,
}

impl<T: Default + DeserializeOwned + Serialize> JsonFile<T> {
    /// What an earlier process left. What cannot be read is as if it were not there.
    pub fn open(path: PathBuf) -> Self {
        let read = std::fs::read(&path).and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from));
        let content = read.unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "unreadable: components are fetched again");
            }
            T::default()
        });
        Self { path, content: Mutex::new(content), lacking: Mutex::default() }
    }

    /// Reads what is kept; does not wait for the file.
    pub fn read<A>(&self, read: impl FnOnce(&T) -> A) -> A {
        read(&self.content.lock())
    }

    /// Changes what is kept, and writes the file if the change says that there is something new. Blocks for the time of
    /// writing a small file. Whoever reads what is kept does not wait for that.
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
            tracing::warn!(path = %self.path.display(), %error, "not written: the next start may fetch components again");
        }
    }

    /// Whole or not at all.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = NamedTempFile::new_in(self.path.parent().unwrap_or(&self.path))?;
        file.write_all(bytes)?;
        file.persist(&self.path)?;
        Ok(())
    }
}
