//! Products of short K and large results (outer products, what low-rank adapters add, scores of short heads) in PTX: what takes time is the
//! result. A warp has 32 rows and 64 columns of it, and reads both sides straight into the registers of `mma`, without shared memory and
//! without barriers, so that many workgroups write while others read. The order of K, of rows and of columns within a warp is such that a
//! lane reads neighbours and has eight neighbours of a row of the result. The twins are the other kernels of products
//! (MLX_VK_DISABLE=matmul_low_rank). Called by `matmul`.

#[cfg(test)]
mod tests;

use std::mem::offset_of;

use super::warpgroup::text::{Told, four, head, kind, put};
use super::{Problem, Table, ceil};
use crate::core::{Dtype, Result};
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::short::{Warps, low_rank};
use crate::vulkan::{CommandEncoder, Features};

/// Rows and columns of a warp.
const WARP: [u32; 2] = [32, 64];
/// Of a workgroup, however its warps lie.
const THREADS: u32 = 256;
/// Elements of K at a time, of which a lane has eight.
const CHUNK: u32 = 32;
/// Columns of a group: four of each lane of eight.
const GROUP: u32 = 32;

/// One kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Program {
    /// float16 or bfloat16.
    dtype: Dtype,
    /// Whether rows of K lie without gaps, of the left side and of the right one turned; else elements across K do.
    along: [bool; 2],
    /// How the warps of a workgroup lie.
    warps: Warps,
}

/// What the kernel is told.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Args {
    /// Both sides and the result.
    a: u64,
    b: u64,
    d: u64,
    rows: u32,
    columns: u32,
    k: u32,
    /// Elements from row to row, or from one of K to the next.
    lda: u32,
    ldb: u32,
    ldd: u32,
    /// Tiles along the columns.
    across: u32,
    /// Length of the inner batch axis, and elements from matrix to matrix along it and the outer one.
    nb0: u32,
    a_batch: [u32; 2],
    b_batch: [u32; 2],
    d_batch: u32,
    /// Products of the whole batch.
    batches: u32,
}

// SAFETY: repr(C), three words of 64 bits and fourteen of 32.
unsafe impl Told for Args {}

impl KernelKey for Program {
    fn name(&self) -> String {
        let turned = [!self.along[0], self.along[1]];
        let [a, b] = turned.map(|turned| if turned { 't' } else { 'n' });
        let many = if self.warps == Warps::ONE { String::new() } else { format!("_{}", self.warps.products) };
        format!("matmul_low_rank_{}_{a}{b}{many}", self.dtype)
    }

    fn module(&self, _: &Features) -> Module {
        Module { source: Source::Ptx { text: self.text(), threads: THREADS }, ..Default::default() }
    }
}

/// A side as lanes read it: of each group of 32 rows (columns, of the right one) a lane has four that follow each other.
struct Side {
    /// Of its registers.
    name: char,
    along: bool,
}

impl Side {
    /// The register with pair `pair` of eight elements of K of one of four rows of a group.
    fn word(&self, group: u32, row: u32, pair: u32) -> String {
        format!("{}{}", self.name, 16 * group + 4 * row + pair)
    }

    /// Where a lane reads: from the matrix on, the first of its rows, and k8, its first element of K; `ld` is the stride's place among what
    /// the kernel is told.
    fn start(&self, o: &mut String, [matrix, first]: [&str; 2], ld: usize) {
        let n = self.name;
        let (far, near) = if self.along { (first, "k8") } else { ("k8", first) };
        put(o, format_args!("ld.param.u32 t0,[args+{ld}]; mul.wide.u32 {n}step,t0,2;"));
        put(
            o,
            format_args!("mul.wide.u32 {n}at,{far},t0; shl.b64 {n}at,{n}at,1; add.u64 {n}at,{n}at,{matrix};"),
        );
        put(o, format_args!("mad.wide.u32 {n}at,{near},2,{n}at;"));
        match self.along {
            true => put(o, format_args!("mov.u64 {n}chunk,{};", 2 * CHUNK)),
            false => put(o, format_args!("shl.b64 {n}chunk,{n}step,{};", CHUNK.ilog2())),
        }
    }

    /// Eight elements of K of the rows of a group, zeros where there are none; `inside` are the predicates that say which rows there are.
    fn read(&self, o: &mut String, group: u32, inside: [String; 4]) {
        match self.along {
            true => self.read_along(o, group, inside),
            false => self.read_across(o, group, &inside[0]),
        }
    }

