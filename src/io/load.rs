//! The primitive behind every loaded array: its bytes are read, and decoded where the file holds them in
//! another form, when it is evaluated. On a GPU stream they go straight into staging memory, piece by piece.

use std::sync::Arc;

use super::source::Source;
use super::{gguf, npz};
use crate::bail;
use crate::core::dtype::make_truths;
use crate::core::layout::row_major;
use crate::core::{Array, Dtype, Primitive, Result, Shape, Stream};
use crate::{memory, on_gpu};

/// Where loaded arrays live.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The stream that was asked for, or the default one.
    pub stream: Stream,
    /// Where arrays go that `stream` cannot hold (float64 on a GPU); `None` when the caller insists.
    pub other: Option<Stream>,
}

impl Place {
    /// The stream for arrays of `dtype`.
    pub fn stream(&self, dtype: Dtype) -> Result<Stream> {
        match (self.stream.device.is_gpu() && dtype == Dtype::F64, self.other) {
            (false, _) => Ok(self.stream),
            (true, Some(s)) => Ok(s),
            (true, None) => bail!(Value, "[load] float64 is not supported on the GPU; use a CPU stream."),
        }
    }
}

/// How an array's bytes are found.
pub enum Encoding {
    /// As they are, from this position.
    Plain(u64),
    /// In a member of a zip archive.
    Member(npz::Member),
    /// In blocks of a GGUF tensor.
    Blocks(gguf::Blocks),
}

/// Fills destinations with the next bytes of an array, in order. Every destination but the last is a
/// multiple of 4096 bytes long, so that no scalar and no block is cut.
pub type Fill<'a> = Box<dyn FnMut(&mut [u8]) -> Result<()> + 'a>;

struct Load {
    source: Arc<Source>,
    encoding: Encoding,
    /// Size of the scalars that the file holds in the other byte order.
    swap: Option<usize>,
    dtype: Dtype,
}

impl Load {
    /// The bytes of the array, of which there are `n`. Nothing is allocated for those that a file lacks.
    fn open(&self, n: usize) -> Result<Fill<'_>> {
        let source = &*self.source;
        let fill: Fill<'_> = match &self.encoding {
            Encoding::Plain(start) => {
                source.require(*start, n as u64)?;
                let mut at = *start;
                Box::new(move |dst| {
                    source.read_at(at, dst)?;
                    at += dst.len() as u64;
                    Ok(())
                })
            }
            Encoding::Member(member) => member.open(&self.source)?,
            Encoding::Blocks(blocks) => blocks.open(source),
        };
        Ok(match self.swap {
            Some(size) => through(fill, move |part| part.chunks_exact_mut(size).for_each(<[u8]>::reverse)),
            None if self.dtype == Dtype::Bool => through(fill, make_truths),
            None => fill,
        })
    }
}

/// Changes bytes on the way: the destination may be memory that is slow to read.
fn through<'a>(mut fill: Fill<'a>, change: impl Fn(&mut [u8]) + 'a) -> Fill<'a> {
    let mut scratch = vec![0; 1 << 16];
    Box::new(move |dst| {
        for part in dst.chunks_mut(1 << 16) {
            let scratch = &mut scratch[..part.len()];
            fill(scratch)?;
            change(scratch);
            part.copy_from_slice(scratch);
        }
        Ok(())
    })
}

impl Primitive for Load {
    fn name(&self) -> &str {
        "load"
    }

    fn eval_cpu(&self, _: &[Array], outputs: &[Array]) -> Result<()> {
        let (out, n) = (&outputs[0], outputs[0].nbytes());
        let mut fill = if n > 0 { Some(self.open(n)?) } else { None };
        let storage = memory::host_storage(n)?;
        if let Some(fill) = &mut fill {
            // SAFETY: fresh memory of n bytes that nothing else knows of.
            fill(unsafe { std::slice::from_raw_parts_mut(storage.host_ptr_mut()?, n) })?;
        }
        // Only now: a read that failed shall leave an array that can be tried again.
        out.set_data(row_major(out.shape()), 0, storage);
        Ok(())
    }

    fn eval_gpu(&self, stream: Stream, _: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let out = &outputs[0];
            let storage = match out.nbytes() {
                0 => enc.output(0)?.0,
                n => enc.filled(n, &mut *self.open(n)?)?,
            };
            out.set_data(row_major(out.shape()), 0, storage);
            Ok(())
        })
    }
}

/// A row-major array of `shape` read from `source` when evaluated. Where its bytes are plain they need not all be
/// there: evaluation fails then. For other encodings the caller has checked. `swap` is the size of scalars that have the other byte order.
pub fn array(
    source: &Arc<Source>,
    encoding: Encoding,
    swap: Option<usize>,
    shape: &[i64],
    dtype: Dtype,
    place: Place,
) -> Result<Array> {
    super::stated_size("load", shape, dtype.size())?;
    let load = Load { source: source.clone(), encoding, swap, dtype };
    Array::lazy(Shape::from_slice(shape), dtype, load, vec![], place.stream(dtype)?)
}
