//! The table of tensors: what a file says of each, checked, and its array.

use std::sync::Arc;

use super::blocks::{Blocks, Format, Part};
use super::{AXES_MAX, Header, PLAIN, corrupt};
use crate::bail;
use crate::core::{Dtype, Result};
use crate::io::Named;
use crate::io::load::{self, Encoding, Place};
use crate::io::source::Source;
use crate::io::stated_size;

/// A row of the table of tensors.
pub(super) struct Tensor {
    name: String,
    shape: Vec<i64>,
    kind: u32,
    offset: u64,
}

impl Tensor {
    pub(super) fn read(h: &mut Header) -> Result<Tensor> {
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
    pub(super) fn place(&self, source: &Source, data: u64, bytes: u64) -> Result<u64> {
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

    pub(super) fn load(&self, source: &Arc<Source>, data: u64, place: Place, out: &mut Named) -> Result<()> {
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
    pub(super) fn sibling(&self, suffix: &str) -> String {
        let stem = self.name.strip_suffix(".weight").unwrap_or(&self.name);
        format!("{stem}{suffix}")
    }
}
