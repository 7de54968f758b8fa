//! The gradient of attention on warpgroups: a kernel by queries (queries.rs), which also keeps what weights follow from, then one
//! by keys (keys.rs). sdpa_grad_q.comp and sdpa_grad_kv.comp are the twins: MLX_VK_DISABLE=sdpa_warpgroup.

use super::super::gradient::Given;
use super::super::{keys_of_row, steps};
use super::keys::{self, Keys};
use super::queries::{self, Queries};
use super::rows::Sizes;
use super::{ptx, seen, side};
use crate::core::Result;
use crate::kernels::DeviceView;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::matmul::warpgroup::{Order, STEP};
use crate::vulkan::shader::pipeline::{KernelKey, Module};
use crate::vulkan::tune::attention as table;
use crate::vulkan::{CommandEncoder, Features};

impl KernelKey for Queries {
    fn name(&self) -> String {
        let Queries { dtype, features, causal, .. } = *self;
        format!("sdpa_grad_warpgroup_q_{dtype}_{features}{}", seen(causal))
    }

    fn module(&self, _: &Features) -> Module {
        ptx(self.text(), queries::THREADS)
    }
}

impl KernelKey for Keys {
    fn name(&self) -> String {
        let Keys { dtype, features, causal, .. } = *self;
        format!("sdpa_grad_warpgroup_kv_{dtype}_{features}{}", seen(causal))
    }

    fn module(&self, _: &Features) -> Module {
        ptx(self.text(), keys::THREADS)
    }
}

/// The two kernels, where there are some that are the best: extents were kept, rows of all arrays can be read by vectors.
pub fn kernels(enc: &CommandEncoder, g: &Given) -> Option<(Queries, Keys)> {
    let Given { q, k, v, cot, causal, .. } = *g;
    let [batch, heads, l, d] = [0, 1, 2, 3].map(|i| q.shape[i] as u64);
    let sizes = [batch, heads, l, k.shape[2] as u64];
    let device = enc.device();
    let found = table::warpgroup_gradient(device.profile(), q.dtype, sizes, [d, v.shape[3] as u64]);
    let [features, keys, queries] = found?;
    let apart = [q, cot].iter().all(|x| [0, 1].into_iter().all(|i| x.shape[i] == 1 || x.strides[i] > 0));
    let positive = cot.strides.iter().all(|&s| (0..1 << 32).contains(&s));
    let takes = super::takes([q, k, v], (g.scale, causal)) && g.mask.is_none() && apart && positive;
    let dtype = q.dtype;
    (takes && g.extents.is_some() && device.warpgroups())
        .then_some((Queries { dtype, features, causal, keys }, Keys { dtype, features, causal, queries }))
}

/// Steps of batches, heads and rows.
fn walked(x: &DeviceView) -> [u64; 3] {
    [0, 1, 2].map(|i| steps(x)[i] as u64)
}

/// Gradients of queries, keys and values to ranges of memory; `extents` are those that were kept.
pub fn run(
    enc: &mut CommandEncoder,
    (by_queries, by_keys): (Queries, Keys),
    g: &Given,
    extents: (u64, u64),
    [dq, dk, dv]: [(u64, u64); 3],
) -> Result<()> {
    let Given { q, k, v, cot, out, .. } = *g;
    let [batch, heads, l, d] = [0, 1, 2, 3].map(|i| q.shape[i] as u64);
    let (n, d_v) = (k.shape[2] as u64, v.shape[3] as u64);
    let padded = l.next_multiple_of(queries::ROWS.into());
    let bytes = batch * heads * padded * 8;
    let pairs = (enc.temp(bytes as usize)?, bytes);
    let sizes = Sizes::of([q, k, v], g.scale);
    let product = 2.0 * (batch * heads * l * keys_of_row(l, n, g.causal)) as f64;
    let dims = [batch, heads, l, n, d].map(|x| x as i64);

    let along = by_queries.features / STEP;
    let of_keys = [k.shape[0], k.shape[1]];
    let [keys, values] = [k, v].map(|x| side(x, &of_keys).image(enc, by_queries.keys, along, Order::Dealt));
    let (keys, values) = (keys?, values?);
    let args = queries::Args {
        q: q.ptr,
        cot: cot.ptr,
        out: out.ptr,
        keys: keys.ptr,
        values: values.ptr,
        dq: dq.0,
        extents: extents.0,
        pairs: pairs.0,
        key_matrix: keys.matrix,
        value_matrix: values.matrix,
        q_steps: walked(q),
        cot_steps: walked(cot),
        sizes,
        scale: g.scale,
        padded: padded as u32,
    };
    enc.describe(product * (2 * d + d_v) as f64, &dims);
    let pipeline = enc.device().pipeline(&by_queries)?;
    let reads = [q.range(), cot.range(), out.range(), keys.range, values.range, extents];
    let grid = [sizes.heads, sizes.l.div_ceil(queries::ROWS), batch as u32];
    enc.dispatch(&pipeline, args.bytes(), grid, &reads, &[dq, pairs])?;

    let of_queries = [q.shape[0], q.shape[1]];
    let [queries, cots] =
        [q, cot].map(|x| side(x, &of_queries).image(enc, by_keys.queries, along, Order::Dealt));
    let (queries, cots) = (queries?, cots?);
    let args = keys::Args {
        k: k.ptr,
        v: v.ptr,
        queries: queries.ptr,
        cots: cots.ptr,
        dk: dk.0,
        dv: dv.0,
        pairs: pairs.0,
        query_matrix: queries.matrix,
        cot_matrix: cots.matrix,
        k_steps: walked(k),
        v_steps: walked(v),
        sizes,
        scale: g.scale,
        padded: padded as u32,
    };
    enc.describe(product * (d + d_v) as f64, &dims);
    let pipeline = enc.device().pipeline(&by_keys)?;
    let reads = [k.range(), v.range(), queries.range, cots.range, pairs];
    let grid = [sizes.kv, sizes.n.div_ceil(keys::ROWS), batch as u32];
    enc.dispatch(&pipeline, args.bytes(), grid, &reads, &[dk, dv])
}
