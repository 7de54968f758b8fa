//! The gated delta rule on the host: heads in parallel, steps in order, a row of the state at a time.

use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::multiversion;
use crate::kernels::HostView;

/// Sizes and places; all arrays are contiguous.
struct Job {
    steps: usize,
    hk: usize,
    hv: usize,
    dk: usize,
    dv: usize,
    wide: bool,
    q: SendPtr<f32>,
    k: SendPtr<f32>,
    v: SendPtr<f32>,
    gate: SendPtr<f32>,
    beta: SendPtr<f32>,
    mask: Option<SendPtr<u8>>,
    dst: SendPtr<f32>,
}

/// Elements whose sums run side by side.
const LANES: usize = 16;

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let (x, y) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = x.remainder().iter().zip(y.remainder()).fold(0.0, |t, (&a, &b)| t + a * b);
    for (x, y) in x.zip(y) {
        for j in 0..LANES {
            lanes[j] += x[j] * y[j];
        }
    }
    lanes.iter().fold(rest, |t, &x| t + x)
}

multiversion! {
    unsafe fn head<>(job: &Job, b: usize, h: usize, state: &mut [f32]) {
        let (dk, dv) = (job.dk, job.dv);
        let mut kept = vec![0f32; dk];
        for n in 0..job.steps {
            // SAFETY: positions are inside the contiguous arrays of these sizes.
            unsafe {
                let step = b * job.steps + n;
                let at = (step * job.hk + h / (job.hv / job.hk)) * dk;
                let head = step * job.hv + h;
                let out = std::slice::from_raw_parts_mut(job.dst.get().add(head * dv), dv);
                if job.mask.is_some_and(|m| *m.get().add(step) == 0) {
                    out.fill(0.0);
                    continue;
                }
                let k = std::slice::from_raw_parts(job.k.get().add(at), dk);
                let q = std::slice::from_raw_parts(job.q.get().add(at), dk);
                let v = std::slice::from_raw_parts(job.v.get().add(head * dv), dv);
                let beta = *job.beta.get().add(head);
                for (d, row) in state.chunks_exact_mut(dk).enumerate() {
                    if job.wide {
                        let g = std::slice::from_raw_parts(job.gate.get().add(head * dk), dk);
                        for i in 0..dk {
                            kept[i] = row[i] * g[i];
                        }
                    } else {
                        let g = *job.gate.get().add(head);
                        for i in 0..dk {
                            kept[i] = row[i] * g;
                        }
                    }
                    let fresh = (v[d] - dot(&kept, k)) * beta;
                    for i in 0..dk {
                        row[i] = kept[i] + fresh * k[i];
                    }
                    out[d] = dot(row, q);
                }
            }
        }
    }
}

/// Runs all steps over q, k (batch, steps, key heads, dk), v (batch, steps, value heads, dv), gate (batch, steps,
/// value heads, maybe dk), beta and the state (batch, value heads, dv, dk), all contiguous float32; `mask` (batch,
/// steps) holds bools. Writes outputs like `v` and the last state.
pub fn gated_delta(
    [q, k, v, gate, beta, state]: [&HostView; 6],
    mask: Option<&HostView>,
    dst: &HostView,
    after: &HostView,
) {
    let size = |v: &HostView, i: usize| v.shape[i] as usize;
    let place = |v: &HostView| SendPtr::new(v.as_ptr::<f32>());
    let job = &Job {
        steps: size(q, 1),
        hk: size(q, 2),
        hv: size(v, 2),
        dk: size(q, 3),
        dv: size(v, 3),
        wide: gate.ndim() == 4,
        q: place(q),
        k: place(k),
        v: place(v),
        gate: place(gate),
        beta: place(beta),
        mask: mask.map(|m| SendPtr::new(m.as_ptr::<u8>())),
        dst: place(dst),
    };
    let each = job.dk * job.dv;
    let (from, to) = (place(state), place(after));
    pool::parallel_chunks(size(q, 0) * job.hv, 1, |r| {
        for i in r {
            // SAFETY: states of heads are disjoint, and so is what heads write.
            unsafe {
                let held = std::slice::from_raw_parts_mut(to.get().add(i * each), each);
                held.copy_from_slice(std::slice::from_raw_parts(from.get().add(i * each), each));
                head(job, i / job.hv, i % job.hv, held);
            }
        }
    });
}
