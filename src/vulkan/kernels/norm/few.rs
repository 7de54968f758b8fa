//! RMS normalisation of few rows of bfloat16 or float16 in PTX, a workgroup each, which begins while the commands before it end: weights are there by
//! then. The twin is the shader (MLX_VK_DISABLE=norm_few).

use std::mem::offset_of;

use smallvec::SmallVec;

use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::kernels::matmul::warpgroup::text::{Told, four, head, inverse_root, kind, pair, put};
use crate::vulkan::kernels::progress;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::norm::{FEW_THREADS as THREADS, few};
use crate::vulkan::{CommandEncoder, Features};

/// One kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Program {
    dtype: Dtype,
    /// Sixteen bytes of a row that a thread has.
    pieces: u32,
    /// Rounded results are added to another array.
    added: bool,
}

/// What it is told.
#[repr(C)]
struct Args {
    src: u64,
    /// Bytes between rows.
    step: u64,
    dst: u64,
    weight: u64,
    /// Rows one behind the other.
    added: u64,
    n: u32,
    eps: f32,
}

// SAFETY: repr(C) of fields of 8 bytes and two of 4, without padding.
unsafe impl Told for Args {}

impl KernelKey for Program {
    fn name(&self) -> String {
        format!("rms_norm_few_{}{}", self.dtype, if self.added { "_add" } else { "" })
    }

    fn module(&self, _: &Features) -> Module {
        Module { source: Source::Ptx { text: self.text(), threads: THREADS }, ..Default::default() }
    }
}

impl Program {
    fn text(self) -> String {
        let mut o = head("sm_90", progress::told::<Args>(), [THREADS, 4]);
        self.weights(&mut o);
        progress::workgroup_waits(&mut o, size_of::<Args>());
        self.row(&mut o);
        self.root(&mut o);
        self.results(&mut o);
        progress::ends(&mut o, size_of::<Args>());
        put(&mut o, format_args!("ret;\n}}"));
        o
    }

    /// Finds what the thread has of a row, and asks for weights.
    fn weights(self, o: &mut String) {
        let pieces = self.pieces;
        put(
            o,
            format_args!(
                ".shared .align 16 .b8 squares[{}];
.reg .pred q,l<{pieces}>;
.reg .b32 tid,lane,warp,n,t0,t1,x<{all}>,w<{all}>,y<{all}>;
.reg .f32 v0,v1,v2,v3,sum,root,eps;
.reg .b64 d,wide;
.reg .b16 h0,h1;
mov.u32 tid,%tid.x; and.b32 lane,tid,31; shr.u32 warp,tid,5; ld.param.u32 n,[args+{}]; ld.param.u64 d,[args+{}]; mad.wide.u32 d,tid,16,d;",
                THREADS / 8,
                offset_of!(Args, n),
                offset_of!(Args, weight),
                all = 4 * pieces,
            ),
        );
        for i in 0..pieces {
            put(
                o,
                format_args!(
                    "add.u32 t0,tid,{}; shl.b32 t0,t0,3; setp.lt.u32 l{i},t0,n;\n@l{i} ld.global.nc.v4.b32 {{{}}},[d+{}];",
                    THREADS * i,
                    four("w", 4 * i),
                    16 * THREADS * i
                ),
            );
        }
    }

    /// The thread's part of the row, and its squares.
    fn row(self, o: &mut String) {
        put(
            o,
            format_args!(
                "mov.u32 t0,%ctaid.x; ld.param.u32 t1,[args+{}]; mul.wide.u32 wide,t0,t1; ld.param.u64 d,[args+{}]; add.u64 d,d,wide; mad.wide.u32 d,tid,16,d; mov.f32 sum,0f00000000;",
                offset_of!(Args, step),
                offset_of!(Args, src),
            ),
        );
        for i in 0..self.pieces {
            (4 * i..4 * i + 4).for_each(|e| put(o, format_args!("mov.b32 x{e},0;")));
            put(
                o,
                format_args!("@l{i} ld.global.cg.v4.b32 {{{}}},[d+{}];", four("x", 4 * i), 16 * THREADS * i),
            );
        }
        if self.added {
            put(
                o,
                format_args!(
                    "mov.u32 t0,%ctaid.x; shl.b32 t1,n,1; mul.wide.u32 wide,t0,t1; ld.param.u64 d,[args+{}]; add.u64 d,d,wide; mad.wide.u32 d,tid,16,d;",
                    offset_of!(Args, added),
                ),
            );
            for i in 0..self.pieces {
                let all = four("y", 4 * i);
                put(o, format_args!("@l{i} ld.global.cg.v4.b32 {{{all}}},[d+{}];", 16 * THREADS * i));
            }
        }
        for e in 0..4 * self.pieces {
            pair(o, self.dtype, ["v0", "v1"], &format!("x{e}"), "t0");
            // One behind the other, as shaders add them.
            put(o, format_args!("fma.rn.f32 sum,v0,v0,sum; fma.rn.f32 sum,v1,v1,sum;"));
        }
    }

    /// What the row is multiplied by.
    fn root(self, o: &mut String) {
        for lane in [16, 8, 4, 2, 1] {
            put(o, format_args!("shfl.sync.bfly.b32 v0,sum,{lane},31,-1; add.f32 sum,sum,v0;"));
        }
        put(
            o,
            format_args!(
                "mov.u32 t0,squares; shl.b32 t1,warp,2; add.u32 t1,t1,t0; setp.eq.u32 q,lane,0;\n@q st.shared.f32 [t1],sum;\nbar.sync 0;\nmov.f32 root,0f00000000;"
            ),
        );
        for part in 0..THREADS / 32 {
            put(o, format_args!("ld.shared.f32 v0,[t0+{}]; add.f32 root,root,v0;", 4 * part));
        }
        put(
            o,
            format_args!(
                "ld.param.f32 eps,[args+{}]; cvt.rn.f32.u32 v0,n; div.rn.f32 root,root,v0; add.f32 root,root,eps;",
                offset_of!(Args, eps),
            ),
        );
        inverse_root(o, "root", "root");
    }

