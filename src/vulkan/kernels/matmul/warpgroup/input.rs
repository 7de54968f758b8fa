//! The input of a convolution as a side of a product, element by element where a tap meets an output position, and zero outside: no
//! matrix of it is ever written. Chunks of eight channels of a tap are numbered as the kernel's elements are; a table in memory has where
//! each lies from the place of a position. The other coordinate is reckoned once for a row of the left side, and step by step where
//! positions are K.

use std::mem::offset_of;

use super::program::{PRODUCT, Program, STEP};
use super::text::{Told, put};

/// What kernels are told of a convolution, behind their other arguments; axes are x, y, z.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Input {
    /// Address of the table of chunks: their x, y, z and elements from the place of a position, four words each.
    pub table: [u32; 2],
    /// Output positions along each axis.
    pub out: [u32; 3],
    /// Input elements from an output position to the next.
    pub stride: [u32; 3],
    /// Sizes of the input.
    pub size: [u32; 3],
    /// Elements of the input from an output position to the next, and from image to image.
    pub step: [u32; 4],
    /// Likewise of the result.
    pub result: [u32; 4],
    /// What 4 and 28 output positions further on adds to the place, and to the elements.
    pub jump: [[u32; 4]; 2],
}

/// Bytes of [`Input`].
pub const INPUT: usize = size_of::<Input>();

const _: () = assert!(INPUT == 27 * 4);
// SAFETY: repr(C) of words.
unsafe impl Told for Input {}

/// Elements of a chunk.
pub const CHUNK: u32 = 8;
/// Names of axes in texts.
const NAMES: [&str; 3] = ["x", "y", "z"];

/// Bytes of the table for so many elements.
pub fn chunk_bytes(elements: u32) -> u32 {
    elements / CHUNK * 16
}

/// Pieces that lie between the one that is multiplied and the one whose room is filled anew.
const BEHIND: u32 = 3;

/// Registers that such kernels have besides: places of two rows, chunks, sizes, and where an axis ends; what is fetched next.
pub(super) fn registers() -> String {
    let names = NAMES.map(|a| format!("p{a}<2>,d{a}<4>,size{a},end{a},back{a},stride{a}"));
    format!(".reg .pred one;\n.reg .b32 {},off<4>,base,room,turn,more;\n", names.join(","))
}

fn names(axes: u32) -> impl Iterator<Item = (usize, &'static str)> {
    NAMES.into_iter().enumerate().take(axes as usize)
}

/// Byte of the arguments where a word of a field lies.
fn at(field: usize, word: usize) -> usize {
    PRODUCT + field + 4 * word
}

impl Program {
    /// The place of an output position, into `p{axis}{to}`; `x` is the sum of its coordinates by `steps`, a field of [`Input`].
    fn position(o: &mut String, axes: u32, row: &str, to: u32, steps: usize) {
        put(o, format_args!("mov.u32 rest,{row};"));
        for (i, axis) in names(axes) {
            put(
                o,
                format_args!(
                    "ld.param.u32 tmp2,[args+{}]; div.u32 tmp,rest,tmp2; mul.lo.u32 tmp2,tmp,tmp2;
sub.u32 p{axis}{to},rest,tmp2; mov.u32 rest,tmp;",
                    at(offset_of!(Input, out), i)
                ),
            );
        }
        put(o, format_args!("ld.param.u32 tmp2,[args+{}]; mul.wide.u32 x,rest,tmp2;", at(steps, 3)));
        for (i, axis) in names(axes) {
            put(
                o,
                format_args!("ld.param.u32 tmp2,[args+{}]; mad.wide.u32 x,p{axis}{to},tmp2,x;", at(steps, i)),
            );
        }
    }

    /// The offset of a row of the result, in `x`.
    pub(super) fn result_row(o: &mut String, axes: u32, row: u32) {
        Self::position(o, axes, &format!("row{row}"), row, offset_of!(Input, result));
    }

