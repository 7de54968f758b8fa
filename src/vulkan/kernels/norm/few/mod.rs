//! RMS normalisation of few rows of bfloat16 or float16 in PTX, a workgroup each, which begins while the commands before it end: weights are there by
//! then. Sums of what is normalised wait for whether they are normalised next (`again`). The twin is the shader (MLX_VK_DISABLE=norm_few).

mod again;

use std::mem::offset_of;

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
    /// Those sums are normalised, too.
    again: bool,
}

/// What it is told.
#[derive(Clone, Copy)]
#[repr(C)]
struct Args {
    src: u64,
    /// Bytes between rows.
    step: u64,
    dst: u64,
    weight: u64,
    /// Rows one behind the other.
    added: u64,
    /// What sums are normalised with, and where that goes.
    next_weight: u64,
    next: u64,
    n: u32,
    eps: f32,
    next_eps: f32,
    even: u32,
}

// SAFETY: repr(C) of fields of 8 bytes and four of 4, without padding.
unsafe impl Told for Args {}

impl KernelKey for Program {
    fn name(&self) -> String {
        let [added, again] =
            [(self.added, "_add"), (self.again, "_norm")].map(|x| if x.0 { x.1 } else { "" });
        format!("rms_norm_few_{}{added}{again}", self.dtype)
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
        self.root(&mut o, offset_of!(Args, eps));
        self.results(&mut o);
        if self.again {
            self.normalise_again(&mut o);
        }
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
.reg .b32 tid,lane,warp,n,t0,t1,x<{all}>,w<{all}>,y<{all}>,u<{all}>;
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
        if self.again {
            put(
                o,
                format_args!(
                    "ld.param.u64 d,[args+{}]; mad.wide.u32 d,tid,16,d;",
                    offset_of!(Args, next_weight)
                ),
            );
            for i in 0..pieces {
                let all = four("u", 4 * i);
                put(o, format_args!("@l{i} ld.global.nc.v4.b32 {{{all}}},[d+{}];", 16 * THREADS * i));
            }
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
            self.row_at(o, offset_of!(Args, added));
            for i in 0..self.pieces {
                let all = four("y", 4 * i);
                put(o, format_args!("@l{i} ld.global.cg.v4.b32 {{{all}}},[d+{}];", 16 * THREADS * i));
            }
        }
        self.squares(o);
    }

    /// Adds the thread's squares up.
    fn squares(self, o: &mut String) {
        for e in 0..4 * self.pieces {
            pair(o, self.dtype, ["v0", "v1"], &format!("x{e}"), "t0");
            // One behind the other, as shaders add them.
            put(o, format_args!("fma.rn.f32 sum,v0,v0,sum; fma.rn.f32 sum,v1,v1,sum;"));
        }
    }

