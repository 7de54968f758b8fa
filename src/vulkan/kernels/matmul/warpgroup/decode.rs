//! Codes of four bits as the left side of a product on warpgroups.

use super::program::{Args, DEPTH, Program, STEP};
use super::text::put;
use crate::core::Dtype;

impl Program {
    /// Pairs of elements, and the bits of the number that has a code as its last digits: 128, or 1024.
    fn digits(self) -> (&'static str, u32) {
        if self.dtype == Dtype::BF16 { ("bf16x2", 0x4300_4300) } else { ("f16x2", 0x6400_6400) }
    }

    /// Fetches the codes of the next 128 elements, and the scale and bias that this thread's have, into `u` and `z`.
    pub(super) fn load_codes(o: &mut String, group: u32) {
        put(
            o,
            format_args!(
                "setp.lt.u32 q,kpos,k;
@q ld.global.nc.L1::no_allocate.v4.b32 {{u0,u1,u2,u3}},[a0];
@q ld.global.nc.L1::no_allocate.v4.b32 {{u4,u5,u6,u7}},[a1];
@q ld.global.nc.u16 z0,[e0];
@q ld.global.nc.u16 z1,[e1];
@q ld.global.nc.u16 z2,[e2];
@q ld.global.nc.u16 z3,[e3];
add.u64 a0,a0,64; add.u64 a1,a1,64; add.u32 kpos,kpos,{DEPTH};"
            ),
        );
        for i in 0..4 {
            put(o, format_args!("add.u64 e{i},e{i},{};", 2 * DEPTH / group));
        }
    }

    /// What was fetched is used now, and more fetched.
    pub(super) fn rotate_codes(o: &mut String, group: u32) {
        for i in 0..8 {
            put(o, format_args!("mov.b32 w{i},u{i};"));
        }
        for i in 0..4 {
            put(o, format_args!("prmt.b32 sc{i},z{i},0,0x1010;"));
        }
        Self::load_codes(o, group);
    }

    /// Makes a block of eight elements of both rows of codes, as dequantize.comp does: products with the scale and sums with the bias
    /// are rounded one by one.
    pub(super) fn decode(self, o: &mut String, block: u32) {
        let (kind, magic) = self.digits();
        for (row, pair) in [0, 1].into_iter().flat_map(|r| (0..4).map(move |p| (r, p))) {
            let (from, to) = (4 * row + block, block % 2 * 8 + 4 * row + pair);
            put(
                o,
                format_args!(
                    "shr.u32 tmp,w{from},{}; lop3.b32 tmp,tmp,0x000f000f,{magic},0xea;
sub.rn.{kind} tmp,tmp,v7; mul.rn.{kind} tmp,tmp,sc{row}; add.rn.{kind} f{to},tmp,sc{};",
                    4 * pair,
                    row + 2
                ),
            );
        }
    }

    /// Where a thread's codes, scales and biases lie, and the first of them.
    pub(super) fn begin_codes(self, o: &mut String, group: u32) {
        let (_, magic) = self.digits();
        put(
            o,
            format_args!(
                "ld.param.u32 tmp2,[args+{lds}]; ld.param.u64 e0,[args+{scales}]; ld.param.u64 e2,[args+{biases}];
add.u64 e0,e0,from; add.u64 e2,e2,from;
mul.lo.u32 kpos,begin,{STEP}; mov.b32 v7,{magic};
shr.u32 tmp,kpos,3; mad.lo.u32 tmp,t,4,tmp; cvt.u64.u32 y,tmp;
sub.u32 id,rows,1; min.u32 per,row0,id; min.u32 rest,row1,id;
mul.wide.u32 x,per,lda; add.u64 x,x,y; shl.b64 x,x,2; add.u64 a0,a,x;
mul.wide.u32 x,rest,lda; add.u64 x,x,y; shl.b64 x,x,2; add.u64 a1,a,x;
mad.lo.u32 tmp,t,32,kpos; div.u32 tmp,tmp,{group}; cvt.u64.u32 y,tmp;
mul.wide.u32 x,rest,tmp2; add.u64 x,x,y; shl.b64 x,x,1; add.u64 e1,e0,x; add.u64 e3,e2,x;
mul.wide.u32 x,per,tmp2; add.u64 x,x,y; shl.b64 x,x,1; add.u64 e0,e0,x; add.u64 e2,e2,x;",
                lds = std::mem::offset_of!(Args, lds),
                scales = std::mem::offset_of!(Args, scales),
                biases = std::mem::offset_of!(Args, biases),
            ),
        );
        for i in 0..8 {
            put(o, format_args!("mov.b32 u{i},0;"));
        }
        Self::load_codes(o, group);
        Self::rotate_codes(o, group);
        self.decode(o, 0);
    }
}