    /// Output positions become input elements; sizes of the input.
    fn strides(o: &mut String, axes: u32, places: u32) {
        for (i, axis) in names(axes) {
            let [stride, size] = [offset_of!(Input, stride), offset_of!(Input, size)].map(|f| at(f, i));
            put(
                o,
                format_args!(
                    "ld.param.u32 stride{axis},[args+{stride}]; ld.param.u32 size{axis},[args+{size}];"
                ),
            );
            (0..places).for_each(|p| put(o, format_args!("mul.lo.u32 p{axis}{p},p{axis}{p},stride{axis};")));
        }
    }

    /// Where no warpgroup fetches, the first thread does: as many pieces as there are before the loop, then one for each product.
    pub(super) fn fetch_first(self, o: &mut String) {
        let (stages, piece) = (self.stages(), self.piece());
        let first = stages - BEHIND;
        Self::matrix(o);
        let from = format!("mad.lo.u32 tmp,tn,all,begin; mul.wide.u32 x,tmp,{piece}; add.u64 from,b,x;");
        put(
            o,
            format_args!(
                "{from} min.u32 left,steps,{first};
setp.eq.u32 one,tid,0;
@!one bra BEGUN;"
            ),
        );
        self.fetch_pieces(o, stages, piece);
        put(
            o,
            format_args!(
                "BEGUN:
bar.warp.sync 0xffffffff;
{from} add.u64 from,from,{};
mov.u32 slot,0; mov.u32 left,steps; max.u32 more,steps,{first}; sub.u32 more,more,{first};
mov.u32 room,{first}; mov.u32 turn,1;",
                first * piece
            ),
        );
    }

    /// The next piece, where both warpgroups are done with what is in its room. All threads wait for that, so that none goes
    /// another way.
    pub(super) fn fetch_next(self, o: &mut String, step: u32) {
        put(
            o,
            format_args!(
                "shl.b32 tmp,room,3; add.u32 tmp2,emptyb,tmp;
ROOM{step}:
mbarrier.try_wait.parity.shared::cta.b64 q,[tmp2],turn;
@!q bra ROOM{step};
add.u32 tmp2,fullb,tmp; mad.lo.u32 lo,room,{piece},sm; setp.ne.u32 r,more,0; and.pred q,r,one;
@q mbarrier.arrive.expect_tx.shared::cta.b64 _,[tmp2],{piece};
@q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [lo],[from],{piece},[tmp2];
@r sub.u32 more,more,1;
add.u64 from,from,{piece};
add.u32 room,room,1; setp.eq.u32 q,room,{stages};
@q mov.u32 room,0;
@q xor.b32 turn,turn,1;",
                piece = self.piece(),
                stages = self.stages()
            ),
        );
    }

    /// The rows of a thread, and the first chunk of its part of K.
    pub(super) fn begin_input(o: &mut String, axes: u32) {
        put(
            o,
            format_args!(
                "ld.param.u64 e0,[args+{}]; mul.wide.u32 x,begin,{}; add.u64 e0,e0,x; mul.wide.u32 x,t,16; add.u64 e0,e0,x;",
                at(offset_of!(Input, table), 0),
                chunk_bytes(STEP)
            ),
        );
        Self::next_chunk(o, 0);
        put(o, format_args!("sub.u32 high,rows,1;"));
        for row in 0..2 {
            // Rows behind the last one are it.
            put(o, format_args!("min.u32 per,row{row},high;"));
            Self::position(o, axes, "per", row, offset_of!(Input, step));
            put(o, format_args!("shl.b64 x,x,1; add.u64 a{row},a,x;"));
        }
        Self::strides(o, axes, 2);
    }

    /// Fetches what the table has of the chunk `ahead` blocks of 32 elements on.
    fn next_chunk(o: &mut String, ahead: u32) {
        put(o, format_args!("ld.global.nc.v4.b32 {{dx0,dy0,dz0,off0}},[e0+{}];", ahead * chunk_bytes(32)));
    }