    fn results(self, o: &mut String) {
        put(
            o,
            format_args!(
                "mov.u32 t0,%ctaid.x; shl.b32 t1,n,1; mul.wide.u32 wide,t0,t1; ld.param.u64 d,[args+{}]; add.u64 d,d,wide; mad.wide.u32 d,tid,16,d;",
                offset_of!(Args, dst),
            ),
        );
        let kind = kind(self.dtype);
        for i in 0..self.pieces {
            for e in 4 * i..4 * i + 4 {
                pair(o, self.dtype, ["v0", "v1"], &format!("x{e}"), "t0");
                pair(o, self.dtype, ["v2", "v3"], &format!("w{e}"), "t0");
                put(
                    o,
                    format_args!(
                        "mul.f32 v0,v0,root; mul.f32 v0,v0,v2; mul.f32 v1,v1,root; mul.f32 v1,v1,v3; cvt.rn.{kind}x2.f32 x{e},v1,v0;"
                    ),
                );
                if self.added {
                    pair(o, self.dtype, ["v0", "v1"], &format!("x{e}"), "t0");
                    pair(o, self.dtype, ["v2", "v3"], &format!("y{e}"), "t0");
                    put(
                        o,
                        format_args!(
                            "add.rn.f32 v0,v0,v2; add.rn.f32 v1,v1,v3; cvt.rn.{kind}x2.f32 x{e},v1,v0;"
                        ),
                    );
                }
            }
            put(o, format_args!("@l{i} st.global.v4.b32 [d+{}],{{{}}};", 16 * THREADS * i, four("x", 4 * i)));
        }
    }
}

/// Normalises rows, so many bytes apart, whose elements and those of weights, results and what these are added to begin at 16 bytes; whether
/// there is a kernel for them.
pub(super) fn rms_norm(
    enc: &mut CommandEncoder,
    src: &DeviceView,
    (weight, added): (&DeviceView, Option<&DeviceView>),
    eps: f32,
    dst: &DeviceView,
    [rows, n, step]: [u64; 3],
) -> Result<bool> {
    let device = enc.device();
    let pieces = few(device.profile(), src.dtype, [rows, n, step]);
    let Some(pieces) = pieces.filter(|_| device.warpgroups()) else { return Ok(false) };
    let pipeline = device.pipeline(&Program { dtype: src.dtype, pieces, added: added.is_some() })?;
    // FITS: `few` bounds both.
    let (weights, others) = (weight.ptr, added.map_or(0, |a| a.ptr));
    let args = Args { src: src.ptr, step, dst: dst.ptr, weight: weights, added: others, n: n as u32, eps };
    let reads: SmallVec<[_; 3]> =
        [Some(src), Some(weight), added].into_iter().flatten().map(DeviceView::range).collect();
    let late: SmallVec<[_; 2]> = [Some(src), added].into_iter().flatten().map(|v| v.range().0).collect();
    enc.dispatch_early(&pipeline, args.bytes(), [rows as u32, 1, 1], [&reads, &[dst.range()]], &late)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::kernels::quantized::trial::{elements, read_as};
    use crate::vulkan::kernels::tests::ptx::{Memory, Program as Reader, bf16, of_bf16};

    #[test]
    fn rows_are_normalised() {
        let sizes = [(3_usize, 2056_usize, 2064_usize), (2, 64, 64), (1, 6000, 6000)];
        let kinds = [(Dtype::BF16, false), (Dtype::F16, false), (Dtype::BF16, true), (Dtype::F16, true)];
        for ((rows, n, apart), (dtype, added)) in sizes.into_iter().flat_map(|s| kinds.map(|k| (s, k))) {
            let number = |i: usize| f64::from(of_bf16(bf16((i * 37 % 101) as f32 / 17.0 - 3.0)));
            let numbers =
                |n: usize, from: usize| elements(dtype, &(from..from + n).map(number).collect::<Vec<_>>());
            let mut m = Memory::default();
            let src = m.place(numbers(rows * apart, 0));
            let (weight, dst) = (m.place(numbers(n, 7)), m.place(vec![0; 2 * rows * n]));
            let other = m.place(numbers(rows * n, 3));
            let args =
                Args { src, step: 2 * apart as u64, dst, weight, added: other, n: n as u32, eps: 1e-5 };
            let text = Program { dtype, pieces: (n as u32 / 8).div_ceil(THREADS), added }.text();
            Reader::read(&text).run(&mut m, args.bytes(), rows);
            let within = 2f64.powi(if dtype == Dtype::F16 { -11 } else { -8 });
            for (r, got) in read_as(dtype, &m, dst).chunks(n).enumerate() {
                let mean = (0..n).map(|i| number(r * apart + i).powi(2)).sum::<f64>() / n as f64;
                for (i, got) in got.iter().enumerate() {
                    let row = number(r * apart + i) / (mean + 1e-5).sqrt() * number(7 + i);
                    let want = row + if added { number(3 + r * n + i) } else { 0.0 };
                    let digits = if added { row.abs() + want.abs() } else { want.abs() };
                    assert!((got - want).abs() <= digits * within + 1e-7, "{got} {want}");
                }
            }
        }
    }
}
