//! The safetensors format: a JSON header, checked by the `safetensors` crate (no gaps, no overlaps, sizes
//! that fit shapes), then the bytes of all tensors.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use safetensors::Dtype as Stored;
use safetensors::tensor::{Metadata, TensorInfo};

use super::Named;
use super::load::{self, Encoding, Place};
use super::save::Dense;
use super::source::Source;
use crate::bail;
use crate::core::{Dtype, Error, Result};

/// The longest header taken, as in other readers of the format.
const HEADER_MAX: u64 = 100_000_000;

/// The arrays of a file in the order of their bytes, and the metadata.
pub fn load(source: &Arc<Source>, place: Place) -> Result<(Named, HashMap<String, String>)> {
    let mut len = [0; 8];
    source.read_at(0, &mut len)?;
    let len = u64::from_le_bytes(len);
    if len > HEADER_MAX || !source.holds(8, len) {
        bail!(Runtime, "[load_safetensors] Invalid json header length {len} in {}.", source.name());
    }
    // FITS: at most HEADER_MAX, and the file has as many.
    let mut text = vec![0; len as usize];
    source.read_at(8, &mut text)?;
    let header: Metadata = serde_json::from_slice(&text).map_err(|e| {
        Error::Runtime(format!("[load_safetensors] Invalid json header in {}: {e}.", source.name()))
    })?;
    let start = 8 + len;
    if !source.holds(start, header.data_len() as u64) {
        bail!(
            Runtime,
            "[load_safetensors] Tensors of {} bytes exceed the size of {}, {} bytes. Perhaps an incomplete \
             download or corrupt file?",
            header.data_len(),
            source.name(),
            source.len()
        );
    }
    let mut arrays = Named::new();
    for name in header.offset_keys() {
        // INVARIANT: the name is one of the header's own.
        let info = header.info(&name).expect("a tensor of the header");
        let dtype = loaded_as(info.dtype)?;
        let shape: Vec<i64> = info.shape.iter().map(|&d| i64::try_from(d).unwrap_or(i64::MAX)).collect();
        let encoding = Encoding::Plain(start + info.data_offsets.0 as u64);
        let a = load::array(source, encoding, None, &shape, dtype, place)?;
        arrays.push((name, a));
    }
    Ok((arrays, header.metadata().clone().unwrap_or_default()))
}

/// 8-bit floats of the two kinds that MLX has functions for come as their bits.
fn loaded_as(dtype: Stored) -> Result<Dtype> {
    Ok(match dtype {
        Stored::BOOL => Dtype::Bool,
        Stored::U8 | Stored::F8_E4M3 | Stored::F8_E8M0 => Dtype::U8,
        Stored::U16 => Dtype::U16,
        Stored::U32 => Dtype::U32,
        Stored::U64 => Dtype::U64,
        Stored::I8 => Dtype::I8,
        Stored::I16 => Dtype::I16,
        Stored::I32 => Dtype::I32,
        Stored::I64 => Dtype::I64,
        Stored::F16 => Dtype::F16,
        Stored::BF16 => Dtype::BF16,
        Stored::F32 => Dtype::F32,
        Stored::C64 => Dtype::C64,
        other => bail!(Runtime, "[load_safetensors] Unsupported dtype {other}."),
    })
}

fn saved_as(dtype: Dtype) -> Result<Stored> {
    Ok(match dtype {
        Dtype::Bool => Stored::BOOL,
        Dtype::U8 => Stored::U8,
        Dtype::U16 => Stored::U16,
        Dtype::U32 => Stored::U32,
        Dtype::U64 => Stored::U64,
        Dtype::I8 => Stored::I8,
        Dtype::I16 => Stored::I16,
        Dtype::I32 => Stored::I32,
        Dtype::I64 => Stored::I64,
        Dtype::F16 => Stored::F16,
        Dtype::BF16 => Stored::BF16,
        Dtype::F32 => Stored::F32,
        Dtype::C64 => Stored::C64,
        Dtype::F64 => bail!(Runtime, "[save_safetensors] dtype float64 is not supported."),
    })
}

/// A file ready to be written.
pub struct Writer {
    header: Vec<u8>,
    arrays: Vec<Dense>,
}

impl Writer {
    /// Puts arrays in the order of the format (wide elements first, then names) and makes the header.
    pub fn new(arrays: Vec<(String, Dense)>, metadata: Option<HashMap<String, String>>) -> Result<Writer> {
        let mut all = Vec::with_capacity(arrays.len());
        for (name, a) in arrays {
            if name == "__metadata__" {
                bail!(Runtime, "[save_safetensors] The name '__metadata__' is reserved.");
            }
            all.push((saved_as(a.dtype())?, name, a));
        }
        all.sort_by(|x, y| (y.0, &x.1).cmp(&(x.0, &y.1)));
        let mut infos = Vec::with_capacity(all.len());
        let mut arrays = Vec::with_capacity(all.len());
        let mut at = 0;
        for (dtype, name, a) in all {
            let end = at + a.bytes().len();
            // FITS: a dimension of an array.
            let shape = a.shape().iter().map(|&d| d as usize).collect();
            infos.push((name, TensorInfo { dtype, shape, data_offsets: (at, end) }));
            arrays.push(a);
            at = end;
        }
        let invalid = |e: &dyn std::fmt::Display| Error::Runtime(format!("[save_safetensors] {e}."));
        let header = Metadata::new(metadata, infos).map_err(|e| invalid(&e))?;
        let mut header = serde_json::to_vec(&header).map_err(|e| invalid(&e))?;
        // Spaces let the tensors begin at a multiple of 8 bytes.
        header.resize(header.len().next_multiple_of(8), b' ');
        if header.len() as u64 > HEADER_MAX {
            bail!(Runtime, "[save_safetensors] The header of {} bytes is too long.", header.len());
        }
        Ok(Writer { header, arrays })
    }

    /// Writes the file.
    pub fn write(&self, w: &mut dyn Write) -> io::Result<()> {
        w.write_all(&(self.header.len() as u64).to_le_bytes())?;
        w.write_all(&self.header)?;
        self.arrays.iter().try_for_each(|a| a.write(w))
    }
}
