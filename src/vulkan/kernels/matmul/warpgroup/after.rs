//! What happens to the sums of a tile before they are stored as elements of 16 bits: those of the other parts of K are added, and an
//! addend. Parts are added by the workgroup that comes last to a tile, one after the other from the first on, so that results
//! have the same bits in every run; nobody waits for another workgroup.

use std::mem::offset_of;

use super::program::{Args, Program, ROWS, Store};
use super::text::{self, put, turn};
use crate::vulkan::kernels::matmul::{Operand, Problem};

/// What is added to a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Addend {
    /// Nothing.
    #[default]
    None,
    /// A row, to each row of the result.
    Row,
    /// A matrix of the result's shape.
    Matrix,
}

/// What a kernel does before it stores elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct After {
    /// Whether K is in parts, which are added here.
    pub joined: bool,
    /// What is added then.
    pub addend: Addend,
}

/// What the kernel is told of that.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct AfterArgs {
    /// Room for the sums of all parts of all tiles.
    pub sums: u64,
    /// A zero for each tile.
    pub counters: u64,
    /// The addend.
    pub addend: u64,
    /// Its elements from matrix to matrix, inner and outer axis.
    pub addend_batch: [u32; 2],
    /// Its elements from row to row.
    pub addend_ld: u32,
    /// The result is `alpha` times the product and `beta` times the addend.
    pub alpha: f32,
    pub beta: f32,
    /// The bytes are a multiple of eight.
    pub rest: u32,
}

/// Place of a field among the arguments.
macro_rules! place {
    ($field:ident) => {
        offset_of!(Args, after) + offset_of!(AfterArgs, $field)
    };
}

impl After {
    /// What tells the kernels apart.
    pub fn name(self) -> String {
        let addend = match self.addend {
            Addend::None => "",
            Addend::Row => "_row_added",
            Addend::Matrix => "_added",
        };
        format!("{}{addend}", if self.joined { "_joined" } else { "" })
    }
}

/// How the kernel takes the addend of a problem, if it can: elements of a row beside each other.
pub fn addend(p: &Problem) -> Option<Addend> {
    let Some(c) = &p.c else { return Some(Addend::None) };
    let pairs = |c: &Operand| c.ptr.is_multiple_of(4) && c.batch.iter().all(|s| s % 2 == 0);
    match c {
        c if p.beta == 0.0 || c.cs != 1 => None,
        c if c.rs == 0 => pairs(c).then_some(Addend::Row),
        c => c.aligned(p.dtype, c.rs).then_some(Addend::Matrix),
    }
}

/// The arguments of that addend.
pub fn addend_args(p: &Problem) -> AfterArgs {
    let Some(c) = &p.c else { return AfterArgs::default() };
    // FITS: `solve` cut what does not fit 32 bits.
    let stride = |i: usize| c.batch.iter().rev().nth(i).copied().unwrap_or(0) as u32;
    AfterArgs {
        addend: c.ptr,
        addend_batch: [stride(0), stride(1)],
        addend_ld: c.rs as u32,
        alpha: p.alpha,
        beta: p.beta,
        ..AfterArgs::default()
    }
}

/// Bytes of the sums of one part of a tile.
pub fn tile_bytes(columns: u32) -> u64 {
    u64::from(ROWS * columns) * 4
}

impl Program {
    /// Everything that happens between the products and the stores.
    pub(super) fn finish(self, o: &mut String) {
        let After { joined, addend } = self.after;
        if joined {
            self.join(o);
        }
        if addend == Addend::None {
            return;
        }
        put(
            o,
            format_args!(
                ".reg .f32 alpha,beta,l<2>;
.reg .b16 h<2>;
ld.param.f32 alpha,[args+{alpha}]; ld.param.f32 beta,[args+{beta}]; ld.param.u64 a,[args+{addend}];
ld.param.u32 s0,[args+{inner}]; ld.param.u32 s1,[args+{outer}]; ld.param.u32 ldb,[args+{ld}];
mul.wide.u32 x,i0,s0; mul.wide.u32 y,i1,s1; add.u64 x,x,y; shl.b64 x,x,1; add.u64 a,a,x;",
                alpha = place!(alpha),
                beta = place!(beta),
                addend = place!(addend),
                inner = place!(addend_batch),
                outer = place!(addend_batch) + 4,
                ld = place!(addend_ld),
            ),
        );
        match (addend, self.store == Store::Columns) {
            (Addend::None, _) => {}
            (Addend::Row, false) => self.add_row(o),
            (Addend::Row, true) => self.add_row_turned(o),
            (Addend::Matrix, false) => self.add_matrix(o),
            (Addend::Matrix, true) => self.add_matrix_turned(o),
        }
    }