    fn read_along(&self, o: &mut String, group: u32, inside: [String; 4]) {
        let n = self.name;
        put(o, format_args!("mov.u64 from,{n}at;"));
        if group > 0 {
            put(o, format_args!("shl.b64 far,{n}step,{}; add.u64 from,from,far;", (GROUP * group).ilog2()));
        }
        for (row, inside) in (0..).zip(inside) {
            let words = four(&n.to_string(), 16 * group + 4 * row);
            words.split(',').for_each(|w| put(o, format_args!("mov.b32 {w},0;")));
            put(o, format_args!("and.pred q,deep,{inside};"));
            put(o, format_args!("@q ld.global.nc.v4.b32 {{{words}}},[from]; add.u64 from,from,{n}step;"));
        }
    }

    /// Four rows of an element of K are two words; those of two elements make the pairs.
    fn read_across(&self, o: &mut String, group: u32, inside: &str) {
        let n = self.name;
        put(o, format_args!("mov.u64 from,{n}at;"));
        for k in 0..8 {
            let (low, high) = (16 * group + 2 * k, 16 * group + 2 * k + 1);
            put(o, format_args!("mov.b32 u{low},0; mov.b32 u{high},0; setp.gt.and.u32 q,left,{k},{inside};"));
            let at = 2 * GROUP * group;
            put(o, format_args!("@q ld.global.nc.v2.b32 {{u{low},u{high}}},[from+{at}];"));
            put(o, format_args!("add.u64 from,from,{n}step;"));
        }
        for (pair, row) in (0..16).map(|i| (i / 4, i % 4)) {
            let [even, odd] = [4 * pair, 4 * pair + 2].map(|word| 16 * group + word + row / 2);
            let halves = if row % 2 == 0 { "0x5410" } else { "0x7632" };
            put(o, format_args!("prmt.b32 {},u{even},u{odd},{halves};", self.word(group, row, pair)));
        }
    }
}

impl Program {
    fn sides(&self) -> [Side; 2] {
        let side = |name, along| Side { name, along };
        [side('a', self.along[0]), side('b', self.along[1])]
    }

    /// Groups of columns of a warp.
    const GROUPS: u32 = WARP[1] / GROUP;

    /// Rows and columns of the results of a workgroup, of one product.
    fn tile(&self) -> [u32; 2] {
        [WARP[0] * self.warps.rows, WARP[1] * self.warps.columns]
    }

    /// The register with a sum: of two rows in a tile of sixteen (`half`: the second one), of columns `2 lane` and the next (`next`) of
    /// those that have number `column` of four in a group.
    fn sum(tile: u32, group: u32, column: u32, half: u32, next: u32) -> String {
        format!("s{}", 4 * (4 * (Self::GROUPS * tile + group) + column) + 2 * half + next)
    }

    /// The whole text.
    fn text(&self) -> String {
        let mut o = head("sm_80", size_of::<Args>(), [THREADS, 2]);
        self.places(&mut o);
        let sides = self.sides();
        put(&mut o, format_args!("CHUNKS:"));
        // Of a lane: elements of K from its first one on.
        put(&mut o, format_args!("sub.u32 left,k,k8; setp.lt.u32 deep,k8,k; @!deep mov.u32 left,0;"));
        sides[0].read(&mut o, 0, [0, 1, 2, 3].map(|row| format!("r{row}")));
        // Columns are whole eights. All is asked for before anything is waited for.
        (0..Self::GROUPS).for_each(|g| sides[1].read(&mut o, g, [0; 4].map(|_| format!("c{g}"))));
        (0..Self::GROUPS).for_each(|g| self.multiply(&mut o, g));
        for n in ['a', 'b'] {
            put(&mut o, format_args!("add.u64 {n}at,{n}at,{n}chunk;"));
        }
        put(&mut o, format_args!("add.u32 k8,k8,{CHUNK}; add.u32 first,first,{CHUNK};"));
        put(&mut o, format_args!("setp.lt.u32 q,first,k;\n@q bra CHUNKS;"));
        self.store(&mut o);
        put(&mut o, format_args!("END:\nret;\n}}"));
        o
    }

