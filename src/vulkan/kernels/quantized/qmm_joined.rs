//! Host side of shaders/quantized/qmm_rows.comp for one row of x and several quantised matrices, or with what comes before or
//! after the product: the row is normalised first, matrices follow each other in one grid, and a program of elementwise
//! operations takes the results before they are stored. Numbers are rounded where separate kernels would round them.

use super::quant::{define_format, show as show_format};
use crate::core::{Dtype, Result, Stream};
use crate::kernels::matmul::epilogue::{KeptAfter, MATRICES};
use crate::kernels::quantized::quant::Format;
use crate::vulkan::hal::stream::StreamState;
use crate::vulkan::kernels::elem::{self, Defines, define};
use crate::vulkan::kernels::matmul::ceil;
use crate::vulkan::kernels::matmul::fragment_probe;
use crate::vulkan::report::stats::STATS;
use crate::vulkan::tune::fusion::{joins_products, row_product};
use crate::vulkan::tune::matmul::summing_subgroup;
use crate::vulkan::tune::quantized::{Variant, layout_of_rows, stage};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

/// A quantised matrix with a row of codes for each result.
pub struct Matrix {
    /// Rows of codes.
    pub rows: i64,
    /// Addresses of packed codes, scales and biases (0 where the format has none).
    pub parts: [u64; 3],
}

/// A row of x times matrices.
pub struct Joined<'a> {
    /// How the codes are read.
    pub format: Format,
    /// Of x and of the results.
    pub dtype: Dtype,
    /// Length of x.
    pub k: i64,
    /// Address of x, aligned to 16 bytes.
    pub x: u64,
    /// Address of weights, aligned to 16 bytes, and the epsilon that x is normalised with.
    pub norm: Option<(u64, f32)>,
    /// At most [`MATRICES`].
    pub matrices: &'a [Matrix],
    /// What becomes of the results of one matrix, or of two of the same length.
    pub after: Option<KeptAfter>,
    /// Addresses of the results, one for each matrix; with `after` that of the only result, and of what it reads.
    pub results: &'a [u64],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    format: Format,
    dtype: Dtype,
    threads: u32,
    rows: u32,
    unit: u32,
    aligned: bool,
    norm: Option<u32>,
    k: u32,
    lengths: [u32; MATRICES],
    after: Option<KeptAfter>,
}

impl Key {
    fn matrices(&self) -> usize {
        self.lengths.iter().filter(|&&n| n > 0).count()
    }
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let (format, size) = (show_format(self.format), format!("{}x{}", self.threads, self.rows));
        let before = if self.norm.is_some() { "norm_" } else { "" };
        let after = self.after.as_ref().map_or(String::new(), |f| format!("_{}", f.program.name()));
        format!("qmm_joined_{before}{format}_{}_{size}_{}{after}", self.dtype, self.matrices())
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        define_format(&mut d, self.format, self.dtype);
        let pair = self.after.is_some() && self.matrices() == 2;
        let numbers = [
            ("JOINED", self.matrices() as u32),
            ("TRANSPOSE", 1),
            ("TPR", self.threads),
            ("R", self.rows),
            ("VECTORS", 1),
            ("UNIT", self.unit),
            ("STAGE", stage(f)),
        ];
        numbers.iter().for_each(|(name, v)| define(&mut d, name, v));
        let flags = [(self.aligned, "ALIGNED"), (self.norm.is_some(), "NORM"), (pair, "PAIR")];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        let mut subgroup_size = None;
        if let Some(s) = summing_subgroup(f, self.threads) {
            define(&mut d, "SUBGROUP", s);
            subgroup_size = f.subgroup_size_control.then_some(s);
        }
        if let Some(after) = &self.after {
            let code = after.function("after");
            if code.contains("m_") {
                define(&mut d, "AFTER_MATH", 1);
            }
            define(&mut d, "AFTER", code);
            elem::float_controls(&mut d, f);
        }
        let lengths = self.lengths.map(|n| n.max(1));
        let spec = [self.k].into_iter().chain(lengths).chain([self.norm.unwrap_or(0)]).collect();
        Module { source: Source::File("qmm_rows.comp"), defines: d, spec, subgroup_size, ..Module::default() }
    }
}

/// Whether the rows' kernel would multiply a row of length `k` by a matrix with so many rows of codes.
pub fn suits(stream: Stream, format: Format, dtype: Dtype, k: i64, rows: i64) -> bool {
    let Ok(state) = StreamState::of(stream) else { return false };
    let known = |cols| fragment_probe::known(state.device, dtype, cols);
    joins_products(state.device.profile(), format, dtype, k, rows, &known)
}

