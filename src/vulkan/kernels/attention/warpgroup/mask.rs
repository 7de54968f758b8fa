//! Dense masks in the text of attention on warpgroups: a thread asks for what meets its scores of the next keys while their products are under
//! way. Scores are powers of two's then, as in attention.glsl: what a mask takes out is the lowest finite number, so that a row that sees
//! nothing is an average.

use std::f32::consts::LOG2_E;

use super::program::{ARGS, KEYS, Program};
use crate::core::Dtype;
use crate::kernels::DeviceView;
use crate::vulkan::kernels::attention::blocks::in_pairs;
use crate::vulkan::kernels::attention::steps;
use crate::vulkan::kernels::matmul::warpgroup::text::{Told, put};

/// What a mask has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mask {
    /// Numbers of the queries' dtype, which are added; else true where a key is seen.
    pub added: bool,
    /// Neighbours in a row can be read together.
    pub pairs: bool,
}

/// What the kernel is told of it, behind the other arguments: where it is, and bytes from batch to batch, head to head, row to row.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MaskArgs {
    at: u64,
    steps: [u64; 3],
}

// SAFETY: repr(C) of 8-byte fields.
unsafe impl Told for MaskArgs {}

/// The lowest finite number.
const LOWEST: u32 = f32::MIN.to_bits();
/// Numbers below this that are added make the lowest one.
const LOW: u32 = (-2e38_f32).to_bits();
/// Scores of a thread of a row, in pairs.
const PAIRS: u32 = KEYS / 8;

impl Mask {
    /// The kind of a mask of the shape of scores, if the text reads those that lie so.
    pub fn of(mask: &DeviceView, dtype: Dtype) -> Option<Mask> {
        let added = mask.dtype == dtype;
        let s = steps(mask);
        let there = s[3] == 1 && s[..3].iter().all(|s| (0..1 << 32).contains(s));
        let known = added || mask.dtype == Dtype::Bool;
        (there && known).then(|| Mask { added, pairs: in_pairs(mask) })
    }

    pub fn name(self) -> &'static str {
        match (self.added, self.pairs) {
            (true, true) => "_added_pairs",
            (true, false) => "_added",
            (false, true) => "_masked_pairs",
            (false, false) => "_masked",
        }
    }

    /// Registers of what meets scores.
    pub fn registers(self) -> String {
        let of_row = if self.pairs { PAIRS } else { 2 * PAIRS };
        let kind = if self.added && self.pairs { "b32" } else { "b16" };
        format!(".reg .{kind} mv<{}>;\n.reg .b64 mp0,mp1;\n.reg .f32 sees,mx,my;\n.reg .b32 mt;", 2 * of_row)
    }
}

impl MaskArgs {
    pub fn of(mask: &DeviceView) -> MaskArgs {
        let (size, s) = (mask.dtype.size() as u64, steps(mask));
        // FITS: `Mask::of` asks for strides that are not negative.
        MaskArgs { at: mask.ptr, steps: [0, 1, 2].map(|i| s[i] as u64 * size) }
    }
}

impl Program {
    /// Where the thread's two rows of the mask are; those behind the last query are its.
    pub(super) fn mask_rows(self, o: &mut String) {
        let Some(mask) = self.mask else { return };
        put(
            o,
            format_args!(
                "ld.param.u64 z,[args+{at}]; ld.param.u64 y,[args+{batch}]; cvt.u64.u32 x,b; mad.lo.u64 z,x,y,z; ld.param.u64 y,[args+{head}]; cvt.u64.u32 x,h; mad.lo.u64 z,x,y,z;
shl.b32 tmp,t,{pair}; cvt.u64.u32 x,tmp; add.u64 z,z,x; ld.param.u64 y,[args+{row}]; sub.u32 tmp,l,1;
min.u32 tmp2,row0,tmp; cvt.u64.u32 x,tmp2; mad.lo.u64 mp0,x,y,z; min.u32 tmp2,row1,tmp; cvt.u64.u32 x,tmp2; mad.lo.u64 mp1,x,y,z;",
                at = ARGS,
                batch = ARGS + 8,
                head = ARGS + 16,
                row = ARGS + 24,
                pair = 1 + u32::from(mask.added),
            ),
        );
    }

