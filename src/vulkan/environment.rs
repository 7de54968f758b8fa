//! All variables and kernel variants of this backend and of what it shares with others, in the order of
//! docs/environment.md. Each is a static of its owner; a test finds those that are missing here. Called by `python`.

use super::kernels::{attention, conv, elementwise, fft, index, matmul, norm, quantized, reduce, sort};
use super::{hal, memory, report, shader, tune};
use crate::core::env::{self, KernelVariant, Variable};
use crate::core::{Result, fallback, fault};

/// What the environment says to this backend.
pub const VARIABLES: &[&Variable] = &[
    &hal::adapter::DEVICE,
    &hal::adapter::WITHOUT,
    &report::progress::QUIET,
    &tune::file::PROFILE,
    &shader::cache::CACHE_DIR,
    &shader::cache::CACHE_MB,
    &shader::cache::CACHE_DAYS,
    &env::DISABLE,
    &fallback::FALLBACK,
    &hal::recorder::MAX_OPS,
    &hal::recorder::MAX_MB,
    &hal::recorder::MAX_INFLIGHT,
    &shader::shelf::MAX_PIPELINES,
    &hal::stream::TIMEOUT,
    &memory::linger::CLEAR_MS,
    &fault::FAULT,
    &hal::caller::COMMAND_THREAD,
    &hal::recorder::FULL_BARRIERS,
    &hal::probe::UNIFIED,
    &report::compile_only::COMPILE_ONLY,
    &tune::matmul::MATMUL_TILE,
    &tune::fusion::MATMUL_EPILOGUE,
    &matmul::kernel::MATMUL_SPEC,
    &tune::gemv::GEMV_LAYOUT,
    &tune::quantized::QMM,
    &tune::quantized::QMM_SCRATCH,
    &tune::conv::CONV_SCRATCH,
    &tune::attention::SDPA_ROWS,
    &tune::attention::SDPA_GROUPS,
    &tune::attention::SDPA_KEYS,
    &tune::attention::SDPA_SPLITS,
    &tune::warpgroup::WARPGROUP,
    &tune::attention::SDPA_COOP,
    &tune::attention::SDPA_TEAMS,
    &sort::SORT,
    &shader::compiler::SHADER_DIR,
];

/// What MLX_VK_DISABLE can take out.
pub const VARIANTS: &[&KernelVariant] = &[
    &tune::matmul::MATMUL_NV2,
    &tune::matmul::MATMUL_KHR,
    &tune::short::MATMUL_SMALL,
    &tune::short::MATMUL_LOW_RANK,
    &tune::short::MATMUL_OUTER,
    &tune::matmul::MATMUL_SPLIT,
    &matmul::kernel::MATMUL_FIXED,
    &tune::fusion::EPILOGUES,
    &tune::gemv::GEMV,
    &matmul::gather_mm::GATHER_MM_RUNS,
    &conv::CONV_DEPTHWISE,
    &conv::CONV_POINTWISE,
    &conv::winograd::CONV_WINOGRAD,
    &tune::quantized::stream::QMM_STREAM,
    &tune::quantized::stream::QMM_STREAM_PTX,
    &tune::quantized::chain::GEMV_CHAIN,
    &tune::quantized::chain::QMM_CHAIN,
    &tune::quantized::chain::QMM_CHAIN_MIXED,
    &tune::quantized::chain::QMM_CHAIN_SUMMED,
    &tune::quantized::chain::QMM_CHAIN_PICKED,
    &quantized::subnormal_probe::QMM_STREAM_MASKS,
    &tune::quantized::row::QMM_ROW,
    &tune::quantized::picked::QMM_COMBINE,
    &tune::quantized::picked::QMM_GROUPED,
    &tune::quantized::held::QMM_HELD,
    &tune::quantized::few_rows::QMM_FEW_ROWS,
    &tune::quantized::few_picked::QMM_FEW_PICKED,
    &tune::gemv::held::MATMUL_HELD,
    &tune::gemv::wide::MATMUL_WIDE,
    &tune::quantized::wide_codes::QMM_WIDE,
    &tune::parts::MATMUL_PARTS,
    &tune::warpgroup::MATMUL_WARPGROUP,
    &tune::warpgroup::QMM_WARPGROUP,
    &tune::warpgroup::CONV_WARPGROUP,
    &tune::attention::SDPA_WARPGROUP,
    &tune::quantized::QMM_ROWS,
    &tune::quantized::QMM_COOP,
    &tune::quantized::QMM_COLS,
    &tune::quantized::QMM_TILED,
    &tune::quantized::QMM_DEQUANTIZE,
    &tune::quantized::QMM_RUNS,
    &tune::fusion::ALIKE,
    &tune::fusion::ROW_BIASES,
    &tune::fusion::QMM_JOINED,
    &tune::fusion::GEMV_JOINED,
    &tune::fusion::NORM_HELD,
    &tune::fusion::ROPE_ROWS,
    &tune::index::JOIN,
    &tune::fusion::LOG_SOFTMAX,
    &tune::fusion::RANDOM_JOINED,
    &tune::fusion::DEQUANTIZE_ROWS,
    &tune::quantized::QMM_SPLIT,
    &attention::SDPA,
    &tune::attention::SDPA_VECTOR,
    &tune::attention::SDPA_SPLIT,
    &tune::attention::SDPA_ROPE,
    &tune::attention::token::SDPA_TOKEN,
    &tune::attention::token::SDPA_TURNS,
    &tune::attention::several::SDPA_SEVERAL,
    &tune::attention::SDPA_TILE,
    &tune::attention::SDPA_MATRICES,
    &tune::attention::SDPA_HELD,
    &tune::attention::SDPA_BLOCKS,
    &tune::attention::SDPA_GRAD,
    &tune::norm::SOFTMAX_PARTS,
    &norm::softmax::SOFTMAX_REGISTERS,
    &norm::NORM_REGISTERS,
    &tune::norm::NORM_FEW,
    &tune::norm::NORM_ADDED,
    &reduce::REDUCE_ROW,
    &reduce::REDUCE_COLUMN,
    &tune::reduce::REDUCE_SPLIT,
    &reduce::REDUCE_LAST,
    &reduce::STATISTICS,
    &tune::reduce::SCAN_SPLIT,
    &sort::SORT_RADIX,
    &tune::sort::SORT_ROWS,
    &tune::sort::SORT_TOPS,
    &tune::sort::SELECT,
    &tune::sort::CHOICE,
    &index::scatter::SCATTER_ATOMIC,
    &index::scatter::SCATTER_LINKED,
    &index::scatter::SCATTER_CLAIMED,
    &tune::index::SCATTER_LINES,
    &tune::index::SCATTER_SUMS,
    &tune::index::INTERLEAVE,
    &index::sums::SCATTER_SUMS_WIDE,
    &index::scatter::SCATTER_OWNED,
    &fft::FFT_CONVOLVED,
    &elementwise::ELEMENTWISE_WIDE,
    &elementwise::ELEMENTWISE_FLAT,
    &tune::fusion::COMPOSED,
    &elementwise::HALF_CONVERT,
    &tune::random::RANDOM_PRODUCTS,
    &elementwise::COPY_TRANSPOSE,
    &memory::BLOCK_TURNS,
    &memory::exported::EXTERNAL_MEMORY,
    #[cfg(target_os = "linux")]
    &super::kernels::bridge::BRIDGE,
    &memory::crossing::PEER_COPY,
    &memory::crossing::STAGED_COPY,
    &memory::between::SHARED_COPY,
    &hal::recorder::BATCH_KEEP,
    &hal::progress::OVERLAP,
    &memory::transfer::COPY_QUEUE,
];

