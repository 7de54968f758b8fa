//! GGUF, versions 2 and 3: key-value metadata, a table of tensors, then their bytes, which may be blocks of
//! quantised numbers. The parser is ours: the crates for the format are small and none of them bounds what a
//! hostile header may ask for. Here every count is held against the bytes that are left before anything is
//! allocated for it.

mod blocks;
mod write;

use std::collections::HashSet;
use std::sync::Arc;

pub use blocks::Blocks;
pub use write::Writer;

use super::Named;
use super::load::{self, Encoding, Place};
use super::source::Source;
use crate::bail;
use crate::core::{Array, Dtype, Error, Result};
use crate::io::stated_size;
use crate::ops;
use blocks::{Format, Part};

const MAGIC: &[u8; 4] = b"GGUF";
const ALIGNMENT: u64 = 32;
const ALIGNMENT_KEY: &str = "general.alignment";
const AXES_MAX: u32 = 8;
/// Bytes fetched at once while the header is parsed.
const CHUNK: usize = 1 << 18;

/// A value of the metadata. Strings may be any bytes.
pub enum Value {
    /// A scalar or one axis.
    Array(Array),
    /// A string.
    Text(Vec<u8>),
    /// A list of strings.
    Texts(Vec<Vec<u8>>),
}

/// Numbers that stand for types of metadata values.
mod tag {
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const FLOAT64: u32 = 12;
}

/// Element type of a metadata value, by its tag; float64 is kept as float32, as MLX does.
const SCALARS: [(u32, Dtype); 11] = [
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

/// Tensors whose elements are plain, by the number of their type.
const PLAIN: [(u32, Dtype); 5] =
    [(0, Dtype::F32), (1, Dtype::F16), (24, Dtype::I8), (25, Dtype::I16), (26, Dtype::I32)];

fn corrupt(source: &Source, why: impl std::fmt::Display) -> Error {
    Error::Runtime(format!("[load_gguf] Invalid GGUF in {}: {why}.", source.name()))
}

/// The header, read in order.
struct Header<'a> {
    source: &'a Source,
    at: u64,
    chunk: Vec<u8>,
    chunk_at: u64,
}