    /// Asks for what meets the scores of the keys from `key` on, and goes on to the next ones.
    pub(super) fn ask_mask(self, o: &mut String) {
        let Some(mask) = self.mask else { return };
        let size = 1 + u32::from(mask.added);
        put(o, format_args!("mad.lo.u32 tmp,t,2,key;"));
        for j in 0..PAIRS {
            let each = if mask.pairs { 1 } else { 2 };
            for e in 0..each {
                put(o, format_args!("add.u32 tmp2,tmp,{}; setp.lt.u32 p,tmp2,n;", 8 * j + e));
                for row in 0..2 {
                    let to = each * (2 * j + row) + e;
                    let (zero, load) = match (mask.added, mask.pairs) {
                        (true, true) => ("mov.b32", "b32"),
                        (true, false) | (false, true) => ("mov.b16", "b16"),
                        (false, false) => ("mov.b16", "u8"),
                    };
                    put(
                        o,
                        format_args!(
                            "{zero} mv{to},0;\n@p ld.global.nc.{load} mv{to},[mp{row}+{}];",
                            size * (8 * j + e)
                        ),
                    );
                }
            }
        }
        put(o, format_args!("add.u64 mp0,mp0,{0}; add.u64 mp1,mp1,{0};", size * KEYS));
    }

    /// Scores in powers of two, with what meets them.
    pub(super) fn with_mask(self, o: &mut String) {
        let Some(mask) = self.mask else { return };
        for i in 0..4 * PAIRS {
            put(o, format_args!("mul.f32 e{i},e{i},sees;"));
        }
        for (j, row, e) in (0..PAIRS).flat_map(|j| [(j, 0, 0), (j, 0, 1), (j, 1, 0), (j, 1, 1)]) {
            let (score, pair) = (4 * j + 2 * row + e, 2 * j + row);
            match (mask.added, mask.pairs) {
                (false, true) => put(
                    o,
                    format_args!(
                        "cvt.u32.u16 mt,mv{pair}; and.b32 mt,mt,{:#x}; setp.ne.u32 p,mt,0;",
                        0xff << (8 * e)
                    ),
                ),
                (false, false) => put(o, format_args!("setp.ne.b16 p,mv{},0;", 2 * pair + e)),
                (true, true) => put(o, format_args!("shr.u32 mt,mv{pair},{}; and.b32 mt,mt,0xffff;", 16 * e)),
                (true, false) => put(o, format_args!("cvt.u32.u16 mt,mv{};", 2 * pair + e)),
            }
            if !mask.added {
                put(o, format_args!("selp.f32 e{score},e{score},0f{LOWEST:08X},p;"));
                continue;
            }
            match self.dtype {
                Dtype::BF16 => put(o, format_args!("shl.b32 mt,mt,16; mov.b32 mx,mt;")),
                _ => put(o, format_args!("cvt.u16.u32 half,mt; cvt.f32.f16 mx,half;")),
            }
            // The lowest numbers stay finite.
            put(
                o,
                format_args!(
                    "fma.rn.f32 e{score},mx,0f{:08X},e{score}; setp.lt.f32 p,mx,0f{LOW:08X}; setp.gt.and.f32 p,mx,0fFF800000,p; selp.f32 e{score},0f{LOWEST:08X},e{score},p;",
                    LOG2_E.to_bits()
                ),
            );
        }
    }

    /// What scores are taken off by: of a row that has seen no key, zero.
    pub(super) fn tops(self, o: &mut String) -> [&'static str; 2] {
        if self.mask.is_none() {
            return ["m0", "m1"];
        }
        for (to, m) in [("mx", "m0"), ("my", "m1")] {
            put(o, format_args!("setp.eq.f32 p,{m},0fFF800000; selp.f32 {to},0f00000000,{m},p;"));
        }
        ["mx", "my"]
    }
}
