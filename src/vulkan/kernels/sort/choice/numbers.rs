//! The numbers of a choice: a row's softmax before it, and what becomes of what is chosen.

use super::text::Choice;
use crate::core::Dtype;
use crate::kernels::sort::Followed;
use crate::vulkan::kernels::matmul::warpgroup::text::{kind, put};

impl Choice {
    /// The number with these bits as float32.
    fn decoded(&self, to: &str, bits: &str, free: &str) -> String {
        if self.dtype == Dtype::BF16 {
            return format!("shl.b32 {free},{bits},16; mov.b32 {to},{free};");
        }
        format!("{{\n.reg .b16 dh;\ncvt.u16.u32 dh,{bits}; cvt.f32.f16 {to},dh;\n}}\n")
    }

    /// Its bits, rounded.
    fn encoded(&self, to: &str, from: &str) -> String {
        let kind = kind(self.dtype);
        format!("{{\n.reg .b16 dh;\ncvt.rn.{kind}.f32 dh,{from}; cvt.u32.u16 {to},dh;\n}}\n")
    }

    /// Puts the row's softmax in place of it, summed up in the shader's order.
    pub(super) fn softmax(&self, o: &mut String) {
        let items = self.items();
        put(
            o,
            format_args!(
                "{{
.reg .f32 x<{items}>,s<{items}>,m,q,sx,sn,sr;
.reg .b32 sb;"
            ),
        );
        for j in 0..items {
            put(o, format_args!("{}", self.decoded(&format!("x{j}"), &format!("e{j}"), "sb")));
            let inside = self.inside(j);
            if !inside.is_empty() {
                put(o, format_args!("{} selp.f32 x{j},x{j},0fFF800000,cp;", inside.trim()));
            }
        }
        put(o, format_args!("mov.f32 m,x0;"));
        (1..items).for_each(|j| put(o, format_args!("max.f32 m,m,x{j};")));
        for step in [16, 8, 4, 2, 1] {
            put(o, format_args!("shfl.sync.bfly.b32 q,m,{step},31,-1; max.f32 m,m,q;"));
        }
        for j in 0..items {
            put(o, format_args!("sub.rn.f32 x{j},x{j},m;"));
            exponential(o, &format!("x{j}"));
            put(o, format_args!("mov.f32 s{j},x{j};"));
        }
        for step in [16, 8, 4, 2, 1] {
            for j in 0..items {
                put(o, format_args!("shfl.sync.bfly.b32 q,s{j},{step},31,-1; add.rn.f32 s{j},s{j},q;"));
            }
        }
        (1..items).for_each(|j| put(o, format_args!("add.rn.f32 s0,s0,s{j};")));
        put(o, format_args!("rcp.approx.f32 q,s0;"));
        for j in 0..items {
            put(
                o,
                format_args!("mul.rn.f32 x{j},x{j},q;\n{}", self.encoded(&format!("e{j}"), &format!("x{j}"))),
            );
        }
        o.push_str("}\n");
    }

    /// What becomes of the numbers: `number` is that of the lane's place, in bits.
    pub fn follow(&self, o: &mut String) {
        let count = self.how.count;
        if self.how.after == Followed::Nothing {
            return;
        }
        put(o, format_args!("{{\n.reg .f32 y,sum,q,sx,sn,sr;\n.reg .b32 sb;"));
        put(o, format_args!("{}", self.decoded("y", "number", "sb")));
        if self.how.after == Followed::Softmax {
            put(o, format_args!("shfl.sync.idx.b32 sum,y,0,31,-1;"));
            for k in 1..count {
                put(o, format_args!("shfl.sync.idx.b32 q,y,{k},31,-1; max.f32 sum,sum,q;"));
            }
            put(o, format_args!("sub.rn.f32 y,y,sum;"));
            exponential(o, "y");
        }
        put(o, format_args!("mov.f32 sum,0f00000000;"));
        for k in 0..count {
            put(o, format_args!("shfl.sync.idx.b32 q,y,{k},31,-1; add.rn.f32 sum,sum,q;"));
        }
        if self.how.after == Followed::Softmax {
            put(o, format_args!("rcp.approx.f32 q,sum; mul.rn.f32 y,y,q;"));
        } else {
            // The sum is rounded as if it had been stored.
            put(
                o,
                format_args!(
                    "{}{}div.rn.f32 y,y,sum;",
                    self.encoded("sb", "sum"),
                    self.decoded("sum", "sb", "sb")
                ),
            );
        }
        put(o, format_args!("{}}}", self.encoded("number", "y")));
    }
}

/// exp of the number in `x`, as shaders/lib/expf.glsl has it; takes registers `sx`, `sn`, `sr` and `sb`.
fn exponential(o: &mut String, x: &str) {
    put(
        o,
        format_args!(
            "{{
.reg .pred xp,xq;
.reg .b32 xb,xs;
mov.b32 xb,{x}; setp.gt.u32 xp,xb,0xc2d00000; setp.le.u32 xq,xb,0xff800000; and.pred xp,xp,xq; selp.f32 {x},0fC2D00000,{x},xp;
mul.rn.f32 sn,{x},0f3FB8AA3B; cvt.rni.f32.f32 sn,sn;
fma.rn.f32 sr,sn,0fBF318000,{x}; fma.rn.f32 sr,sn,0f395E8083,sr;
fma.rn.f32 sx,sr,0f39506967,0f3AB743CE; fma.rn.f32 sx,sx,sr,0f3C088908; fma.rn.f32 sx,sx,sr,0f3D2AA9C1; fma.rn.f32 sx,sx,sr,0f3E2AAAAA; fma.rn.f32 sx,sx,sr,0f3F000000;
mul.rn.f32 {x},sr,sr; fma.rn.f32 sx,sx,{x},sr; add.rn.f32 sx,sx,0f3F800000;
add.rn.f32 sn,sn,0f4B400000; mov.b32 xs,sn; shl.b32 xs,xs,23; add.u32 xs,xs,0x5f800000; mov.b32 sn,xs; mul.rn.f32 {x},sx,sn; mul.rn.f32 {x},{x},0f1F800000;
}}"
        ),
    );
}
