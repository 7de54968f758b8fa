//! Host side of shaders/fft/hadamard.comp: the Walsh-Hadamard transform of rows that fit shared memory in one
//! pass. Longer rows take one pass over contiguous pieces, then others across them, in place on float32.

use crate::bail;
use crate::core::layout::show;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::kernels::fft::hadamard::Order;
use crate::vulkan::kernels::elem::{Defines, Push, collapse, define, dims, grid, operand};
use crate::vulkan::tune::fft::HADAMARD_COLUMNS;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct HadamardKey {
    src: Dtype,
    dst: Dtype,
    strided: bool,
    /// Order of this pass.
    order: Order,
    cols: u32,
    lines: u32,
}

impl HadamardKey {
    fn tile(&self) -> u32 {
        self.lines * self.cols * (self.order.m << self.order.k)
    }
}

impl KernelKey for HadamardKey {
    fn name(&self) -> String {
        format!("hadamard_{}x2^{}_{}", self.order.m, self.order.k, self.dst)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        operand(&mut d, "A", self.src);
        operand(&mut d, "B", self.dst);
        let signs: Vec<String> = self.order.rows().iter().map(|r| format!("{r:#x}u")).collect();
        let numbers = [("K", self.order.k), ("M", self.order.m), ("COLS", self.cols), ("LINES", self.lines)];
        numbers.iter().for_each(|n| define(&mut d, n.0, n.1));
        define(&mut d, "TILE", format!("{}u", self.tile()));
        define(&mut d, "SIGNS", signs.join(","));
        if self.strided {
            define(&mut d, "STRIDED", 1);
        }
        Module { source: Source::File("hadamard.comp"), defines: d, ..Module::default() }
    }
}

/// The orders of the passes whose product is `order`, for tiles of 2^`most` elements at most.
fn passes(order: Order, most: u32) -> Vec<Order> {
    let piece = |m: u32, k: u32| Order { m, k, transposed: order.transposed };
    let fits = |m: u32, k: u32, cols: u32| (m << k) * cols <= 1 << most;
    if order.k <= most && fits(order.m, order.k, 1) {
        return vec![order];
    }
    let mut list = vec![piece(1, order.k.min(most))];
    let mut left = order.k - list[0].k;
    loop {
        if fits(order.m, left.min(24), HADAMARD_COLUMNS) && left <= 24 {
            if order.m << left > 1 {
                list.push(piece(order.m, left));
            }
            return list;
        }
        let k = left.min(most - HADAMARD_COLUMNS.ilog2());
        list.push(piece(1, k));
        left -= k;
    }
}

/// `dst = scale * H src` along the last axis, which has the length of `order`. float16, bfloat16 or float32;
/// `dst` is contiguous.
pub fn hadamard(
    enc: &mut CommandEncoder,
    src: &DeviceView,
    order: Order,
    scale: f32,
    dst: &DeviceView,
) -> Result<()> {
    if !matches!(dst.dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32) {
        bail!(Value, "[hadamard_transform] {} is not supported on the GPU.", dst.dtype);
    }
    let axis = src.ndim() - 1;
    let n = src.shape[axis] as u64;
    let rows = dst.size() as u64 / n;
    // Room for the tile and a word of padding for each 32.
    let words = u64::from(enc.device().features().shared_memory) / 4 * 32 / 33;
    let most = words.clamp(2048, 8192).ilog2();
    let list = passes(order, most);
    if rows * (n >> list[0].k) > u64::from(u32::MAX) {
        bail!(Value, "[hadamard_transform] Shape {} is too large.", show(&dst.shape));
    }
    let outer = collapse((0..axis).map(|a| (src.shape[a], src.strides[a])));
    let params = dims(enc, &outer)?;
    // Passes in between hold float32, in the result itself where that is float32.
    let bytes = dst.size() as u64 * 4;
    let held = match (list.len(), dst.dtype) {
        (1, _) | (_, Dtype::F32) => (dst.ptr, dst.range()),
        _ => {
            let scratch = enc.temp(bytes as usize)?;
            (scratch, (scratch, bytes))
        }
    };
    let mut inner = 1u64;
    for (i, &pass) in list.iter().enumerate() {
        let (first, last) = (i == 0, i + 1 == list.len());
        let len = u64::from(pass.m) << pass.k;
        let lines = rows * n / (len * inner);
        let cols = inner.min(HADAMARD_COLUMNS.into()) as u32;
        // Short lines share a workgroup.
        let together = if inner == 1 { (1024 / len).clamp(1, lines.next_power_of_two()) } else { 1 };
        let (from, to) = (
            if first { (src.ptr, src.range()) } else { held },
            if last { (dst.ptr, dst.range()) } else { held },
        );
        let key = HadamardKey {
            src: if first { src.dtype } else { Dtype::F32 },
            dst: if last { dst.dtype } else { Dtype::F32 },
            strided: first && !src.is_row_contiguous(),
            order: pass,
            cols,
            lines: together as u32,
        };
        let tiles = if inner == 1 { lines.div_ceil(together) } else { lines * (inner / u64::from(cols)) };
        if tiles > u64::from(u32::MAX) {
            bail!(Value, "[hadamard_transform] Shape {} is too large.", show(&dst.shape));
        }
        let counts = [n, inner, n / (len * inner), lines, tiles, outer.len() as u64].map(|v| v as u32);
        let mut words = counts.to_vec();
        words.push(if last { scale } else { 1.0 }.to_bits());
        let push = Push::default()
            .u64s(&[from.0, to.0, params])
            .i64s(&[if first { src.strides[axis] } else { 1 }])
            .u32s(&words);
        let pipeline = enc.device().pipeline(&key)?;
        let groups = grid(enc, tiles);
        enc.dispatch(&pipeline, &push, groups, &[from.1], &[to.1])?;
        inner *= len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_multiply_to_the_order_and_fit_their_tiles() {
        for m in [1u32, 12, 20, 28] {
            for k in 0..26 {
                let order = Order { m, k, transposed: false };
                let list = passes(order, 12);
                assert_eq!(list.iter().map(|p| p.k).sum::<u32>(), k);
                assert_eq!(list.iter().map(|p| p.m).product::<u32>(), m);
                assert!(list[0].m << list[0].k <= 4096);
                assert!(list[1..].iter().all(|p| (p.m << p.k) * HADAMARD_COLUMNS <= 4096 && p.m << p.k > 1));
                assert!(list[1..].is_empty() || list[0].k >= 4);
            }
        }
    }
}
