//! npz: a zip archive of npy files. Names of members are keys and nothing else; no path is ever made of them. A member is unpacked, and
//! its checksum verified, when its array is evaluated, and never beyond the size that its npy header declares.

mod write;

pub use self::write::{write, write_stream};

use std::io::{BufReader, Read};
use std::ops::Range;
use std::sync::Arc;

use flate2::Crc;
use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use super::Named;
use super::cursor::Cursor;
use super::load::{Encoding, Fill, Place};
use super::npy::Header;
use super::source::Source;
use crate::bail;
use crate::core::{Error, Result};

/// Deflate packs at most 1032 bytes into one.
const DEFLATE_MAX: u64 = 1032;
/// Members from here on get the long form of zip headers.
const LARGE: usize = 0xf000_0000;
const BUFFER: usize = 1 << 16;

/// An npy file inside an archive.
pub struct Member {
    name: String,
    start: u64,
    packed: u64,
    deflated: bool,
    /// Bytes when unpacked, and their checksum.
    size: u64,
    crc: u32,
    /// Bytes of the npy header.
    header: u64,
}

impl Member {
    /// The bytes of the npy file.
    fn unpack(&self, source: &Arc<Source>) -> Box<dyn Read> {
        let packed = Cursor::new(source, self.start).take(self.packed);
        match self.deflated {
            true => Box::new(DeflateDecoder::new(BufReader::with_capacity(BUFFER, packed)).take(self.size)),
            false => Box::new(packed),
        }
    }

    /// Unpacks the elements; the last of them comes with the verdict on the checksum.
    pub fn open(&self, source: &Arc<Source>) -> Result<Fill<'_>> {
        let mut reader = self.unpack(source);
        let mut crc = Crc::new();
        let mut done = 0;
        let mut next = move |dst: &mut [u8]| -> Result<()> {
            if let Err(e) = reader.read_exact(dst) {
                bail!(Runtime, "[load] Unable to unpack {} bytes of member '{}': {e}.", dst.len(), self.name);
            }
            crc.update(dst);
            done += dst.len() as u64;
            if done == self.size && crc.sum() != self.crc {
                bail!(Runtime, "[load] Bad CRC-32 of member '{}': the archive is corrupt.", self.name);
            }
            Ok(())
        };
        // FITS: the header of the member was read before, so it is there.
        next(&mut vec![0; self.header as usize])?;
        let mut scratch = vec![0; BUFFER];
        Ok(Box::new(move |dst| {
            // The destination may be memory that is slow to read, and the checksum reads.
            for part in dst.chunks_mut(BUFFER) {
                next(&mut scratch[..part.len()])?;
                part.copy_from_slice(&scratch[..part.len()]);
            }
            Ok(())
        }))
    }
}

fn broken(source: &Source, why: impl std::fmt::Display) -> Error {
    Error::Runtime(format!("[load_npz] Invalid zip archive in {}: {why}.", source.name()))
}

/// The arrays of an npz file; members of one name count once, the last of them.
pub fn load(source: &Arc<Source>, place: Place) -> Result<Named> {
    let opened = ZipArchive::new(BufReader::new(Cursor::new(source, 0)));
    let mut archive = opened.map_err(|e| Error::Value(broken(source, e).to_string()))?;
    let (mut found, mut places) = (Named::new(), Vec::new());
    for i in 0..archive.len() {
        let (name, array, bytes) = member(&mut archive, i, source, place)?;
        found.push((name, array));
        places.push(bytes);
    }
    // Members that share bytes unpack to far more than the archive has.
    places.sort_unstable_by_key(|p| p.start);
    if places.windows(2).any(|p| p[1].start < p[0].end) {
        return Err(broken(source, "members overlap"));
    }
    Ok(found)
}

type Archive = ZipArchive<BufReader<Cursor>>;

fn member(
    archive: &mut Archive,
    i: usize,
    source: &Arc<Source>,
    place: Place,
) -> Result<(String, crate::core::Array, Range<u64>)> {
    let entry = archive.by_index_raw(i).map_err(|e| broken(source, e))?;
    let name = entry.name().map_err(|e| broken(source, e))?.into_owned();
    if entry.encrypted() {
        bail!(Runtime, "[load_npz] Member '{name}' of {} is encrypted.", source.name());
    }
    let deflated = match entry.compression() {
        CompressionMethod::Stored => false,
        CompressionMethod::Deflated => true,
        other => bail!(Runtime, "[load_npz] Member '{name}' of {} is packed by {other}.", source.name()),
    };
    let start = entry.data_start().ok_or_else(|| broken(source, "a member has no position"))?;
    let (packed, size, crc) = (entry.compressed_size(), entry.size(), entry.crc32());
    let cut = match deflated {
        true => size > packed.saturating_mul(DEFLATE_MAX),
        false => size != packed,
    };
    if cut || !source.holds(start, packed) {
        return Err(broken(source, format_args!("member '{name}' has impossible sizes {packed} and {size}")));
    }
    let mut m = Member { name, start, packed, deflated, size, crc, header: 0 };
    let what = format!("member '{}' of {}", m.name, source.name());
    let header = Header::read(m.unpack(source), &what)?;
    m.header = header.len;
    if header.nbytes > size - header.len {
        bail!(
            Runtime,
            "[load_npz] Unable to read {} bytes of elements of {what}: it has {} bytes.",
            header.nbytes,
            size - header.len
        );
    }
    let key = match m.name.strip_suffix(".npy") {
        Some(stem) if !stem.is_empty() => stem,
        _ => &m.name,
    };
    let key = key.to_string();
    Ok((key, header.array(source, Encoding::Member(m), place)?, start..start + packed))
}
