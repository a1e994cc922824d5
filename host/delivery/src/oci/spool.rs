//! What a registry gives, in a file until all of it is there: however slowly it comes, and from however many registries at
//! once, it takes no memory worth speaking of.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// Bytes that are gathered before they are written.
const PIECE: usize = 64 << 10;

/// A file without a name: it is gone with this, or with the process.
#[derive(Debug)]
pub struct Spool {
    file: File,
    gathered: Vec<u8>,
}

impl Spool {
    /// An empty one, on the file system of a folder.
    ///
    /// # Errors
    /// If no file can be made there.
    pub fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(folder)?, gathered: Vec::new() })
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// If they cannot be written.
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

    /// All that was added.
    ///
    /// # Errors
    /// If it cannot be read.
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

/// Where it blocks nobody.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_came_in_pieces_of_any_size_is_whole_and_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        for pieces in [vec![], vec![1], vec![PIECE], vec![PIECE - 1, 1, 1], vec![3 * PIECE, 7, PIECE, 9]] {
            let (mut spool, mut expected) = (Spool::new(folder.path()).expect("a file"), Vec::new());
            for (number, size) in pieces.iter().enumerate() {
                let piece = vec![u8::try_from(number).expect("few"); *size];
                spool = spool.add(&piece).await.expect("written");
                expected.extend(piece);
            }
            assert!(spool.gathered.len() < PIECE, "no more than a piece is held");
            assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0, "it has no name");
            assert!(spool.read().await.expect("read") == expected, "{pieces:?}");
        }
    }
}