/// The names that are no variant.
pub fn unknown(names: &[String]) -> Vec<&str> {
    names
        .iter()
        .map(|n| n.trim())
        .filter(|n| !n.is_empty() && VARIANTS.iter().all(|v| v.name != *n))
        .collect()
}

/// Takes these variants out of every choice from now on, in place of those of MLX_VK_DISABLE; for tests and for
/// trying the parts of a device. Returns the names that were out before.
///
/// # Errors
/// Value error for a name that is not in [`VARIANTS`].
pub fn set_disabled(names: &[String]) -> Result<Vec<&'static str>> {
    if let Some(name) = unknown(names).first() {
        crate::bail!(Value, "[vulkan] {name} names no kernel variant.");
    }
    let before = VARIANTS.iter().filter(|v| v.disabled()).map(|v| v.name).collect();
    VARIANTS.iter().for_each(|v| v.disable(names.iter().any(|n| n.trim() == v.name)));
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::env::Values;

    #[test]
    fn defaults_that_begin_with_a_digit_are_numbers_of_their_range() {
        for v in VARIABLES.iter().copied().chain([&crate::distributed::TIMEOUT]) {
            if let Values::Number(low, high) = v.values
                && v.default.starts_with(|c: char| c.is_ascii_digit())
            {
                let n: u64 = v.default.parse().unwrap_or_else(|_| panic!("{}: {}", v.name, v.default));
                assert!((low..=high).contains(&n), "{}", v.name);
            }
        }
    }

    #[test]
    fn layouts_that_no_kernel_has_are_passed_over() {
        let fits = |v: &Variable, sizes: &[u32]| match v.values {
            Values::Sizes(_, fits, _) => fits(sizes),
            _ => false,
        };
        let (layout, qmm, tile) =
            (&tune::gemv::GEMV_LAYOUT, &tune::quantized::QMM, &tune::matmul::MATMUL_TILE);
        assert!(fits(layout, &[32, 1, 1]) && !fits(layout, &[33, 1, 1]) && !fits(layout, &[32, 65, 1]));
        assert!(fits(qmm, &[32, 8]) && !fits(qmm, &[32, 9]) && !fits(qmm, &[32]));
        assert!(fits(tile, &[128, 128, 32, 128]) && !fits(tile, &[128, 128, 32]));
        assert!(!fits(tile, &[128, 128, 0, 128]) && !fits(tile, &[128, 128, 32, 128, 0]));
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::HashSet<&str> =
            VARIABLES.iter().map(|v| v.name).chain(VARIANTS.iter().map(|v| v.name)).collect();
        assert_eq!(names.len(), VARIABLES.len() + VARIANTS.len());
        assert_eq!(unknown(&["gemv".into(), " nothing ".into(), "".into()]), ["nothing"]);
    }
}