    /// Registers, and where a lane begins.
    fn places(&self, o: &mut String) {
        put(
            o,
            format_args!(
                ".reg .b32 a<16>,b<{words}>,u<{words}>,t<4>,z,k,k8,left,first,row,column,rows,columns;
.reg .f32 s<{}>;
.reg .b64 astep,aat,achunk,bstep,bat,bchunk,from,far,am,bm,to,dstep;
.reg .pred q,deep,r<4>,c<{}>;",
                WARP[0] * WARP[1] / 32,
                Self::GROUPS,
                words = 16 * Self::GROUPS
            ),
        );
        for (name, at) in [
            ("rows", offset_of!(Args, rows)),
            ("columns", offset_of!(Args, columns)),
            ("k", offset_of!(Args, k)),
            ("t2", offset_of!(Args, across)),
        ] {
            put(o, format_args!("ld.param.u32 {name},[args+{at}];"));
        }
        // Four lanes share rows, eight columns.
        put(o, format_args!("mov.u32 t0,%ctaid.x; div.u32 t1,t0,t2; mul.lo.u32 t2,t1,t2; sub.u32 t0,t0,t2;"));
        put(o, format_args!("mov.u32 t3,%tid.x; shr.u32 t2,t3,2; and.b32 t2,t2,7; shl.b32 t2,t2,2;"));
        let (tile, w) = (self.tile(), &self.warps);
        put(o, format_args!("mad.lo.u32 row,t1,{},t2; mad.lo.u32 column,t0,{},t2;", tile[0], tile[1]));
        put(o, format_args!("and.b32 k8,t3,3; shl.b32 k8,k8,3; shr.u32 t3,t3,5;"));
        put(o, format_args!("and.b32 t2,t3,{}; mad.lo.u32 row,t2,{},row;", w.rows - 1, WARP[0]));
        put(o, format_args!("shr.u32 t3,t3,{}; and.b32 t2,t3,{};", w.rows.ilog2(), w.columns - 1));
        put(o, format_args!("mad.lo.u32 column,t2,{},column; shr.u32 t3,t3,{};", WARP[1], w.columns.ilog2()));
        put(o, format_args!("mov.u32 z,%ctaid.z; mad.lo.u32 z,z,{},t3;", w.products));
        put(o, format_args!("ld.param.u32 t0,[args+{}]; setp.ge.u32 q,z,t0;", offset_of!(Args, batches)));
        put(o, format_args!("@q bra END;"));
        self.matrices(o);
        let [a, b] = self.sides();
        a.start(o, ["am", "row"], offset_of!(Args, lda));
        b.start(o, ["bm", "column"], offset_of!(Args, ldb));
        (0..4).for_each(|j| put(o, format_args!("add.u32 t0,row,{j}; setp.lt.u32 r{j},t0,rows;")));
        (0..Self::GROUPS).for_each(|g| {
            put(o, format_args!("add.u32 t0,column,{}; setp.lt.u32 c{g},t0,columns;", GROUP * g))
        });
        (0..WARP[0] * WARP[1] / 32).for_each(|i| put(o, format_args!("mov.f32 s{i},0f00000000;")));
        put(o, format_args!("mov.u32 first,0;"));
    }

    /// Both matrices of this product of the batch, and its result.
    fn matrices(&self, o: &mut String) {
        let nb0 = offset_of!(Args, nb0);
        put(
            o,
            format_args!(
                "ld.param.u32 t0,[args+{nb0}]; div.u32 t1,z,t0; mul.lo.u32 t0,t1,t0; sub.u32 t2,z,t0;"
            ),
        );
        for (to, at, steps) in [
            ("am", offset_of!(Args, a), offset_of!(Args, a_batch)),
            ("bm", offset_of!(Args, b), offset_of!(Args, b_batch)),
        ] {
            put(o, format_args!("ld.param.u32 t0,[args+{steps}]; mul.wide.u32 from,t2,t0;"));
            put(o, format_args!("ld.param.u32 t0,[args+{}]; mad.wide.u32 from,t1,t0,from;", steps + 4));
            put(
                o,
                format_args!("ld.param.u64 {to},[args+{at}]; shl.b64 from,from,1; add.u64 {to},{to},from;"),
            );
        }
        put(o, format_args!("ld.param.u32 t0,[args+{}]; mul.wide.u32 from,z,t0;", offset_of!(Args, d_batch)));
        put(
            o,
            format_args!(
                "ld.param.u64 to,[args+{}]; shl.b64 from,from,1; add.u64 to,to,from;",
                offset_of!(Args, d)
            ),
        );
    }

    /// The sums of a group of columns: rows 0 and 1 of a lane are in one tile of sixteen, 2 and 3 in the other.
    fn multiply(&self, o: &mut String, group: u32) {
        let (kind, [a, b]) = (kind(self.dtype), self.sides());
        for (step, tile, column) in (0..16).map(|i| (i / 8, i / 4 % 2, i % 4)) {
            let pairs = [2 * step, 2 * step + 1];
            let left = pairs.map(|p| [0, 1].map(|half| a.word(0, 2 * tile + half, p)).join(",")).join(",");
            let right = pairs.map(|p| b.word(group, column, p)).join(",");
            let sums: Vec<String> = (0..4).map(|i| Self::sum(tile, group, column, i / 2, i % 2)).collect();
            let sums = sums.join(",");
            put(
                o,
                format_args!(
                    "mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{{sums}}},{{{left}}},{{{right}}},{{{sums}}};"
                ),
            );
        }
    }