    /// What the row is multiplied by, with the epsilon at `eps`.
    fn root(self, o: &mut String, eps: usize) {
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
                "ld.param.f32 eps,[args+{eps}]; cvt.rn.f32.u32 v0,n; div.rn.f32 root,root,v0; add.f32 root,root,eps;"
            ),
        );
        inverse_root(o, "root", "root");
    }

    fn results(self, o: &mut String) {
        self.row_at(o, offset_of!(Args, dst));
        for i in 0..self.pieces {
            for e in 4 * i..4 * i + 4 {
                self.normalise(o, e, "w");
                if self.added {
                    pair(o, self.dtype, ["v0", "v1"], &format!("x{e}"), "t0");
                    pair(o, self.dtype, ["v2", "v3"], &format!("y{e}"), "t0");
                    put(
                        o,
                        format_args!(
                            "add.rn.f32 v0,v0,v2; add.rn.f32 v1,v1,v3; cvt.rn.{}x2.f32 x{e},v1,v0;",
                            kind(self.dtype)
                        ),
                    );
                }
            }
            self.store(o, i);
        }
    }

    /// The rows that were stored, normalised by the next weights. All have read what the first sums of squares came to.
    fn normalise_again(self, o: &mut String) {
        for e in 0..4 * self.pieces {
            put(o, format_args!("selp.b32 x{e},x{e},0,l{};", e / 4));
        }
        put(o, format_args!("mov.f32 sum,0f00000000;"));
        self.squares(o);
        put(o, format_args!("bar.sync 0;"));
        self.root(o, offset_of!(Args, next_eps));
        self.row_at(o, offset_of!(Args, next));
        for i in 0..self.pieces {
            (4 * i..4 * i + 4).for_each(|e| self.normalise(o, e, "u"));
            self.store(o, i);
        }
    }

    /// Where the thread's part lies of the row among those at `to`, which follow each other.
    fn row_at(self, o: &mut String, to: usize) {
        put(
            o,
            format_args!(
                "mov.u32 t0,%ctaid.x; shl.b32 t1,n,1; mul.wide.u32 wide,t0,t1; ld.param.u64 d,[args+{to}]; add.u64 d,d,wide; mad.wide.u32 d,tid,16,d;"
            ),
        );
    }

    /// Two elements of the row times its root and weights.
    fn normalise(self, o: &mut String, e: u32, weights: &str) {
        pair(o, self.dtype, ["v0", "v1"], &format!("x{e}"), "t0");
        pair(o, self.dtype, ["v2", "v3"], &format!("{weights}{e}"), "t0");
        put(
            o,
            format_args!(
                "mul.f32 v0,v0,root; mul.f32 v0,v0,v2; mul.f32 v1,v1,root; mul.f32 v1,v1,v3; cvt.rn.{}x2.f32 x{e},v1,v0;",
                kind(self.dtype)
            ),
        );
    }

    fn store(self, o: &mut String, i: u32) {
        put(o, format_args!("@l{i} st.global.v4.b32 [d+{}],{{{}}};", 16 * THREADS * i, four("x", 4 * i)));
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
    let program = Program { dtype: src.dtype, pieces, added: added.is_some(), again: false };
    // FITS: `few` bounds both.
    let (weights, others) = (weight.ptr, added.map_or(0, |a| a.ptr));
    let args = Args {
        src: src.ptr,
        step,
        dst: dst.ptr,
        weight: weights,
        added: others,
        next_weight: 0,
        next: 0,
        n: n as u32,
        eps,
        next_eps: 0.0,
        even: 0,
    };
    if let Some(added) = added {
        again::hold(enc, program, args, rows as u32, [src, weight, added, dst])?;
        return Ok(true);
    }
    if again::normalises(enc, program, args, rows as u32, [weight, dst])? {
        return Ok(true);
    }
    let pipeline = device.pipeline(&program)?;
    let reads = [src.range(), weight.range()];
    enc.dispatch_early(&pipeline, args.bytes(), [rows as u32, 1, 1], [&reads, &[dst.range()]], &[src.ptr])?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::kernels::quantized::trial::{elements, normalised_as, read_as, same_as};
    use crate::vulkan::kernels::tests::ptx::{Memory, Program as Reader, bf16, of_bf16};

    #[test]
    fn rows_are_normalised() {
        let sizes = [(3_usize, 2056_usize, 2064_usize), (2, 64, 64), (1, 6000, 6000)];
        let dtypes = [Dtype::BF16, Dtype::F16];
        let kinds = dtypes.into_iter().flat_map(|d| [(d, false, false), (d, true, false), (d, true, true)]);
        let kinds: Vec<_> = kinds.collect();
        for ((rows, n, apart), &(dtype, added, again)) in
            sizes.into_iter().flat_map(|s| kinds.iter().map(move |k| (s, k)))
        {
            let number = |i: usize| f64::from(of_bf16(bf16((i * 37 % 101) as f32 / 17.0 - 3.0)));
            let numbers =
                |n: usize, from: usize| elements(dtype, &(from..from + n).map(number).collect::<Vec<_>>());
            let mut m = Memory::default();
            let src = m.place(numbers(rows * apart, 0));
            let (weight, dst) = (m.place(numbers(n, 7)), m.place(vec![0; 2 * rows * n]));
            let other = m.place(numbers(rows * n, 3));
            let (next_weight, next) = (m.place(numbers(n, 11)), m.place(vec![0; 2 * rows * n]));
            let args = Args {
                src,
                step: 2 * apart as u64,
                dst,
                weight,
                added: other,
                next_weight,
                next,
                n: n as u32,
                eps: 1e-5,
                next_eps: 1e-6,
                even: 0,
            };
            let text = Program { dtype, pieces: (n as u32 / 8).div_ceil(THREADS), added, again }.text();
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
            let (sums, weights) =
                (read_as(dtype, &m, dst), (0..n).map(|i| number(11 + i)).collect::<Vec<_>>());
            for (sums, got) in sums.chunks(n).zip(read_as(dtype, &m, next).chunks(n)).filter(|_| again) {
                same_as(dtype, "sums, normalised", got, &normalised_as(dtype, sums, &weights));
            }
        }
    }
}
