//! Host side of shaders/quantized/qmm_sums.comp: sums of picked products where those are made together for each matrix
//! (qmm_coop.comp with PICKS), and so stand in memory first.

use smallvec::SmallVec;

use super::push::Push;
use super::qmm_joined::{self, Combined, Joined, define_after};
use super::quant::{define_format, show as show_format};
use crate::core::{Dtype, Result};
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::kernels::quantized::quant::Format;
use crate::vulkan::kernels::elem::{self, Defines, GridPush, define, launch};
use crate::vulkan::kernels::matmul::ceil;
use crate::vulkan::kernels::progress;
use crate::vulkan::tune::quantized::picked::{self, SUM_LANES};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    format: Format,
    dtype: Dtype,
    /// Length of a row, picks of a sum, and neighbours that a lane has.
    n: u32,
    each: u32,
    own: u32,
    after: Option<KeptAfter>,
    /// Something is added to each product.
    biased: bool,
    /// Weights are float32.
    wide: bool,
    /// It begins while the commands before it end.
    early: bool,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let after = self.after.as_ref().map_or(String::new(), |f| format!("_{}", f.program.name()));
        let wide = if self.wide { "_wide" } else { "" };
        let (format, dtype) = (show_format(self.format), self.dtype);
        let biased = if self.biased { "_biased" } else { "" };
        format!("qmm_sums_{format}_{dtype}_{}_{}{biased}{wide}{after}", self.each, self.own)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        elem::float_controls(&mut d, f);
        define_format(&mut d, self.format, self.dtype);
        let lanes = ("THREADS", SUM_LANES as u32);
        let numbers = [("JOINED", 1), ("TRANSPOSE", 1), ("COMBINED", self.each), ("OWN", self.own), lanes];
        numbers.iter().for_each(|(name, v)| define(&mut d, name, v));
        let flags = [(self.early, "PROGRESS"), (self.biased, "BIASED"), (self.wide, "WIDE")];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        if let Some(after) = &self.after {
            define_after(&mut d, after);
        }
        let spec = vec![1, self.n, 1, 1, 0];
        Module { source: Source::File("qmm_sums.comp"), defines: d, spec, ..Module::default() }
    }
}

/// Records the products of `j`, and their sums.
pub(super) fn run(
    enc: &mut CommandEncoder,
    j: &Joined,
    c: Combined,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<()> {
    // INVARIANT: sums are of picks by quantised matrices.
    let (picks, format) = (j.picks.expect("picks"), j.format.expect("a format"));
    let (n, size) = (j.matrices[0].rows, j.dtype.size() as i64);
    let bytes = picks.count * n * size;
    let made = (enc.temp((bytes as usize).next_multiple_of(16))?, bytes as u64);
    let products = Joined { after: None, combined: None, added: &[], results: &[made.0], ..*j };
    qmm_joined::run(enc, &products, reads, &[made])?;
    let own = picked::summed(enc.device().profile(), n, picks.count / c.each, size);
    let results = n * (picks.count / c.each);
    let groups = ceil(results / own, SUM_LANES) as u64;
    let early = progress::shaders(enc.device().profile(), groups, size_of::<Push>());
    let key = Key {
        format,
        dtype: j.dtype,
        n: n as u32,
        each: c.each as u32,
        own: own as u32,
        after: j.after,
        biased: !j.added.is_empty(),
        wide: c.wide,
        early,
    };
    let mut push =
        Push { x: made.0, norm: c.weights, rows: (picks.count / c.each) as u32, ..Push::default() };
    if let &[table] = j.added {
        push.sums = table;
        push.pick(&picks);
    }
    push.parts[3][..j.results.len()].copy_from_slice(j.results);
    let pipeline = enc.device().pipeline(&key)?;
    enc.describe(2.0 * (results * c.each) as f64, &[picks.count / c.each, c.each, n]);
    let mut all: SmallVec<[(u64, u64); 16]> = SmallVec::from_slice(reads);
    all.push(made);
    if early {
        let late: SmallVec<[u64; 16]> = all.iter().map(|r| r.0).collect();
        // FITS: there are few of them.
        return enc.dispatch_early(&pipeline, push.bytes(), [groups as u32, 1, 1], [&all, writes], &late);
    }
    launch(enc, &pipeline, push, groups, 1, 1, &all, writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::quantized::quant::Mode;
    use crate::vulkan::shader::compiler;

    #[test]
    fn sums_compile() {
        for (mode, group, bits) in [(Mode::Affine, 64, 4), (Mode::Mxfp4, 32, 4)] {
            let format = Format::new("test", mode, group, bits).unwrap();
            for (dtype, own) in [
                (Dtype::BF16, 8),
                (Dtype::BF16, 2),
                (Dtype::F16, 4),
                (Dtype::F16, 1),
                (Dtype::F32, 4),
                (Dtype::F32, 2),
            ] {
                for biased in [false, true] {
                    let (wide, early) = (own == 2, own > 2);
                    let key = Key { format, dtype, n: 64, each: 8, own, after: None, biased, wide, early };
                    compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
                }
            }
        }
    }
}