    /// Leaves the sums where each thread finds its own, counts the workgroup, and lets all but the last one of the tile go; that
    /// one has the sums of all parts. The memory is as in shaders/lib/last.glsl: a barrier, a count that releases and acquires
    /// at the scope of the device, a barrier.
    fn join(self, o: &mut String) {
        let (vectors, bytes) = (self.columns / 8, tile_bytes(self.columns));
        put(
            o,
            format_args!(
                "mov.u32 tmp,%ctaid.x; mov.u32 tmp2,%ctaid.z; mov.u32 s0,%nctaid.x; mad.lo.u32 tmp,tmp2,s0,tmp;
mov.u32 s0,%nctaid.y; mov.u32 s1,%ctaid.y; mul.lo.u32 tmp2,tmp,s0;
ld.param.u64 a,[args+{sums}]; mul.wide.u32 x,tid,16; add.u64 a,a,x; mul.wide.u32 x,tmp2,{bytes}; add.u64 a,a,x;
mul.wide.u32 x,s1,{bytes}; add.u64 a0,a,x; ld.param.u64 y,[args+{counters}]; mul.wide.u32 x,tmp,4; add.u64 y,y,x;",
                sums = place!(sums),
                counters = place!(counters),
            ),
        );
        for i in 0..vectors {
            let [c0, c1, c2, c3] = [0, 1, 2, 3].map(|e| 4 * i + e);
            put(o, format_args!("st.global.v4.f32 [a0+{}],{{c{c0},c{c1},c{c2},c{c3}}};", 4096 * i));
        }
        put(
            o,
            format_args!(
                "bar.sync 1,256;
sub.u32 left,s0,1; mov.u32 tmp,0; setp.eq.u32 p,tid,0;
@p fence.acq_rel.gpu;
@p atom.add.acq_rel.gpu.global.u32 tmp,[y],1;
@p fence.acq_rel.gpu;
setp.eq.and.u32 q,tmp,left,p;
@q st.global.u32 [y],0;
bar.red.or.pred p,1,256,q;
@!p bra DONE;"
            ),
        );
        self.add_parts(o, bytes);
    }

    /// Adds the sums of the second and all further parts to those of the first, at `a`; of two the other one to the workgroup's own,
    /// since a sum of two numbers has no order. A thread has up to four times 16 of them on their way.
    fn add_parts(self, o: &mut String, bytes: u64) {
        let units = self.columns / 32;
        // As many as go evenly into a part.
        let ahead = (1..=4).rev().find(|a| units.is_multiple_of(*a)).unwrap_or(1);
        // Sixteen sums of a part, from `at` bytes behind `a` on.
        let load = |o: &mut String, guard: &str, to: &str, first: u32, at: u64| {
            for i in 0..4 {
                let [m0, m1, m2, m3] = [0, 1, 2, 3].map(|e| first + 4 * i + e);
                put(
                    o,
                    format_args!(
                        "{guard}ld.relaxed.gpu.global.v4.f32 {{{to}{m0},{to}{m1},{to}{m2},{to}{m3}}},[a+{}];",
                        at + 4096 * u64::from(i)
                    ),
                );
            }
        };
        let unit = |u: u32| 16_384 * u64::from(u);
        put(
            o,
            format_args!(
                ".reg .f32 m<{}>;
setp.eq.u32 p,s0,2; mul.wide.u32 x,s1,{bytes};
@p sub.u64 a,a,x;
@p bra TWO;",
                16 * ahead
            ),
        );
        (0..units).for_each(|u| load(o, "", "c", 16 * u, unit(u)));
        put(o, format_args!("TWO:"));
        (0..ahead).for_each(|u| load(o, "", "m", 16 * u, bytes + unit(u)));
        put(o, format_args!("ADD:\nadd.u64 a,a,{bytes}; setp.gt.u32 p,left,1;"));
        for u in 0..units {
            let held = 16 * (u % ahead);
            for i in 0..16 {
                put(o, format_args!("add.f32 c{0},c{0},m{1};", 16 * u + i, held + i));
            }
            match u + ahead {
                next if next < units => load(o, "", "m", held, unit(next)),
                next => load(o, "@p ", "m", held, bytes + unit(next - units)),
            }
        }
        put(o, format_args!("sub.u32 left,left,1; setp.ne.u32 q,left,0;\n@q bra ADD;"));
    }

    /// A pair of elements of the addend as float32 numbers, times beta.
    fn scaled(self, o: &mut String, pair: &str) {
        text::pair(o, self.dtype, ["l0", "l1"], pair, "tmp");
        put(o, format_args!("mul.rn.f32 l0,l0,beta; mul.rn.f32 l1,l1,beta;"));
    }

    /// Adds the number of a pair to a sum.
    fn add(o: &mut String, sum: u32, which: u32) {
        put(o, format_args!("fma.rn.f32 c{sum},alpha,c{sum},l{which};"));
    }

