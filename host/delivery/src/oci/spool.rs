//! Stores a download in a file until it is complete, so that many slow downloads take hardly any memory.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// Number of bytes that are buffered before a write.
const PIECE: usize = 64 << 10;

/// An unnamed file, which the system deletes when this value is dropped or the process ends.
#[derive(Debug)]
pub struct Spool {
    file: File,
    gathered: Vec<u8>,
}

impl Spool {
    /// An empty spool on the file system of `folder`.
    ///
    /// # Errors
    /// If no file can be created there.
    pub fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(folder)?, gathered: Vec::new() })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// If the bytes cannot be written.
    pub async fn add(mut self, bytes: &[u8]) -> io::Result<Self> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() < PIECE {
            return Ok(self);
        }
        beside(move || {
            self.file.write_all(&self.gathered)?;
            self.gathered.clear();
            Ok(self)
        })
        .await
    }

    /// All bytes that were added.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn read(mut self) -> io::Result<Vec<u8>> {
        beside(move || {
            let written = self.file.stream_position()?;
            self.file.rewind()?;
            let mut bytes = Vec::with_capacity(usize::try_from(written).unwrap_or_default() + self.gathered.len());
            self.file.read_to_end(&mut bytes)?;
            bytes.append(&mut self.gathered);
            Ok(bytes)
        })
        .await
    }
}

/// Runs blocking work on another thread.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn download_in_pieces_of_any_size_is_complete_and_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        for pieces in [vec![], vec![1], vec![PIECE], vec![PIECE - 1, 1, 1], vec![3 * PIECE, 7, PIECE, 9]] {
            let (mut spool, mut expected) = (Spool::new(folder.path()).expect("a file"), Vec::new());
            for (number, size) in pieces.iter().enumerate() {
                let piece = vec![u8::try_from(number).expect("few"); *size];
                spool = spool.add(&piece).await.expect("written");
                expected.extend(piece);
            }
            assert!(spool.gathered.len() < PIECE, "less than a piece stays in memory");
            assert_eq!(
                std::fs::read_dir(folder.path()).expect("the folder").count(),
                0,
                "the temporary file has no name"
            );
            assert!(spool.read().await.expect("read") == expected, "{pieces:?}");
        }
    }
}
