//! The operands of products on warpgroups: read as they lie, copied so that they can be, or brought into the image that the copy
//! engine fetches (shaders/warpgroup/warpgroup_image.comp).

use smallvec::SmallVec;

use super::super::{Operand, ceil, compact, round_up};
use super::program::{ROWS, STEP};
use crate::core::{Dtype, Result};
use crate::vulkan::kernels::elem::{Defines, Push, define};
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::{CommandEncoder, Features};

/// warpgroup_image.comp: K is contiguous, 16-byte loads, rows as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ImageKey {
    pub along: bool,
    pub wide: bool,
    pub plain: bool,
    /// Tiles of runs of rows.
    pub runs: bool,
    /// The other side is codes.
    pub codes: bool,
}

impl KernelKey for ImageKey {
    fn name(&self) -> String {
        let form = if self.plain { "plain" } else { "image" };
        let order = [(self.codes, "_codes"), (self.runs, "_runs")];
        let order: String = order.iter().filter(|o| o.0).map(|o| o.1).collect();
        format!("matmul_warpgroup_{form}_{}{order}", if self.along { "along" } else { "across" })
    }

    fn module(&self, _: &Features) -> Module {
        let mut defines = Defines::new();
        let forms = [("ALONG", self.along), ("WIDE", self.wide), ("PLAIN", self.plain)];
        for (name, on) in forms.into_iter().chain([("RUNS", self.runs), ("CODES", self.codes)]) {
            if on {
                define(&mut defines, name, 1);
            }
        }
        Module { source: Source::File("warpgroup_image.comp"), defines, ..Default::default() }
    }
}

/// The order of K in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vulkan) enum Order {
    /// As threads have rows of elements of the other side.
    Dealt,
    /// As they have rows of codes.
    Codes,
}

/// Rows of K elements each, from one side of a product.
pub(in crate::vulkan) struct Side<'a> {
    pub o: Operand,
    pub rows: i64,
    pub k: i64,
    pub batch: &'a [i64],
    pub dtype: Dtype,
}

/// What the copy engine or threads fetch: address, bytes that steps between matrices are counted in, all that is read.
pub(in crate::vulkan) struct Image {
    pub ptr: u64,
    pub matrix: u64,
    pub range: (u64, u64),
}

impl Side<'_> {
    /// Whether K is contiguous, and how far apart rows are; else the other way round.
    pub fn form(&self) -> (bool, i64) {
        // INVARIANT: `solve` brought both operands into a form.
        let (turned, ld) = self.o.form(self.rows, self.k).unwrap_or((false, 0));
        (!turned, ld)
    }

    /// Whether the kernel reads it as it lies.
    pub fn direct(&self) -> bool {
        let (along, ld) = self.form();
        along && self.k % 8 == 0 && self.o.aligned(self.dtype, ld)
    }

    /// Whether the kernel reads it as it lies on the side whose columns are beside each other.
    pub fn across(&self) -> bool {
        let (along, ld) = self.form();
        !along && self.rows % 8 == 0 && self.o.aligned(self.dtype, ld)
    }

    /// Length and stride of the inner and the outer batch axis; one where nothing moves.
    fn axes(&self) -> [(i64, i64); 2] {
        [0, 1].map(|i| match (self.batch.iter().rev().nth(i), self.o.batch.iter().rev().nth(i)) {
            (Some(&d), Some(&s)) if s != 0 && d > 1 => (d, s),
            _ => (1, 0),
        })
    }

    pub fn matrices(&self) -> i64 {
        self.axes().iter().map(|a| a.0).product()
    }

    /// Steps from matrix to matrix, of `unit` each, for both batch axes.
    pub fn steps(&self, unit: i64) -> [u32; 2] {
        let [(d0, _), (d1, _)] = self.axes();
        // FITS: counts of matrices, or `compact` made them.
        [if d0 > 1 { unit } else { 0 }, if d1 > 1 { unit * d0 } else { 0 }].map(|s| s as u32)
    }

    /// Launches warpgroup_image.comp into `to`, in one of its forms.
    fn pack(
        &self,
        enc: &mut CommandEncoder,
        [plain, codes]: [bool; 2],
        tile: u32,
        steps: u32,
        to: (u64, u64),
    ) -> Result<()> {
        let (along, ld) = self.form();
        let wide = self.o.aligned(self.dtype, ld);
        let pipeline = enc.device().pipeline(&ImageKey { along, wide, plain, runs: false, codes })?;
        let out_ld = round_up(self.k, 8);
        let [(d0, s0), (d1, s1)] = self.axes();
        let numbers = [self.rows, self.k, ld, tile.into(), steps.into(), out_ld, d0, s0, s1];
        // FITS: `solve` cut what does not fit 32 bits.
        let push = Push::default().u64s(&[self.o.ptr, to.0]).u32s(&numbers.map(|n| n as u32));
        let (padded, blocks) = (round_up(self.rows, tile.into()), ceil(steps.into(), 2));
        let grid = match (plain, along) {
            (false, true) => [ceil(padded, 64), ceil(blocks, 4), d0 * d1],
            // Tiles are 64, 128, 192 or 256 rows.
            (false, false) => [padded / i64::from(tile), ceil(blocks, 512 / i64::from(tile)), d0 * d1],
            (true, _) => [ceil(self.rows, 256), ceil(out_ld, 64), d0 * d1],
        };
        // FITS: grids of fewer rows than 2^31 by parts of 64 and more; whoever asks bounds the batch.
        enc.dispatch(&pipeline, &push, grid.map(|n| n as u32), &[self.o.range], &[to])
    }

    /// The image, with so many steps of K, its elements in an order.
    pub fn image(&self, enc: &mut CommandEncoder, tile: u32, steps: u32, order: Order) -> Result<Image> {
        let matrix = round_up(self.rows, tile.into()) as u64 * u64::from(steps * STEP) * 2;
        let bytes = matrix * self.matrices() as u64;
        let ptr = enc.temp(bytes as usize)?;
        let image = Image { ptr, matrix, range: (ptr, bytes) };
        self.pack(enc, [false, order == Order::Codes], tile, steps, image.range)?;
        Ok(image)
    }

    /// An operand whose rows the kernel reads as they lie.
    pub fn rows_of_k(&self, enc: &mut CommandEncoder) -> Result<Operand> {
        if self.direct() {
            return Ok(self.o.clone());
        }
        let (along, _) = self.form();
        if along {
            return compact(enc, self.dtype, &self.o, self.rows, self.k, self.batch, 8);
        }
        let ld = round_up(self.k, 8);
        let bytes = (self.matrices() * self.rows * ld * 2) as u64;
        let block = (enc.temp(bytes as usize)?, bytes);
        self.pack(enc, [true, false], ROWS, 0, block)?;
        let steps = self.steps(self.rows * ld).map(i64::from);
        let mut batch: SmallVec<[i64; 4]> = SmallVec::from_elem(0, self.o.batch.len());
        batch.iter_mut().rev().zip(steps).for_each(|(to, s)| *to = s);
        Ok(Operand { ptr: block.0, rs: ld, cs: 1, batch, range: block })
    }
}