    /// Fetches the rows' block `ahead`, whose place is there, into the registers of block `to`, zeros outside the input; and the
    /// place of the block behind it.
    pub(super) fn load_input(o: &mut String, axes: u32, to: u32, ahead: u32) {
        for (row, f) in [(0, to * 8), (1, to * 8 + 4)] {
            (f..f + 4).for_each(|i| put(o, format_args!("mov.b32 f{i},0;")));
            for (i, axis) in names(axes) {
                let (test, and) = if i == 0 { ("setp.lt.u32", "") } else { ("setp.lt.and.u32", ",q") };
                put(o, format_args!("add.u32 tmp,p{axis}{row},d{axis}0; {test} q,tmp,size{axis}{and};"));
            }
            put(
                o,
                format_args!(
                    "mad.wide.s32 x,off0,2,a{row};
@q ld.global.nc.v4.b32 {{f{},f{},f{},f{}}},[x];",
                    f,
                    f + 1,
                    f + 2,
                    f + 3
                ),
            );
        }
        Self::next_chunk(o, ahead + 1);
    }

    /// All threads of the warpgroup that fetches copy chunks, as those of a matrix that lies across: a thread has the same taps
    /// and channels for each position.
    pub(super) fn fetch_input(self, o: &mut String, axes: u32) {
        let chunks = self.columns / 64;
        self.producer(o);
        self.chunk(o);
        put(
            o,
            format_args!(
                "ld.param.u64 e0,[args+{}]; shr.u32 tmp,col,3; mul.wide.u32 x,tmp,16; add.u64 e0,e0,x;",
                at(offset_of!(Input, table), 0)
            ),
        );
        for i in 0..chunks {
            put(
                o,
                format_args!(
                    "ld.global.nc.v4.b32 {{dx{i},dy{i},dz{i},off{i}}},[e0+{}];",
                    i * chunk_bytes(64)
                ),
            );
        }
        Self::position(o, axes, "kpos", 0, offset_of!(Input, step));
        put(o, format_args!("cvt.u32.u64 base,x;"));
        Self::strides(o, axes, 1);
        for (i, axis) in names(axes) {
            // An axis that ends is taken off, and the next one goes on.
            let next = if i + 1 == axes as usize { 3 } else { i + 1 };
            let step = |i| at(offset_of!(Input, step), i);
            put(
                o,
                format_args!(
                    "ld.param.u32 tmp,[args+{}]; mul.lo.u32 end{axis},tmp,stride{axis};
ld.param.u32 tmp2,[args+{}]; mul.lo.u32 tmp2,tmp,tmp2; ld.param.u32 tmp,[args+{}]; sub.u32 back{axis},tmp,tmp2;",
                    at(offset_of!(Input, out), i),
                    step(i),
                    step(next)
                ),
            );
        }
        put(o, format_args!("FETCH:"));
        for (step, deeper) in [(0, 4), (1, 28)] {
            self.room(o, step);
            for i in 0..chunks {
                for (_, axis) in names(axes) {
                    let and = if axis == "x" { "p" } else { "q" };
                    put(
                        o,
                        format_args!(
                            "add.u32 tmp,p{axis}0,d{axis}{i}; setp.lt.and.u32 q,tmp,size{axis},{and};"
                        ),
                    );
                }
                put(
                    o,
                    format_args!(
                        "add.u32 tmp,base,off{i}; mad.wide.u32 x,tmp,2,b; selp.u32 tmp,16,0,q;
cp.async.cg.shared.global [lo+{}],[x],16,tmp;",
                        1024 * i
                    ),
                );
            }
            self.copied_piece(o, deeper);
            Self::onward(o, axes, step as usize);
        }
        Self::copied_all(o);
    }

    /// The place of the position that is a jump further on.
    fn onward(o: &mut String, axes: u32, jump: usize) {
        let by = |i| at(offset_of!(Input, jump), 4 * jump + i);
        put(o, format_args!("ld.param.u32 tmp,[args+{}]; add.u32 base,base,tmp;", by(3)));
        for (i, axis) in names(axes) {
            put(o, format_args!("ld.param.u32 tmp,[args+{}]; add.u32 p{axis}0,p{axis}0,tmp;", by(i)));
        }
        for (i, axis) in names(axes) {
            put(
                o,
                format_args!(
                    "setp.ge.u32 q,p{axis}0,end{axis};
@q sub.u32 p{axis}0,p{axis}0,end{axis};
@q add.u32 base,base,back{axis};"
                ),
            );
            if let Some((_, next)) = names(axes).nth(i + 1) {
                put(o, format_args!("@q add.u32 p{next}0,p{next}0,stride{next};"));
            }
        }
    }
}