    /// Eight neighbours of a row at a time.
    fn store(&self, o: &mut String) {
        let kind = kind(self.dtype);
        // Of sums a lane has columns as it has elements of K: eight that follow each other.
        put(
            o,
            format_args!(
                "mov.u32 t3,%tid.x; shr.u32 t0,t3,2; and.b32 t0,t0,7; shl.b32 t0,t0,2; sub.u32 column,column,t0;"
            ),
        );
        put(o, format_args!("and.b32 t0,t3,3; shl.b32 t0,t0,3; add.u32 column,column,t0;"));
        put(o, format_args!("ld.param.u32 t0,[args+{}]; mul.wide.u32 dstep,t0,2;", offset_of!(Args, ldd)));
        put(
            o,
            format_args!(
                "mul.wide.u32 from,row,t0; shl.b64 from,from,1; add.u64 to,to,from; mad.wide.u32 to,column,2,to;"
            ),
        );
        for g in 0..Self::GROUPS {
            put(o, format_args!("add.u32 t0,column,{}; setp.lt.u32 c{g},t0,columns;", GROUP * g));
        }
        for (row, group) in (0..4).flat_map(|row| (0..Self::GROUPS).map(move |g| (row, g))) {
            for word in 0..4 {
                let [low, high] = [0, 1].map(|i| {
                    let e = 2 * word + i;
                    Self::sum(row / 2, group, e % 4, row % 2, e / 4)
                });
                put(o, format_args!("cvt.rn.{kind}x2.f32 u{word},{high},{low};"));
            }
            put(o, format_args!("and.pred q,r{row},c{group};"));
            put(o, format_args!("@q st.global.v4.b32 [to+{}],{{u0,u1,u2,u3}};", 2 * GROUP * group));
            if group + 1 == Self::GROUPS {
                put(o, format_args!("add.u64 to,to,dstep;"));
            }
        }
    }
}

/// The kernel for a product that is one of a short K, if the device has it; both operands are in a form.
fn program(enc: &CommandEncoder, p: &Problem) -> Option<Program> {
    let device = enc.device();
    let [(ta, lda), (tb, ldb)] = p.forms();
    let along = [!ta, tb];
    let plain = p.kind() == Table::None && p.fused.is_none() && !p.has_addend() && p.batch.len() <= 2;
    let aligned = p.a.aligned(p.dtype, lda) && p.b.aligned(p.dtype, ldb) && p.even(8) && p.n % 8 == 0;
    let whole = (p.k % 8 == 0 || along == [false; 2]) && (along[0] || p.m % 4 == 0);
    let taken = plain && aligned && whole && device.warpgroups();
    let warps = low_rank(device.profile(), &p.product(true), along).filter(|_| taken)?;
    let far = ceil(p.batches(), warps.products.into()) > i64::from(u16::MAX);
    (!far).then_some(Program { dtype: p.dtype, along, warps })
}

/// Records the product if it is better done here; whether it did.
pub(super) fn run(enc: &mut CommandEncoder, p: &Problem) -> Result<bool> {
    let Some(program) = program(enc, p) else { return Ok(false) };
    let pipeline = enc.device().pipeline(&program)?;
    let [(_, lda), (_, ldb)] = p.forms();
    let tile = program.tile();
    let tiles = [ceil(p.m, tile[0].into()), ceil(p.n, tile[1].into())].map(|n| n as u32);
    let push = p.push();
    // FITS: `solve` cut what does not fit 32 bits.
    let args = Args {
        a: p.a.ptr,
        b: p.b.ptr,
        d: p.d,
        rows: p.m as u32,
        columns: p.n as u32,
        k: p.k as u32,
        lda: lda as u32,
        ldb: ldb as u32,
        ldd: p.d_rs as u32,
        across: tiles[1],
        nb0: push.nb0,
        a_batch: push.a_b,
        b_batch: push.b_b,
        d_batch: push.d_b,
        batches: p.batches() as u32,
    };
    enc.describe(2.0 * (p.m * p.n * p.k * p.batches()) as f64, &[p.batches(), p.m, p.n, p.k]);
    let grid = [tiles[0] * tiles[1], 1, ceil(p.batches(), program.warps.products.into()) as u32];
    enc.dispatch(&pipeline, args.bytes(), grid, &[p.a.range, p.b.range], &[p.d_range])?;
    Ok(true)
}
