//! When steps that one kernel can compute together are better together: called by the patterns of `fusion`. Variables and
//! variants that steer this stand here too.

use super::attention::{ROTATED_FEATURES, ROTATED_ROWS, SDPA_ROPE, SDPA_VECTOR};
use super::gemv::{GEMV, held, takes_norm, wide};
use super::profile::Profile;
use super::quantized::picked::grouped;
use super::quantized::{
    QMM_ROWS, Shape, Variant, chain, choose, few_picked, few_rows, of_rows, runs, wide_codes,
};
use crate::core::Dtype;
use crate::core::env::{KernelVariant, Values, Variable};
use crate::kernels::Epilogue;
use crate::kernels::matmul::epilogue::MATRICES;
use crate::kernels::quantized::quant::Format;

pub static ROW_BIASES: KernelVariant = KernelVariant::new(
    "row_biases",
    "kernels of their own for what is added to each of several products of a row, or to products of picked matrices",
);

pub static MATMUL_EPILOGUE: Variable = Variable::new(
    "MLX_VK_MATMUL_EPILOGUE",
    "auto",
    Values::Word(&["auto", "all"]),
    "What follows a product in a compiled function, in the product's kernel. auto: where that pays. all: wherever it \
         can be (for benchmarks)",
);

pub static EPILOGUES: KernelVariant = KernelVariant::new(
    "matmul_epilogue",
    "a kernel of its own for what follows a product in a compiled function",
);

pub static QMM_JOINED: KernelVariant = KernelVariant::new(
    "qmm_joined",
    "a kernel for each quantised product of a row, and for what comes before and after it",
);

pub static GEMV_JOINED: KernelVariant = KernelVariant::new(
    "gemv_joined",
    "a kernel for each product of a row with a dense matrix, and for what comes before and after it",
);

pub static ALIKE: KernelVariant = KernelVariant::new(
    "alike",
    "a command for each step of one kind over few elements, such as the lengths of caches",
);

pub static NORM_HELD: KernelVariant =
    KernelVariant::new("norm_held", "a normalisation of its own for few rows before dense products");

pub static ROPE_ROWS: KernelVariant = KernelVariant::new(
    "rope_rows",
    "a kernel for each rotary embedding, and for the normalisation before it",
);

pub static COMPOSED: KernelVariant =
    KernelVariant::new("elementwise_composed", "a kernel for each step of `clip`, `isclose` and the like");

/// Bytes of a result from which the steps of a composed function are one kernel. H100: an array of 1 MiB is written and
/// read again in 0.7 us, on top of what each kernel costs; smaller ones are bound by the host.
pub const COMPOSED_BYTES: usize = 1 << 20;

pub static RANDOM_JOINED: KernelVariant =
    KernelVariant::new("random_joined", "random words, and a kernel for each step behind them");

pub static LOG_SOFTMAX: KernelVariant =
    KernelVariant::new("log_softmax", "the log-sum-exp of rows, and its subtraction, in a kernel each");

pub static DEQUANTIZE_ROWS: KernelVariant = KernelVariant::new(
    "dequantize_rows",
    "a gather for codes, scales and biases of rows of a quantised table, and one for their values",
);

/// Most products along the third side of a grid; far below what any device has there.
const MOST_PICKS: i64 = 1024;
/// Elements and positions that kernels of products count in 32 bits.
const REACH: i64 = 1 << 31;

/// Results up to which a kernel less always pays. H200: 20 products of 256 x 256 with tanh 186 us against 227; bfloat16
/// 8192 x 768 by 768 x 3072 with a bias 243 us against 280, with a bias and gelu 273 against 357. But 8192 x 3072
/// by 3072 x 768 with a residual took 218 to 244 against 222, float16 2048 x 2048 with silu 124 against 111, and
/// 2048 x 1024 by 1024 x 4096 with silu times an array 307 against 220: long functions wait here for the last sum.
pub const FEW_RESULTS: usize = 1 << 20;

/// H200: elements of a row that one workgroup folds as fast as several do, and rows that fill the card without more.
const LONG_ROW: i64 = 1 << 15;
/// See [`LONG_ROW`].
const MANY_ROWS: i64 = 512;

/// Whether what follows a product that gives so many results costs less in the product's kernel than in one of its own.
pub fn epilogue_pays(e: &Epilogue, results: usize) -> bool {
    results <= FEW_RESULTS || e.is_light() || MATMUL_EPILOGUE.word() == Some("all")
}

/// Whether one kernel pays for so many rows of length `n` with their folds; short rows do not mind.
pub fn folds_in_rows(n: i64, rows: i64) -> bool {
    n >= 2 && (n <= LONG_ROW || rows >= MANY_ROWS)
}

/// A product of `m` rows of length `k` with a matrix that has `n` rows of codes.
pub(in crate::vulkan) fn row_product(format: Format, dtype: Dtype, [m, k, n]: [i64; 3]) -> Shape {
    Shape { dtype, format, transpose: true, m, n, k, batch: 1, matrices: 1, runs: false }
}

/// Whether a kernel that can join would do such a product: those of one row, or that of few where it can also take two
/// matrices at once. `known` is that of [`choose`](super::quantized::choose).
pub fn joins_products(
    p: &Profile,
    format: Format,
    dtype: Dtype,
    sizes: [i64; 3],
    known: &dyn Fn(Dtype, u32) -> bool,
) -> bool {
    let s = row_product(format, dtype, sizes);
    let joins = || match choose(p, &s, known).variant {
        Variant::Rows { .. } | Variant::Row(_) | Variant::Streamed(_) => s.m == 1,
        // What qmm_held cannot read qmm_coop does.
        Variant::Held(_) | Variant::Coop(_) => of_rows(p, &s, true, known).is_some(),
        Variant::Cols { .. } | Variant::Tiled { .. } | Variant::Dequantize => false,
    };
    // One row goes to a chain before any kernel that was measured by itself.
    let chained = || s.m == 1 && chain::leads(p, Some(format), dtype, [s.k, s.n]);
    let native = || chained() || wide_codes::joins(p, &s);
    s.k > 0 && s.n > 0 && s.n * s.k < REACH && (joins() || native()) && !QMM_JOINED.disabled()
}

