//! The header of a file, read in order: counts, names and metadata, each held against the bytes that are left.

use super::{CHUNK, Value, corrupt};
use crate::core::{Array, Dtype, Result};
use crate::io::source::Source;
use crate::io::stated_size;
use crate::{bail, ops};

/// Numbers that stand for types of metadata values.
pub(super) mod tag {
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const FLOAT64: u32 = 12;
}

/// Element type of a metadata value, by its tag; float64 is kept as float32, as MLX does.
pub(super) const SCALARS: [(u32, Dtype); 11] = [
    (0, Dtype::U8),
    (1, Dtype::I8),
    (2, Dtype::U16),
    (3, Dtype::I16),
    (4, Dtype::U32),
    (5, Dtype::I32),
    (6, Dtype::F32),
    (tag::BOOL, Dtype::Bool),
    (10, Dtype::U64),
    (11, Dtype::I64),
    (tag::FLOAT64, Dtype::F64),
];

/// The header, read in order.
pub(super) struct Header<'a> {
    pub(super) source: &'a Source,
    pub(super) at: u64,
    pub(super) chunk: Vec<u8>,
    pub(super) chunk_at: u64,
}

impl Header<'_> {
    pub(super) fn left(&self) -> u64 {
        self.source.len() - self.at
    }

    /// Fails unless the file can hold `count` items of at least `size` bytes from here on.
    pub(super) fn expect(&self, count: u64, size: u64, what: &str) -> Result<usize> {
        match count.checked_mul(size) {
            // FITS: not more than the file has.
            Some(n) if n <= self.left() => Ok(count as usize),
            _ => Err(corrupt(self.source, format_args!("{count} {what} do not fit the file"))),
        }
    }

    pub(super) fn bytes(&mut self, n: u64, what: &str) -> Result<Vec<u8>> {
        let n = self.expect(n, 1, what)?;
        if n > CHUNK {
            let mut out = vec![0; n];
            self.source.read_at(self.at, &mut out)?;
            self.at += n as u64;
            return Ok(out);
        }
        let inside = |h: &Self| {
            // FITS: `get` refuses what lies outside of the chunk.
            let from = h.at.checked_sub(h.chunk_at)? as usize;
            h.chunk.get(from..from.checked_add(n)?).map(<[u8]>::to_vec)
        };
        if inside(self).is_none() {
            // FITS: at most a chunk.
            self.chunk.resize(self.left().min(CHUNK as u64) as usize, 0);
            self.source.read_at(self.at, &mut self.chunk)?;
            self.chunk_at = self.at;
        }
        let out = inside(self).ok_or_else(|| corrupt(self.source, "it ends early"))?;
        self.at += n as u64;
        Ok(out)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        let b = self.bytes(4, "bytes")?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from(self.u32()?) | u64::from(self.u32()?) << 32)
    }

    pub(super) fn text(&mut self) -> Result<Vec<u8>> {
        let n = self.u64()?;
        self.bytes(n, "bytes of text")
    }

    pub(super) fn name(&mut self) -> Result<String> {
        String::from_utf8(self.text()?).map_err(|_| corrupt(self.source, "a name is not UTF-8"))
    }

    pub(super) fn array(&mut self, tag: u32, shape: &[i64]) -> Result<Array> {
        let Some(&(_, dtype)) = SCALARS.iter().find(|(t, _)| *t == tag) else {
            return Err(corrupt(self.source, format_args!("metadata of unknown type {tag}")));
        };
        let n = stated_size("load_gguf", shape, dtype.size())? * dtype.size();
        let mut bytes = self.bytes(n as u64, "bytes of metadata")?;
        match dtype {
            Dtype::Bool => bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0)),
            Dtype::F64 => {
                let narrow =
                    |b: &[u8]| (f64::from_le_bytes(b.try_into().unwrap_or_default()) as f32).to_le_bytes();
                bytes = bytes.chunks_exact(8).flat_map(narrow).collect();
            }
            _ => {}
        }
        let made = if dtype == Dtype::F64 { Dtype::F32 } else { dtype };
        // SAFETY: the destination holds as many bytes as the elements of `made` take.
        ops::from_host(shape, made, |p| unsafe { p.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) })
    }

    pub(super) fn value(&mut self) -> Result<Value> {
        match self.u32()? {
            tag::STRING => self.text().map(Value::Text),
            tag::ARRAY => {
                let (tag, n) = (self.u32()?, self.u64()?);
                match tag {
                    tag::STRING => {
                        let n = self.expect(n, 8, "strings")?;
                        (0..n).map(|_| self.text()).collect::<Result<_>>().map(Value::Texts)
                    }
                    tag::ARRAY => bail!(Value, "[load_gguf] Only supports loading 1-layer of nested arrays."),
                    _ => {
                        let n = self.expect(n, 1, "elements")?;
                        self.array(tag, &[n as i64]).map(Value::Array)
                    }
                }
            }
            tag => self.array(tag, &[]).map(Value::Array),
        }
    }
}