    /// A row: a thread has the same columns of both of its rows.
    fn add_row(self, o: &mut String) {
        put(o, format_args!("mad.lo.u32 s0,t,2,col; mul.wide.u32 x,s0,2; add.u64 a,a,x;"));
        for group in 0..self.columns / 64 {
            for i in 0..8 {
                let block = 8 * group + i;
                put(
                    o,
                    format_args!(
                        "add.u32 tmp,s0,{}; setp.lt.u32 q,tmp,columns; mov.b32 v{i},0;
@q ld.global.b32 v{i},[a+{}];",
                        8 * block,
                        16 * block
                    ),
                );
            }
            for i in 0..8 {
                self.scaled(o, &format!("v{i}"));
                (0..4).for_each(|e| Self::add(o, 4 * (8 * group + i) + e, e % 2));
            }
        }
    }

    /// A row, where rows of the tile are columns of the result: two elements for all sums of a thread.
    fn add_row_turned(self, o: &mut String) {
        put(
            o,
            format_args!(
                "mul.wide.u32 x,row0,2; add.u64 a,a,x; mov.b32 z0,0; mov.b32 z1,0;
@row0ok ld.global.u16 z0,[a];
@row1ok ld.global.u16 z1,[a+16];
shl.b32 z1,z1,16; or.b32 v0,z0,z1;"
            ),
        );
        self.scaled(o, "v0");
        (0..self.columns / 2).for_each(|c| Self::add(o, c, c / 2 % 2));
    }

    /// A matrix: each lane reads what it will write, and has it turned back.
    fn add_matrix(self, o: &mut String) {
        Self::odd_lanes(o);
        put(
            o,
            format_args!(
                "mad.lo.u32 s0,t,8,col; cvt.u64.u32 y,s0;
mul.wide.u32 x,row0,ldb; add.u64 x,x,y; shl.b64 x,x,1; add.u64 a0,a,x;
mul.wide.u32 x,row1,ldb; add.u64 x,x,y; shl.b64 x,x,1; add.u64 a1,a,x;"
            ),
        );
        // Four loads, of two blocks of 32 columns in both rows, are on their way together.
        for group in 0..self.columns / 64 {
            let four = [0, 1, 2, 3].map(|i| (2 * group + i / 2, i % 2));
            for ((block, row), i) in four.into_iter().zip(0..) {
                put(o, format_args!("add.u32 tmp,s0,{}; setp.lt.u32 q,tmp,columns;", 32 * block));
                Self::load_four(o, i, &format!("row{row}ok"), &format!("a{row}+{}", 64 * block));
            }
            for ((block, row), i) in four.into_iter().zip(0..) {
                Self::turn_four(o, i);
                for e in 0..4 {
                    self.scaled(o, &format!("v{e}"));
                    let sum = 4 * (4 * block + e) + 2 * row;
                    (0..2).for_each(|which| Self::add(o, sum + which, which));
                }
            }
        }
    }

    /// A matrix, where rows of the tile are columns of the result: likewise.
    fn add_matrix_turned(self, o: &mut String) {
        Self::odd_lanes(o);
        put(
            o,
            format_args!(
                "sub.u32 s0,row0,g; mad.lo.u32 s0,tmp,8,s0; setp.lt.u32 again,s0,rows;
mad.lo.u32 s1,tmp2,4,col; add.u32 s1,s1,g;
mul.wide.u32 x,s1,ldb; cvt.u64.u32 y,s0; add.u64 x,x,y; shl.b64 x,x,1; add.u64 a0,a,x;
mul.wide.u32 y,ldb,32;"
            ),
        );
        for group in 0..self.columns / 64 {
            for i in 0..4 {
                put(o, format_args!("add.u32 tmp,s1,{}; setp.lt.u32 q,tmp,columns;", 16 * (4 * group + i)));
                Self::load_four(o, i, "again", "a0");
                put(o, format_args!("add.u64 a0,a0,y;"));
            }
            for i in 0..4 {
                Self::turn_four(o, i);
                for e in 0..4 {
                    put(o, format_args!("movmatrix.sync.aligned.m8n8.trans.b16 v{e},v{e};"));
                    self.scaled(o, &format!("v{e}"));
                    let sum = 8 * (4 * group + i) + 2 * e;
                    (0..2).for_each(|which| Self::add(o, sum + which, which));
                }
            }
        }
    }

    /// Sixteen bytes into the `i`-th four of f, where `q` and the row are there, else zeros.
    fn load_four(o: &mut String, i: u32, row: &str, from: &str) {
        let [f0, f1, f2, f3] = [0, 1, 2, 3].map(|e| 4 * i + e);
        put(
            o,
            format_args!(
                "and.pred q,q,{row}; mov.b32 f{f0},0; mov.b32 f{f1},0; mov.b32 f{f2},0; mov.b32 f{f3},0;
@q ld.global.v4.b32 {{f{f0},f{f1},f{f2},f{f3}}},[{from}];"
            ),
        );
    }

    /// The `i`-th four of f turned, in v.
    fn turn_four(o: &mut String, i: u32) {
        (0..4).for_each(|e| put(o, format_args!("mov.b32 v{e},f{};", 4 * i + e)));
        turn(o, ["p", "r"]);
    }
}