/// Records the products; `reads` and `writes` are all ranges that they touch.
pub fn run(enc: &mut CommandEncoder, j: &Joined, reads: &[(u64, u64)], writes: &[(u64, u64)]) -> Result<()> {
    let (f, profile) = (enc.device().features(), enc.device().profile());
    let total: i64 = j.matrices.iter().map(|m| m.rows).sum();
    let pair = j.after.is_some() && j.matrices.len() == 2;
    let unit = if j.k % 32 == 0 { 32 } else { 16 };
    let (mut threads, mut rows) =
        layout_of_rows(profile, &row_product(j.format, j.dtype, j.k, total), j.k / unit, 1);
    // x goes through shared memory.
    let most = stage(f) / (unit as u32 * j.dtype.size() as u32);
    while j.norm.is_some() && threads > most {
        threads /= 2;
    }
    if pair {
        rows = rows.max(2);
    }
    let mut key = Key {
        format: j.format,
        dtype: j.dtype,
        threads,
        rows,
        unit: unit as u32,
        aligned: j.matrices.iter().all(|m| m.parts[0].is_multiple_of(16)),
        norm: j.norm.map(|n| n.1.to_bits()),
        k: j.k as u32,
        lengths: [0; MATRICES],
        after: j.after,
    };
    let mut parts = [[0u64; MATRICES]; 4];
    for (i, m) in j.matrices.iter().enumerate() {
        key.lengths[i] = m.rows as u32;
        (parts[0][i], parts[1][i], parts[2][i]) = m.parts.into();
        STATS.quantized(
            Variant::Rows { threads, rows, vectors: 1, unit: 0 }.number(),
            1,
            j.k / i64::from(j.format.group),
        );
    }
    parts[3][..j.results.len()].copy_from_slice(j.results);
    let mut push = [0u64; 2 + 4 * MATRICES];
    (push[0], push[1]) = (j.x, j.norm.map_or(0, |n| n.0));
    for (to, from) in push[2..].chunks_exact_mut(MATRICES).zip(&parts) {
        to.copy_from_slice(from);
    }
    // SAFETY: any number is bytes.
    let bytes = unsafe { std::slice::from_raw_parts(push.as_ptr().cast::<u8>(), size_of_val(&push)) };
    let span = i64::from(256 / threads * rows);
    let groups = match pair {
        true => ceil(total, span),
        false => j.matrices.iter().map(|m| ceil(m.rows, span)).sum(),
    };
    enc.describe(2.0 * total as f64 * j.k as f64, &[1, 1, total, j.k]);
    let pipeline = enc.device().pipeline(&key)?;
    enc.dispatch(&pipeline, bytes, [groups as u32, 1, 1], reads, writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::elementwise::table::find;
    use crate::kernels::matmul::epilogue::{After, Origin};
    use crate::kernels::quantized::quant::Mode;
    use crate::kernels::{Inst, Instr, Program, Src};
    use crate::vulkan::shader::compiler;
    use smallvec::smallvec;

    #[test]
    fn every_format_compiles_with_what_comes_before_and_after() {
        let affine = [2, 3, 4, 8].map(|bits| (Mode::Affine, 64, bits));
        let (sigmoid, multiply) = (find("sigmoid").unwrap(), find("multiply").unwrap());
        for (mode, group, bits) in
            affine.into_iter().chain([(Mode::Mxfp4, 32, 4), (Mode::Mxfp8, 32, 8), (Mode::Nvfp4, 16, 4)])
        {
            let format = Format::new("test", mode, group, bits).unwrap();
            for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
                let instr = |op, args: &[Src]| Instr { op: Inst::Op(op), args: args.into(), dtype };
                let program = Program {
                    inputs: smallvec![dtype; 2],
                    instrs: smallvec![
                        instr(sigmoid, &[Src::Input(0)]),
                        instr(multiply, &[Src::Reg(0), Src::Input(1)]),
                    ],
                    outputs: smallvec![1],
                };
                for (lengths, from) in [
                    ([64, 32, 16], None),
                    ([64, 0, 0], Some(Origin::Array(0))),
                    ([64, 64, 0], Some(Origin::Product(1))),
                ] {
                    let after = from.and_then(|f| {
                        After { program: program.clone(), inputs: smallvec![Origin::Product(0), f] }.kept()
                    });
                    assert_eq!(after.is_some(), from.is_some());
                    let key = Key {
                        format,
                        dtype,
                        threads: 32,
                        rows: 2,
                        unit: 32,
                        aligned: true,
                        norm: after.is_none().then_some(0),
                        k: 256,
                        lengths,
                        after,
                    };
                    compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
                }
            }
        }
    }
}