/// Whether kernels that can join multiply `m` rows of length `k` by a dense matrix with `n` rows, together with others and what
/// is around: rows begin at whole chunks.
pub fn joins_dense(
    p: &Profile,
    dtype: Dtype,
    [m, k, n]: [i64; 3],
    known: &dyn Fn(Dtype, u32) -> bool,
) -> bool {
    let float = matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32);
    let whole = k > 0 && k % (16 / dtype.size() as i64) == 0;
    // Kernels count 4 GiB.
    let far = REACH.min((1 << 32) / dtype.size() as i64);
    let one = || !GEMV.disabled() && n > 0 && k < REACH && n * k < far;
    // Three of them follow each other at most.
    let few = || held::layout(p, dtype, [m, k, MATRICES as i64 * n], known).is_some();
    float && whole && (if m == 1 { one() } else { few() }) && !GEMV_JOINED.disabled()
}

/// Whether the kernel of such products, which give `n` results of a row together, also normalises the rows. H200, 8B in bfloat16,
/// two rows, us with and without, as many more a command of its own takes (4.5): 24576 x 4096 53 and 52, 6144 x 4096 20 and 16.5.
/// Rows of x that meet codes are not on Vulkan's matrices: 24576 x 4096 36 and 28.7, 6144 x 4096 18.5 and 11.8.
pub fn normalises(
    p: &Profile,
    format: Option<Format>,
    dtype: Dtype,
    sizes: [i64; 3],
    known: &dyn Fn(Dtype, u32) -> bool,
) -> bool {
    match format {
        _ if sizes[0] > 1 && NORM_HELD.disabled() => false,
        Some(format) if wide_codes::splits(p, dtype, format, sizes).is_some() => false,
        Some(_) if sizes[0] == 1 => true,
        Some(format) => {
            few_rows::layout(p, &row_product(format, dtype, sizes)).is_some_and(|f| f.splits == 1)
        }
        None if sizes[0] == 1 => takes_norm(p, sizes[2]),
        // A workgroup has whole rows.
        None => {
            let whole = held::layout(p, dtype, sizes, known).is_some_and(|h| h.splits == 1);
            whole && !wide::takes(p, dtype, sizes)
        }
    }
}

/// Bytes of codes up to which products that are picked by index are done together: the kernel that takes them decodes slower
/// than the one on cooperative matrices, which counts where there is much to read. H200, us of gate, up and down with all
/// around them, together and apart: 8 picks of 768 x 2048 20 and 40, 64 80 and 135; 66 of 1408 x 2048 152 and 192; 2
/// of 14336 x 4096 93 and 118, 8 312 and 316, 16 790 and 576.
const PICKED_BYTES: i64 = 256 << 20;

/// Whether rows of length `k` are multiplied by matrices with `n` rows of codes, `picks` of `matrices`, together with each other and
/// what follows: by the kernel that takes the picks of a matrix together, or by that of rows. By itself such a product may have
/// another kernel. `known` is that of [`choose`].
pub fn joins_picks(
    p: &Profile,
    format: Format,
    dtype: Dtype,
    [k, n, picks, matrices]: [i64; 4],
    known: &dyn Fn(Dtype, u32) -> bool,
) -> bool {
    let float = matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32);
    let bytes = picks * n * k / 8 * i64::from(format.bits);
    let whole = float
        && [k, n, picks, matrices].iter().all(|&x| (1..REACH).contains(&x))
        && k % i64::from(format.group) == 0
        && n * k < REACH
        && !QMM_JOINED.disabled();
    let rows =
        || picks <= MOST_PICKS && bytes <= PICKED_BYTES && !runs(picks, matrices) && !QMM_ROWS.disabled();
    let shape = Shape { batch: picks, matrices, ..row_product(format, dtype, [1, k, n]) };
    // Where each matrix is read once for all of its picks there is no such bound.
    let once = || few_picked::layout(p, &shape, false, false).is_some();
    whole && (grouped(p, &shape, true, known).is_some() || once() || rows())
}

/// Whether the kernel over rotated rows takes so many of so many features.
pub fn joins_rotations(dtype: Dtype, features: i64, rows: i64) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32)
        && (2..=ROTATED_FEATURES).contains(&features)
        && rows <= ROTATED_ROWS
        && !ROPE_ROWS.disabled()
}

/// Whether rows of a quantised table of so many are dequantised where they lie, by indices of a dtype. What is read in between
/// is little, and not written, so that it pays for any number of them. H200, rows of 4096 codes of four bits, us together and
/// apart: one 3.3 to 3.6 and 12.5, 512 7.0 and 17.8.
pub fn picks_rows(indices: Dtype, rows: i64) -> bool {
    indices.is_integer()
        && matches!(indices.size(), 4 | 8)
        && (1..REACH).contains(&rows)
        && !DEQUANTIZE_ROWS.disabled()
}

/// Whether rotations of one position join the attention behind them.
pub fn joins_attention() -> bool {
    !SDPA_ROPE.disabled() && !SDPA_VECTOR.disabled()
}
