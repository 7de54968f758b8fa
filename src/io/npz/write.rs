//! Writing of npz: the archive and its members, to seekable files and to streams.

use std::io::{self, Seek, SeekFrom, Write};

use zip::CompressionMethod;
use zip::result::ZipError;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::LARGE;
use crate::io::npy;
use crate::io::save::Dense;

/// Writes arrays as the members of an archive, deflated if `compressed`.
pub fn write<W: Write + Seek>(w: &mut W, arrays: &[(String, Dense)], compressed: bool) -> io::Result<()> {
    write_members(ZipWriter::new(Quiet::new(w)), arrays, compressed)
}

/// As [`write`], for writers that cannot seek.
pub fn write_stream(w: &mut dyn Write, arrays: &[(String, Dense)], compressed: bool) -> io::Result<()> {
    write_members(ZipWriter::new_stream(Quiet::new(w)), arrays, compressed)
}

fn write_members<W: Write + Seek>(
    mut zip: ZipWriter<W>,
    arrays: &[(String, Dense)],
    compressed: bool,
) -> io::Result<()> {
    let method = if compressed { CompressionMethod::Deflated } else { CompressionMethod::Stored };
    for (name, a) in arrays {
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .last_modified_time(zip::DateTime::default())
            .large_file(a.bytes().len() >= LARGE);
        zip.start_file(format!("{name}.npy"), options).map_err(plain)?;
        npy::write(&mut zip, a)?;
    }
    zip.finish().map_err(plain)?.flush()
}

/// A writer that takes everything once it has failed: the archive's, which ends it when it is dropped, would complain on
/// stderr about an error that the caller has.
struct Quiet<W> {
    inner: W,
    failed: bool,
    /// Where the next byte goes, and the furthest one so far.
    at: u64,
    end: u64,
}

impl<W> Quiet<W> {
    fn new(inner: W) -> Quiet<W> {
        Quiet { inner, failed: false, at: 0, end: 0 }
    }

    fn attempt<T>(&mut self, otherwise: T, f: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        if self.failed {
            return Ok(otherwise);
        }
        let result = f(&mut self.inner);
        self.failed = result.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::Interrupted);
        result
    }

    fn go(&mut self, to: u64) -> u64 {
        self.end = self.end.max(to);
        self.at = to;
        to
    }
}

impl<W: Write> Write for Quiet<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.attempt(bytes.len(), |w| match w.write(bytes)? {
            0 if !bytes.is_empty() => Err(io::ErrorKind::WriteZero.into()),
            n => Ok(n),
        })?;
        self.go(self.at + n as u64);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt((), W::flush)
    }
}

impl<W: Seek> Seek for Quiet<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
            SeekFrom::End(by) => self.end.saturating_add_signed(by),
        };
        let at = self.attempt(target, |w| w.seek(to))?;
        Ok(self.go(at))
    }
}

/// Errors of the writer below come out as they went in.
fn plain(e: ZipError) -> io::Error {
    match e {
        ZipError::Io(e) => e,
        other => other.into(),
    }
}