impl Header<'_> {
    fn left(&self) -> u64 {
        self.source.len() - self.at
    }

    /// Fails unless the file can hold `count` items of at least `size` bytes from here on.
    fn expect(&self, count: u64, size: u64, what: &str) -> Result<usize> {
        match count.checked_mul(size) {
            // FITS: not more than the file has.
            Some(n) if n <= self.left() => Ok(count as usize),
            _ => Err(corrupt(self.source, format_args!("{count} {what} do not fit the file"))),
        }
    }

    fn bytes(&mut self, n: u64, what: &str) -> Result<Vec<u8>> {
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

    fn u32(&mut self) -> Result<u32> {
        let b = self.bytes(4, "bytes")?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from(self.u32()?) | u64::from(self.u32()?) << 32)
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        let n = self.u64()?;
        self.bytes(n, "bytes of text")
    }

    fn name(&mut self) -> Result<String> {
        String::from_utf8(self.text()?).map_err(|_| corrupt(self.source, "a name is not UTF-8"))
    }

    fn array(&mut self, tag: u32, shape: &[i64]) -> Result<Array> {
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

    fn value(&mut self) -> Result<Value> {
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

/// A row of the table of tensors.
struct Tensor {
    name: String,
    shape: Vec<i64>,
    kind: u32,
    offset: u64,
}

impl Tensor {
    fn read(h: &mut Header) -> Result<Tensor> {
        let name = h.name()?;
        let axes = h.u32()?;
        if axes > AXES_MAX {
            return Err(corrupt(h.source, format_args!("tensor '{name}' has {axes} axes")));
        }
        let mut shape = Vec::new();
        for _ in 0..axes {
            let d = h.u64()?;
            shape.push(i64::try_from(d).map_err(|_| corrupt(h.source, "a dimension is too large"))?);
        }
        shape.reverse(); // the format names the fastest axis first
        Ok(Tensor { name, shape, kind: h.u32()?, offset: h.u64()? })
    }

    /// Fails unless `bytes` of data lie inside the file; their position.
    fn place(&self, source: &Source, data: u64, bytes: u64) -> Result<u64> {
        match data.checked_add(self.offset) {
            Some(at) if source.holds(at, bytes) => Ok(at),
            _ => bail!(
                Runtime,
                "[load_gguf] Tensor '{}' extends past the end of {}. Perhaps an incomplete download or corrupt \
                 file?",
                self.name,
                source.name()
            ),
        }
    }

    fn load(&self, source: &Arc<Source>, data: u64, place: Place, out: &mut Named) -> Result<()> {
        let count = stated_size("load_gguf", &self.shape, 8)? as u64;
        if let Some(&(_, dtype)) = PLAIN.iter().find(|(k, _)| *k == self.kind) {
            let at = self.place(source, data, count * dtype.size() as u64)?;
            let a = load::array(source, Encoding::Plain(at), None, &self.shape, dtype, place)?;
            out.push((self.name.clone(), a));
            return Ok(());
        }
        let Some(format) = Format::of(self.kind) else {
            bail!(Runtime, "[load_gguf] Tensor '{}' has unsupported type {}.", self.name, self.kind);
        };
        let last = self.shape.last().copied().unwrap_or(1);
        if last % format.elements() as i64 != 0 {
            bail!(Runtime, "[load_gguf] tensor {} has incompatible last dim shape: {last}", self.name);
        }
        let blocks = count / format.elements() as u64;
        let at = self.place(source, data, blocks * format.bytes() as u64)?;
        for &part in format.parts() {
            let (name, dtype, per_block) = match part {
                Part::Values => (self.name.clone(), Dtype::F16, format.elements()),
                Part::Weight => (self.name.clone(), Dtype::U32, format.packed_words()),
                Part::Scales => (self.sibling(".scales"), Dtype::F16, 1),
                Part::Biases => (self.sibling(".biases"), Dtype::F16, 1),
            };
            let mut shape = self.shape.clone();
            if let Some(d) = shape.last_mut() {
                *d = *d / format.elements() as i64 * per_block as i64;
            }
            let encoding = Encoding::Blocks(Blocks { format, part, start: at });
            out.push((name, load::array(source, encoding, None, &shape, dtype, place)?));
        }
        Ok(())
    }

    /// `layers.0.weight` -> `layers.0.scales`
    fn sibling(&self, suffix: &str) -> String {
        let stem = self.name.strip_suffix(".weight").unwrap_or(&self.name);
        format!("{stem}{suffix}")
    }
}

/// The arrays of a file and its metadata. 4-bit (Q4_0, Q4_1) and 8-bit (Q8_0) blocks become the packed
/// weight, scales and biases that MLX computes with; other blocks become float16.
pub fn load(source: &Arc<Source>, place: Place) -> Result<(Named, Vec<(String, Value)>)> {
    let mut h = Header { source, at: 0, chunk: Vec::new(), chunk_at: 0 };
    if h.bytes(4, "bytes")? != MAGIC {
        return Err(corrupt(source, "it does not begin with GGUF"));
    }
    let version = h.u32()?;
    if !(2..=3).contains(&version) {
        return Err(corrupt(source, format_args!("version {version} is not supported")));
    }
    let (tensors, keys) = (h.u64()?, h.u64()?);
    // The shortest tensor row has 24 bytes, the shortest pair 13.
    let (tensors, keys) = (h.expect(tensors, 24, "tensors")?, h.expect(keys, 13, "metadata keys")?);
    let mut alignment = ALIGNMENT;
    let mut metadata = Vec::new();
    for _ in 0..keys {
        let key = h.name()?;
        let value = h.value()?;
        if let (ALIGNMENT_KEY, Value::Array(a)) = (key.as_str(), &value)
            && a.dtype() == Dtype::U32
            && a.ndim() == 0
        {
            // SAFETY: a scalar made of host bytes.
            alignment = u64::from(unsafe { a.host_ptr()?.cast::<u32>().read_unaligned() });
        }
        metadata.push((key, value));
    }
    if !alignment.is_power_of_two() {
        return Err(corrupt(source, format_args!("the alignment is {alignment}")));
    }
    let table: Vec<Tensor> = (0..tensors).map(|_| Tensor::read(&mut h)).collect::<Result<_>>()?;
    let data = h.at.next_multiple_of(alignment);
    let mut arrays = Named::new();
    for t in &table {
        t.load(source, data, place, &mut arrays)?;
    }
    let mut seen = HashSet::new();
    for (name, _) in &arrays {
        if !seen.insert(name) {
            bail!(
                Runtime,
                "[load_gguf] Duplicate parameter name {name}; this can happen when loading quantized tensors."
            );
        }
    }
    Ok((arrays, metadata))
}
