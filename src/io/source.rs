//! Where the bytes of a file come from: an open file, read at positions, or memory. Nothing outside the
//! length that was there at opening is ever asked for, and a file that has become shorter since is an error.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::bail;
use crate::core::Result;

/// Reads from this size on are shared between threads: one alone does not keep up with a cached file.
const PARALLEL: usize = 16 << 20;
const THREADS: usize = 4;

/// Bytes that can be read at any position, from any thread.
pub struct Source {
    name: String,
    len: u64,
    bytes: Bytes,
}

enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    /// Opens a regular file. The error is the system's.
    pub fn open(path: &Path) -> io::Result<Arc<Source>> {
        // Looked at before it is opened: opening a pipe would wait for its other end.
        let kind = std::fs::metadata(path)?;
        if kind.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
        }
        if !kind.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Arc::new(Source { name: format!("file {}", path.display()), len, bytes: Bytes::File(file) }))
    }

    /// Bytes in memory; `name` is for messages.
    pub fn memory(name: &str, bytes: Vec<u8>) -> Arc<Source> {
        Arc::new(Source { name: name.into(), len: bytes.len() as u64, bytes: Bytes::Memory(bytes) })
    }

    /// For messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes there were at opening.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `bytes` from position `at` lie inside.
    pub fn holds(&self, at: u64, bytes: u64) -> bool {
        at.checked_add(bytes).is_some_and(|end| end <= self.len)
    }

    /// Fails unless `bytes` from position `at` lie inside.
    pub fn require(&self, at: u64, bytes: u64) -> Result<()> {
        if self.holds(at, bytes) {
            return Ok(());
        }
        bail!(
            Runtime,
            "[load] Unable to read {bytes} bytes at {at} of {}: it has {} bytes. Perhaps an incomplete download or \
             corrupt file?",
            self.name,
            self.len
        )
    }

    /// Fills `dst` from position `at`.
    pub fn read_at(&self, at: u64, dst: &mut [u8]) -> Result<()> {
        self.require(at, dst.len() as u64)?;
        match &self.bytes {
            // FITS: `require` holds the positions against the length.
            Bytes::Memory(all) => dst.copy_from_slice(&all[at as usize..at as usize + dst.len()]),
            Bytes::File(file) => {
                if let Err(e) = read_file(file, at, dst) {
                    bail!(
                        Runtime,
                        "[load] Unable to read {} bytes at {at} of {}: {e}.",
                        dst.len(),
                        self.name
                    );
                }
            }
        }
        Ok(())
    }
}

fn read_file(file: &File, at: u64, dst: &mut [u8]) -> io::Result<()> {
    if dst.len() < PARALLEL {
        return read_exact_at(file, at, dst);
    }
    let part = dst.len().div_ceil(THREADS).next_multiple_of(4096);
    std::thread::scope(|scope| {
        let parts: Vec<_> = dst
            .chunks_mut(part)
            .enumerate()
            .map(|(i, d)| scope.spawn(move || read_exact_at(file, at + (i * part) as u64, d)))
            .collect();
        parts
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|_| Err(io::Error::other("reader panicked"))))
    })
}

#[cfg(unix)]
fn read_exact_at(file: &File, at: u64, dst: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, dst, at)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut at: u64, mut dst: &mut [u8]) -> io::Result<()> {
    while !dst.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, dst, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                at += n as u64;
                dst = &mut dst[n..];
            }
        }
    }
    Ok(())
}
