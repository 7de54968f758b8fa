//! Writing GGUF, version 3: plain tensors of the five types that MLX writes, and metadata.

use std::io::{self, Write};

use super::header::{SCALARS, tag};
use super::{ALIGNMENT, ALIGNMENT_KEY, AXES_MAX, MAGIC, PLAIN, Value};
use crate::bail;
use crate::core::{Dtype, Result};
use crate::io::save::Dense;

const VERSION: u32 = 3;

/// A file ready to be written.
pub struct Writer {
    header: Vec<u8>,
    alignment: u64,
    arrays: Vec<Dense>,
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}

fn tag_of(dtype: Dtype) -> Result<u32> {
    match SCALARS.iter().find(|(tag, d)| *d == dtype && *tag != tag::FLOAT64) {
        Some((tag, _)) => Ok(*tag),
        None => bail!(Value, "[save_gguf] array type {dtype} not supported for metadata."),
    }
}

impl Writer {
    /// Checks types and makes the header.
    pub fn new(arrays: Vec<(String, Dense)>, metadata: &[(String, Value)]) -> Result<Writer> {
        let mut header = Vec::new();
        let mut alignment = ALIGNMENT;
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend((arrays.len() as u64).to_le_bytes());
        header.extend((metadata.len() as u64).to_le_bytes());
        for (key, value) in metadata {
            text(&mut header, key.as_bytes());
            if let Some(a) = pair(&mut header, value)?
                && key == ALIGNMENT_KEY
            {
                alignment = alignment_of(&a)?;
            }
        }
        let mut at = 0u64;
        for (name, a) in &arrays {
            let Some((kind, _)) = PLAIN.iter().find(|(_, d)| *d == a.dtype()) else {
                bail!(Runtime, "[save_gguf] dtype {} is not supported", a.dtype());
            };
            if a.shape().len() > AXES_MAX as usize {
                bail!(Runtime, "[save_gguf] '{name}' has {} axes, more than {AXES_MAX}.", a.shape().len());
            }
            text(&mut header, name.as_bytes());
            // FITS: at most AXES_MAX.
            header.extend((a.shape().len() as u32).to_le_bytes());
            header.extend(a.shape().iter().rev().flat_map(|d| d.to_le_bytes()));
            header.extend(kind.to_le_bytes());
            header.extend(at.to_le_bytes());
            at = (at + a.bytes().len() as u64).next_multiple_of(alignment);
        }
        let padded = (header.len() as u64).next_multiple_of(alignment);
        // FITS: padded by less than the alignment.
        header.resize(padded as usize, 0);
        Ok(Writer { header, alignment, arrays: arrays.into_iter().map(|(_, a)| a).collect() })
    }

    /// Writes the file.
    pub fn write(&self, w: &mut dyn Write) -> io::Result<()> {
        w.write_all(&self.header)?;
        for (i, a) in self.arrays.iter().enumerate() {
            let n = a.bytes().len() as u64;
            a.write(w)?;
            if i + 1 < self.arrays.len() {
                io::copy(&mut io::Read::take(io::repeat(0), n.next_multiple_of(self.alignment) - n), w)?;
            }
        }
        Ok(())
    }
}

/// Appends type and value; the array, if it is one.
fn pair(header: &mut Vec<u8>, value: &Value) -> Result<Option<Dense>> {
    match value {
        Value::Text(bytes) => {
            header.extend(tag::STRING.to_le_bytes());
            text(header, bytes);
            Ok(None)
        }
        Value::Texts(all) => {
            header.extend(tag::ARRAY.to_le_bytes());
            header.extend(tag::STRING.to_le_bytes());
            header.extend((all.len() as u64).to_le_bytes());
            all.iter().for_each(|bytes| text(header, bytes));
            Ok(None)
        }
        Value::Array(a) => {
            if a.ndim() > 1 {
                bail!(Runtime, "[save_gguf] Cannot save arrays with more than one dimension.");
            }
            if a.size() == 0 {
                bail!(Runtime, "[save_gguf] Cannot save empty arrays.");
            }
            let tag = tag_of(a.dtype())?;
            if a.ndim() == 1 {
                header.extend(tag::ARRAY.to_le_bytes());
                header.extend(tag.to_le_bytes());
                header.extend((a.size() as u64).to_le_bytes());
            } else {
                header.extend(tag.to_le_bytes());
            }
            let dense = Dense::all([a], false)?.pop();
            if let Some(d) = &dense {
                header.extend(d.bytes());
            }
            Ok(dense)
        }
    }
}

fn alignment_of(a: &Dense) -> Result<u64> {
    let value = match (a.dtype(), a.bytes().try_into()) {
        (Dtype::U32, Ok(bytes)) => u64::from(u32::from_le_bytes(bytes)),
        _ => 0,
    };
    if !value.is_power_of_two() {
        bail!(Value, "[save_gguf] '{ALIGNMENT_KEY}' must be a uint32 scalar that is a power of two.");
    }
    Ok(value)
}
