//! A source read from front to back, for parsers that want a reader.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::source::Source;

/// A reader over a source, for parsers that want a stream.
pub struct Cursor {
    source: Arc<Source>,
    at: u64,
}

impl Cursor {
    /// Starts at a position.
    pub fn new(source: &Arc<Source>, at: u64) -> Cursor {
        Cursor { source: source.clone(), at }
    }
}

impl Read for Cursor {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        let left = self.source.len().saturating_sub(self.at);
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(dst.len());
        self.source.read_at(self.at, &mut dst[..n]).map_err(io::Error::other)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.source.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
