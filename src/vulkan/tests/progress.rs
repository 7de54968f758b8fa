//! Commands that wait for others by a number in memory, by a shader that does as texts in PTX do.

use super::*;
use crate::vulkan::hal::progress::OVERLAP;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct WaitsKey;

impl KernelKey for WaitsKey {
    fn name(&self) -> String {
        "test_waits".into()
    }

    fn module(&self, _: &Features) -> Module {
        // dst = a + b, and far below any sum where commands before it have not ended.
        let text = "#version 460
            #extension GL_EXT_buffer_reference : require
            #extension GL_EXT_buffer_reference_uvec2 : require
            #extension GL_EXT_scalar_block_layout : require
            layout(local_size_x = 64) in;
            layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer F { float v[]; };
            layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer N { uint v; };
            layout(push_constant, scalar) uniform Push { F a; F b; F dst; uint n; uint pad; N number; uint awaited; uint waits; };
            void main() {
                uint i = gl_GlobalInvocationID.x;
                bool over = waits == 0;
                for (int turn = 0; turn < 1000000 && !over; turn++) over = int(atomicAdd(number.v, 0) - awaited) >= 0;
                if (i < n) dst.v[i] = a.v[i] + b.v[i] - (over ? 0.0 : 1e9);
                memoryBarrierBuffer();
                barrier();
                if (gl_LocalInvocationIndex == 0 && uvec2(number) != uvec2(0)) atomicAdd(number.v, 1u);
            }";
        Module { source: Source::Text(text.into()), ..Default::default() }
    }
}

/// Adds `b` to x by a command that may begin early.
fn early(s: Stream, x: &Arc<Storage>, b: &Arc<Storage>) -> Result<()> {
    with_encoder(s, |enc| {
        let n = x.nbytes() as u64 / 4;
        let (b, x) = (enc.resident(b)?, enc.overwrite(x)?);
        let push: Vec<u8> = [x, b, x, n].into_iter().flat_map(u64::to_ne_bytes).collect();
        let pipeline = enc.device().pipeline(&WaitsKey)?;
        pipeline.wait()?;
        let groups = [(n as u32).div_ceil(64), 1, 1];
        enc.dispatch_early(&pipeline, &push, groups, [&[(x, 4 * n), (b, 4 * n)], &[(x, 4 * n)]], &[x])
    })
}

fn barriers(s: Stream) -> u64 {
    StreamState::of(s).unwrap().barriers.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn commands_that_wait_by_themselves_stand_behind_no_barrier() {
    let Some((_, _guard)) = gpu() else { return };
    let (s, x, one) = (stream(), floats(&[0.0; 500]), floats(&[1.0; 500]));
    early(s, &x, &one).unwrap();
    flush(s).unwrap();
    let before = barriers(s);
    (0..30).for_each(|_| early(s, &x, &one).unwrap());
    assert!(OVERLAP.disabled() || barriers(s) - before <= 1);
    // A shader that nobody can wait for, between.
    for _ in 0..5 {
        with_encoder(s, |enc| {
            let (one, x) = (enc.resident(&one)?, enc.overwrite(&x)?);
            add(enc, x, one, x, 500)
        })
        .unwrap();
        early(s, &x, &one).unwrap();
        early(s, &x, &one).unwrap();
    }
    assert_eq!(read(&x), [46.0; 500]);
    // What was read early is written, and the other way round.
    early(s, &one, &x).unwrap();
    early(s, &x, &one).unwrap();
    assert_eq!(read(&x), [93.0; 500]);
}
