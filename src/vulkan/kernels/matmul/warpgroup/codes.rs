//! Products of rows with codes of four bits, which are decoded in registers on their way into the matrix units: weights are read as
//! they are. Called by `quantized`; what dequantises the weights first is the twin, with the same bits (MLX_VK_DISABLE=qmm_warpgroup).

use super::after::{After, AfterArgs};
use super::image::{Order, Side};
use super::program::{Args, Left, Program, ROWS, Right, Store};
use super::text::Told;
use super::{TOGETHER, room, table};
use crate::core::Result;
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::matmul::{Problem, ceil};
use crate::vulkan::tune::warpgroup::Plan;

/// Right matrices whose rows lie along K: the first address and the bytes that they have, bytes from one to the next, and from row
/// to row elements, or words of codes.
#[derive(Debug, Clone, Copy)]
pub struct Rights {
    pub ptr: u64,
    pub range: (u64, u64),
    pub step: i64,
    pub ld: i64,
    pub count: i64,
    /// Of codes.
    pub factors: Option<Factors>,
}

/// Scales and biases of codes: as in [`Rights`], elements of a group.
#[derive(Debug, Clone, Copy)]
pub struct Factors {
    pub scales: (u64, u64),
    pub biases: (u64, u64),
    pub step: i64,
    pub ld: i64,
    pub group: u32,
}

impl Rights {
    pub fn left(&self) -> Left {
        self.factors.map_or(Left::Values, |f| Left::Codes(f.group))
    }

    pub fn order(&self) -> Order {
        if self.factors.is_some() { Order::Codes } else { Order::Dealt }
    }

    /// Everything that is read.
    pub fn reads(&self) -> Vec<(u64, u64)> {
        let factors = self.factors.iter().flat_map(|f| [f.scales, f.biases]);
        [self.range].into_iter().chain(factors).collect()
    }

    /// The kernel's arguments, as far as they are of these matrices.
    pub fn args(&self) -> Args {
        let mut args = Args {
            left: self.ptr,
            // FITS: whoever makes these asked for fewer.
            lda: self.ld as u32,
            left_step: self.step as u64,
            together: TOGETHER,
            nb0: 1,
            ..Args::default()
        };
        if let Some(f) = self.factors {
            (args.scales, args.biases) = (f.scales.0, f.biases.0);
            (args.scale_step, args.lds) = (f.step as u64, f.ld as u32);
        }
        args
    }
}

/// The rows of a product as the side that is brought into an image.
pub fn rows(p: &Problem) -> Side<'_> {
    Side { o: p.a.clone(), rows: p.m, k: p.k, batch: &[], dtype: p.dtype }
}

/// How one product with codes goes to warpgroups, if it does: rows along K, an even result, nothing behind it.
pub fn plan(enc: &CommandEncoder, p: &Problem) -> Option<Plan> {
    let device = enc.device();
    let fits = rows(p).form().0 && p.even(8) && p.n % 8 == 0 && p.k % 128 == 0;
    let plan = fits.then(|| table::codes(device.profile(), &p.product(true)));
    plan.flatten().filter(|_| device.warpgroups())
}

/// One product with the codes of one matrix.
pub fn run(enc: &mut CommandEncoder, p: &Problem, w: &Rights, plan: Plan) -> Result<()> {
    let Plan { columns, steps, all_steps, parts, .. } = plan;
    let image = rows(p).image(enc, columns, all_steps, w.order())?;
    let after = After { joined: parts > 1, ..After::default() };
    let program = Program {
        dtype: p.dtype,
        columns,
        left: w.left(),
        right: Right::Image,
        store: Store::Columns,
        after,
    };
    let pipeline = enc.device().pipeline(&program)?;
    let tiles = [ceil(p.n, ROWS.into()), ceil(p.m, columns.into())].map(|n| n as u32);
    let mut told = AfterArgs::default();
    let mut writes = room(enc, &mut told, columns, [tiles[0], tiles[1], 1], parts)?;
    writes.push(p.d_range);
    // FITS: `plan` is asked for products whose sizes have 32 bits.
    let args = Args {
        right: image.ptr,
        out: p.d,
        image: image.matrix,
        rows: p.n as u32,
        columns: p.m as u32,
        k: p.k as u32,
        ldd: p.d_rs as u32,
        steps,
        all_steps,
        tiles,
        out_batch: p.d_batch as u32,
        after: told,
        ..w.args()
    };
    enc.describe(2.0 * (p.m * p.n * p.k) as f64, &[1, p.m, p.n, p.k]);
    let mut reads = w.reads();
    reads.push(image.range);
    enc.dispatch(&pipeline, args.bytes(), [tiles[0] * tiles[1], parts, 1], &reads, &writes)
}
