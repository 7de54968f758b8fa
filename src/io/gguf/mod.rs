//! GGUF, versions 2 and 3: key-value metadata, a table of tensors, then their bytes, which may be blocks of
//! quantised numbers. The parser is ours: the crates for the format are small and none of them bounds what a
//! hostile header may ask for. Here every count is held against the bytes that are left before anything is
//! allocated for it.

mod blocks;
mod decode;
mod header;
mod tensors;
mod write;

use std::collections::HashSet;
use std::sync::Arc;

use self::header::Header;
use self::tensors::Tensor;
use super::Named;
use super::load::Place;
use super::source::Source;
use crate::bail;
use crate::core::{Array, Dtype, Error, Result};

pub use blocks::Blocks;
pub use write::Writer;

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

/// Tensors whose elements are plain, by the number of their type.
const PLAIN: [(u32, Dtype); 5] =
    [(0, Dtype::F32), (1, Dtype::F16), (24, Dtype::I8), (25, Dtype::I16), (26, Dtype::I32)];

fn corrupt(source: &Source, why: impl std::fmt::Display) -> Error {
    Error::Runtime(format!("[load_gguf] Invalid GGUF in {}: {why}.", source.name()))
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
