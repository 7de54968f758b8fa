//! The text of the kernel for warpgroup products (wgmma of PTX, NVIDIA's sm_90a). A workgroup has two warpgroups that multiply
//! 64 rows each, and one that fetches the right side in pieces, 16 deep, into shared memory: of an image, which lies as the
//! products read it, one thread asks the copy engine for each; a matrix whose rows lie across K is copied by all of them in
//! chunks of 16 bytes. `full` and `empty` count who has what. The left side goes
//! straight from memory to registers, 16 bytes a load: a thread has eight neighbours of a row where the product wants
//! four pairs apart, so the right side has K in that order too (`warpgroup_image.comp`), and the sums do not mind.

use super::after::{After, AfterArgs};
use super::input::{self, INPUT};
use super::text::{FIRST_THREAD, ONE_THREAD, Told, fetch, kind, opening, put, ready};
use crate::core::Dtype;

/// Rows of a tile.
pub const ROWS: u32 = 128;
/// Elements of K between two bounds that `steps` may have: the loop is written out for so many (half of them where the left side is a
/// convolution's input).
pub const DEPTH: u32 = 128;
/// Elements of K of one product.
pub const STEP: u32 = 16;
/// Blocks of 32 elements of K that the loop goes through.
const BLOCKS: u32 = DEPTH / 32;

/// How a tile is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Store {
    /// Elements of 16 bits, eight at once, a row's beside each other.
    Rows,
    /// Likewise, a column's beside each other.
    Columns,
    /// Sums in float32, a row's beside each other.
    SumRows,
    /// Likewise, a column's.
    SumColumns,
}

/// What the left side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Left {
    /// Rows of elements.
    Values,
    /// Rows of codes of four bits, so many of which share a scale and a bias: 32, 64 or 128. Of 128 elements a thread has 32
    /// neighbours, in blocks of eight, and the first four of a block are paired with the last.
    Codes(u32),
    /// The input of a convolution over so many axes: rows are output positions, K its taps and their channels.
    Input(u32),
}

/// How the right side lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// As warpgroup_image.comp leaves it.
    Image,
    /// The columns of an element of K beside each other, in chunks of 16 bytes.
    Across,
    /// As an image of tiles that each meet a left matrix of their own (`warpgroup_runs.comp`).
    Runs,
    /// As the input of a convolution over so many axes, in chunks of 16 bytes: columns are taps and their channels, K output
    /// positions.
    Input(u32),
}

/// One kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Program {
    /// float16 or bfloat16.
    pub dtype: Dtype,
    /// Columns of a tile.
    pub columns: u32,
    /// What the left side is.
    pub left: Left,
    /// How the right side lies.
    pub right: Right,
    /// How a tile is written.
    pub store: Store,
    /// What comes before it is, as elements.
    pub after: After,
}

/// What the kernel is told; the text reads it by these places.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Args {
    /// Rows of K elements, `lda` apart.
    pub left: u64,
    /// The image, or the matrix.
    pub right: u64,
    /// The result.
    pub out: u64,
    /// Bytes that steps from matrix to matrix on the right are counted in; the address of the tiles of [`Right::Runs`].
    pub image: u64,
    /// Of codes: scales and biases, one for each group.
    pub scales: u64,
    pub biases: u64,
    /// Bytes from a matrix to the next that tiles pick, and from its scales to the next ones.
    pub left_step: u64,
    pub scale_step: u64,
    /// Sizes of the result, and K.
    pub rows: u32,
    pub columns: u32,
    pub k: u32,
    /// Elements from row to row (words of codes), and of the result's.
    pub lda: u32,
    pub ldd: u32,
    /// Products of [`STEP`] of a part of K, and of the whole image.
    pub steps: u32,
    pub all_steps: u32,
    /// Tiles along the rows and the columns.
    pub tiles: [u32; 2],
    /// Tile rows that go together.
    pub together: u32,
    /// Length of the inner batch axis.
    pub nb0: u32,
    /// Elements from matrix to matrix on the left, inner and outer axis.
    pub left_batch: [u32; 2],
    /// Steps from matrix to matrix on the right, of `image` bytes.
    pub right_batch: [u32; 2],
    /// Elements of the result from product to product.
    pub out_batch: u32,
    /// Elements of the right side from one of K to the next, where it lies across.
    pub ldb: u32,
    /// Groups of a row of codes.
    pub lds: u32,
    /// What comes after the products.
    pub after: AfterArgs,
}

/// Bytes of [`Args`].
const ARGS: usize = size_of::<Args>();
/// Bytes of it without what comes after the products: convolutions have [`INPUT`] in its place.
pub(super) const PRODUCT: usize = std::mem::offset_of!(Args, after);

const _: () = assert!(ARGS == 184);
// SAFETY: repr(C) of 8-byte and then 4-byte fields without padding, twice.
unsafe impl Told for Args {}

impl Program {
    /// Bytes of a piece of the image: one step of all columns.
    pub(super) fn piece(self) -> u32 {
        self.columns * STEP * 2
    }

    /// Whether one of the sides is a convolution's input.
    fn gathers(self) -> bool {
        matches!(self.left, Left::Input(_)) || matches!(self.right, Right::Input(_))
    }

    /// Whether threads copy the right side, in place of the copy engine.
    fn copied(self) -> bool {
        matches!(self.right, Right::Across | Right::Input(_))
    }

    /// Workgroups that a multiprocessor has at a time: sums of fewer columns leave room for two.
    pub(super) fn together(self) -> u32 {
        if matches!(self.left, Left::Input(_)) && self.columns < 256 { 2 } else { 1 }
    }

    /// Threads of a workgroup: two warpgroups that multiply, and one that fetches. Of two workgroups none does: their registers are
    /// needed.
    pub fn threads(self) -> u32 {
        if self.together() == 2 { 256 } else { 384 }
    }

    /// Blocks of 32 elements of K that a thread has of its rows: one in use, the others on their way.
    fn ahead(self) -> u32 {
        if self.together() == 2 && self.columns == 128 { 2 } else { BLOCKS }
    }

    /// Lines that deal out registers to threads that multiply, and to those that fetch.
    fn registers(self) -> [String; 2] {
        let [most, least] = match self.right {
            _ if self.together() == 2 => return [const { String::new() }; 2],
            Right::Input(_) => [224, 56],
            _ => [232, 40],
        };
        [("inc", most), ("dec", least)].map(|(how, n)| format!("setmaxnreg.{how}.sync.aligned.u32 {n};\n"))
    }

    /// Pieces that lie in shared memory: what 40 KiB hold, as 48 are a workgroup's.
    pub(super) fn stages(self) -> u32 {
        (40 * 1024 / self.piece()).min(12)
    }

    /// The whole text.
    pub fn text(self) -> String {
        let mut o = String::with_capacity(64 << 10);
        self.head(&mut o);
        match self.right {
            Right::Image if self.together() == 2 => self.fetch_first(&mut o),
            Right::Image => self.fetch_image(&mut o),
            Right::Across => self.fetch_across(&mut o),
            Right::Runs => self.fetch_runs(&mut o),
            Right::Input(axes) => self.fetch_input(&mut o, axes),
        }
        self.prologue(&mut o);
        self.multiply(&mut o);
        self.finish(&mut o);
        match self.store {
            Store::Rows => self.store_rows(&mut o),
            Store::Columns => self.store_columns(&mut o),
            Store::SumRows | Store::SumColumns => self.store_sums(&mut o),
        }
        if self.right == Right::Runs {
            put(&mut o, format_args!("mov.u32 tmp,%nctaid.y; add.u32 tn,tn,tmp;\nbra TILE;"));
        }
        o += "DONE:\nret;\n}\n";
        o
    }

    fn head(self, o: &mut String) {
        let (stages, piece) = (self.stages(), self.piece());
        let told = if self.gathers() { PRODUCT + INPUT } else { ARGS };
        put(
            o,
            format_args!(
                "{opening}
.reg .pred p,q,r,again,row0ok,row1ok,lane0;
.reg .b32 tid,warp,lane,wg,w,g,t,tmp,tmp2,rows,columns,k,steps,all,lda,ldd,tilesm,tilesn,together,id,per,group,first,
high,rest,tm,tn,slot,phase,sm,fullb,emptyb,left,row0,row1,col,lo,hi,it,kpos,nb0,i0,i1,s0,s1,begin,ldb,to,total,start,n<4>;
.reg .b64 a,b,d,a0,a1,d0,d1,x,y,desc,image,near,far,out,from;
.reg .f32 c<{sums}>;
.reg .b32 f<{held}>;
.reg .b32 v<8>,w<8>,u<8>,sc<4>,z<4>;
.reg .b64 e<4>;
{more}ld.param.u64 a,[args]; ld.param.u64 b,[args+8]; ld.param.u64 d,[args+16]; ld.param.u64 image,[args+24];
ld.param.u32 rows,[args+64]; ld.param.u32 columns,[args+68]; ld.param.u32 k,[args+72]; ld.param.u32 lda,[args+76];
ld.param.u32 ldd,[args+80]; ld.param.u32 steps,[args+84]; ld.param.u32 all,[args+88]; ld.param.u32 tilesm,[args+92];
ld.param.u32 tilesn,[args+96]; ld.param.u32 together,[args+100]; ld.param.u32 nb0,[args+104];
{FIRST_THREAD}",
                opening = opening(told, [self.threads(), self.together()], [stages * piece, stages]),
                sums = self.columns / 2,
                held = if matches!(self.left, Left::Codes(_)) { 16 } else { self.ahead() * 8 },
                more = if self.gathers() { input::registers() } else { String::new() },
            ),
        );
        ready(o, stages, if self.copied() { 128 } else { 1 });
        if self.right == Right::Runs {
            // Tiles are taken in turn by all workgroups that have the same rows.
            let start = "fence.proxy.async.shared::cta;\nREADY:\nbar.sync 0;
mov.u32 tm,%ctaid.x; mov.u32 tn,%ctaid.y; mov.u32 begin,0; ld.global.u32 total,[image]; min.u32 total,total,tilesn; mov.u32 slot,0;";
            return put(o, format_args!("{start}"));
        }
        // Where the tile lies, which product and which part of K it is of.
        put(
            o,
            format_args!(
                "fence.proxy.async.shared::cta;
READY:
bar.sync 0;
mov.u32 id,%ctaid.x;
mul.lo.u32 per,tilesn,together; div.u32 group,id,per; mul.lo.u32 first,group,together;
sub.u32 high,tilesm,first; min.u32 high,high,together;
rem.u32 rest,id,per; rem.u32 tm,rest,high; add.u32 tm,tm,first; div.u32 tn,rest,high;
mov.u32 tmp,%ctaid.z; rem.u32 i0,tmp,nb0; div.u32 i1,tmp,nb0;
mov.u32 tmp,%ctaid.y; mul.lo.u32 begin,tmp,steps; sub.u32 tmp,all,begin; min.u32 steps,steps,tmp;
mov.u32 slot,0; mov.u32 left,steps;"
            ),
        );
    }

    /// Parts the warpgroup that fetches from the others.
    fn part(self, o: &mut String) {
        put(
            o,
            format_args!(
                "setp.lt.u32 p,warp,8;
@p bra CONSUMER;
{}",
                self.registers()[1]
            ),
        );
    }

    /// Likewise, and finds its matrix.
    pub(super) fn producer(self, o: &mut String) {
        self.part(o);
        Self::matrix(o);
    }

    /// The right side's matrix; its pieces are fetched from now on.
    pub(super) fn matrix(o: &mut String) {
        put(
            o,
            format_args!(
                "ld.param.u32 s0,[args+116]; ld.param.u32 s1,[args+120];
mul.wide.u32 x,i0,s0; mul.wide.u32 y,i1,s1; add.u64 x,x,y; mad.lo.u64 b,x,image,b;
mov.u32 phase,1;"
            ),
        );
    }

    /// One thread fetches pieces of an image.
    fn fetch_image(self, o: &mut String) {
        let (stages, piece) = (self.stages(), self.piece());
        self.producer(o);
        put(
            o,
            format_args!(
                "{ONE_THREAD}
mad.lo.u32 tmp,tn,all,begin; mul.wide.u32 x,tmp,{piece}; add.u64 from,b,x;"
            ),
        );
        self.fetch_pieces(o, stages, piece);
        put(o, format_args!("bra DONE;"));
    }

    /// Likewise the pieces of one tile after the other.
    fn fetch_runs(self, o: &mut String) {
        let (stages, piece) = (self.stages(), self.piece());
        self.part(o);
        put(
            o,
            format_args!(
                "{ONE_THREAD}
mov.u32 phase,1;
NEXT:
setp.ge.u32 p,tn,total;
@p bra DONE;
mul.wide.u32 x,tn,all; mul.lo.u64 x,x,{piece}; add.u64 from,b,x; mov.u32 left,steps;"
            ),
        );
        self.fetch_pieces(o, stages, piece);
        put(o, format_args!("mov.u32 tmp,%nctaid.y; add.u32 tn,tn,tmp;\nbra NEXT;"));
    }

    /// `left` pieces from `from` on.
    pub(super) fn fetch_pieces(self, o: &mut String, stages: u32, piece: u32) {
        put(o, format_args!("FETCH:"));
        fetch(o, "AWAIT", "from", piece, stages);
        put(o, format_args!("sub.u32 left,left,1; setp.ne.u32 q,left,0;\n@q bra FETCH;"));
    }

    /// All threads of the warpgroup copy chunks: a warp four elements of K of 64 columns at a time. In shared memory eight elements
    /// of K of 64 columns lie together, the chunks of one exchanged by its number (the swizzle of 128 bytes). Here, a thread's
    /// first element of K and its first column, and where that chunk goes.
    pub(super) fn chunk(self, o: &mut String) {
        put(
            o,
            format_args!(
                "and.b32 w,warp,1; shr.u32 wg,warp,1; and.b32 wg,wg,1; and.b32 t,lane,7; shr.u32 g,lane,3; mad.lo.u32 g,wg,4,g;
shr.u32 kpos,g,1; shl.b32 kpos,kpos,3; and.b32 tmp,g,1; add.u32 kpos,kpos,tmp; mad.lo.u32 kpos,w,2,kpos;
mad.lo.u32 kpos,begin,{STEP},kpos;
mul.lo.u32 col,tn,{n}; mad.lo.u32 col,t,8,col;
mul.lo.u32 to,w,{lower}; mad.lo.u32 to,g,128,to; xor.b32 tmp,t,g; mad.lo.u32 to,tmp,16,to; add.u32 to,to,sm;",
                n = self.columns,
                lower = self.columns * 16,
            ),
        );
    }

    /// Waits for room for the next piece, a step's of two; `lo` is where this thread's chunk goes.
    pub(super) fn room(self, o: &mut String, step: u32) {
        put(
            o,
            format_args!(
                "shl.b32 tmp,slot,3; add.u32 tmp2,emptyb,tmp;
AWAIT{step}:
mbarrier.try_wait.parity.shared::cta.b64 q,[tmp2],phase;
@!q bra AWAIT{step};
add.u32 tmp2,fullb,tmp; mad.lo.u32 lo,slot,{},to; setp.lt.u32 p,kpos,k;",
                self.piece()
            ),
        );
    }

    /// The piece at `tmp2` is full when what was copied is there; on to the next one, so many elements of K deeper.
    pub(super) fn copied_piece(self, o: &mut String, deeper: u32) {
        put(
            o,
            format_args!(
                "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [tmp2];
add.u32 kpos,kpos,{deeper};
add.u32 slot,slot,1; setp.eq.u32 q,slot,{};
@q mov.u32 slot,0;
@q xor.b32 phase,phase,1;",
                self.stages()
            ),
        );
    }

    /// After two pieces: on, or all of them are waited for.
    pub(super) fn copied_all(o: &mut String) {
        put(
            o,
            format_args!(
                "sub.u32 left,left,2; setp.ne.u32 q,left,0;
@q bra FETCH;
cp.async.wait_all;
bra DONE;"
            ),
        );
    }

    /// Chunks of rows of columns. Zeros where there is nothing.
    fn fetch_across(self, o: &mut String) {
        let chunks = self.columns / 64;
        self.producer(o);
        self.chunk(o);
        put(
            o,
            format_args!(
                "ld.param.u32 ldb,[args+128];
mul.wide.u32 x,kpos,ldb; cvt.u64.u32 y,col; add.u64 x,x,y; shl.b64 x,x,1; add.u64 b,b,x;
mul.wide.u32 near,ldb,8; mul.wide.u32 far,ldb,56;"
            ),
        );
        for i in 0..chunks {
            put(
                o,
                format_args!("add.u32 tmp,col,{}; setp.lt.u32 p,tmp,columns; selp.u32 n{i},16,0,p;", 64 * i),
            );
        }
        put(o, format_args!("FETCH:"));
        for (step, ahead, deeper) in [(0, "near", 4), (1, "far", 28)] {
            self.room(o, step);
            for i in 0..chunks {
                put(
                    o,
                    format_args!(
                        "selp.u32 tmp,n{i},0,p; cp.async.cg.shared.global [lo+{}],[b+{}],16,tmp;",
                        1024 * i,
                        128 * i
                    ),
                );
            }
            put(o, format_args!("add.u64 b,b,{ahead};"));
            self.copied_piece(o, deeper);
        }
        Self::copied_all(o);
    }

    /// Fetches the rows' block `ahead` of the one at `kpos` into the registers of block `to`; zeros behind K.
    fn load(o: &mut String, to: u32, ahead: u32) {
        let f = to * 8;
        put(o, format_args!("add.u32 tmp,kpos,{}; setp.lt.u32 q,tmp,k;", ahead * 32));
        for (row, f) in [(0, f), (1, f + 4)] {
            put(
                o,
                format_args!(
                    "@q ld.global.nc.L1::no_allocate.v4.b32 {{f{},f{},f{},f{}}},[a{row}+{}];",
                    f,
                    f + 1,
                    f + 2,
                    f + 3,
                    ahead * 64
                ),
            );
        }
        for i in f..f + 8 {
            put(o, format_args!("@!q mov.b32 f{i},0;"));
        }
    }

    /// Where the rows of a thread lie, the first blocks of them, and no sums yet.
    fn prologue(self, o: &mut String) {
        let runs = self.right == Right::Runs;
        put(
            o,
            format_args!(
                "CONSUMER:
{registers}mov.u32 phase,0;
{tile}shr.u32 wg,warp,2; and.b32 w,warp,3; shr.u32 g,lane,2; and.b32 t,lane,3;
mul.lo.u32 row0,tm,{ROWS}; mad.lo.u32 row0,wg,64,row0; mad.lo.u32 row0,w,16,row0; add.u32 row0,row0,g; add.u32 row1,row0,8;
{matrix}
setp.eq.u32 lane0,lane,0;",
                registers = self.registers()[0],
                tile = if runs { "TILE:\nsetp.ge.u32 p,tn,total;\n@p bra DONE;\n" } else { "" },
                matrix = if runs {
                    "mul.wide.u32 x,tn,16; add.u64 x,image,x; ld.global.u32 tmp,[x+16]; ld.global.u32 start,[x+20];
ld.global.u32 columns,[x+24]; mov.u32 left,steps;
cvt.u64.u32 x,tmp; ld.param.u64 y,[args+48]; ld.param.u64 a,[args]; mad.lo.u64 a,x,y,a; ld.param.u64 y,[args+56]; mul.lo.u64 from,x,y;"
                } else if matches!(self.left, Left::Codes(_)) {
                    "mov.u64 from,0;"
                } else {
                    "ld.param.u32 s0,[args+108]; ld.param.u32 s1,[args+112];
mul.wide.u32 x,i0,s0; mul.wide.u32 y,i1,s1; add.u64 x,x,y; shl.b64 x,x,1; add.u64 a,a,x;"
                },
            ),
        );
        match self.left {
            Left::Codes(group) => self.begin_codes(o, group),
            Left::Input(axes) => {
                Self::begin_input(o, axes);
                (0..self.ahead() - 1).for_each(|block| Self::load_input(o, axes, block, block));
            }
            Left::Values => {
                put(
                    o,
                    format_args!(
                        "shl.b32 kpos,t,3; mad.lo.u32 kpos,begin,{STEP},kpos; cvt.u64.u32 y,kpos;
sub.u32 tmp,rows,1;
min.u32 tmp2,row0,tmp; mul.wide.u32 x,tmp2,lda; add.u64 x,x,y; shl.b64 x,x,1; add.u64 a0,a,x;
min.u32 tmp2,row1,tmp; mul.wide.u32 x,tmp2,lda; add.u64 x,x,y; shl.b64 x,x,1; add.u64 a1,a,x;"
                    ),
                );
                (0..self.ahead() - 1).for_each(|block| Self::load(o, block, block));
            }
        }
        for i in 0..self.columns / 2 {
            put(o, format_args!("mov.f32 c{i},0f00000000;"));
        }
        // The high word of descriptors: of an image, eight columns and their 16 bytes of K lie together; else, with the swizzle of 128
        // bytes, the other half of K lies a tile's columns behind.
        let high = if self.copied() { self.columns | 1 << 30 } else { 128 >> 4 };
        put(o, format_args!("mov.u32 hi,{high}; mov.u32 it,0;"));
    }

    /// Lines that bring the rows of a thread on by [`DEPTH`].
    fn advance(self) -> String {
        match self.left {
            Left::Values => {
                format!("add.u64 a0,a0,{0}; add.u64 a1,a1,{0}; add.u32 kpos,kpos,{DEPTH};\n", 2 * DEPTH)
            }
            Left::Input(_) => format!("add.u64 e0,e0,{};\n", input::chunk_bytes(DEPTH)),
            Left::Codes(_) => String::new(),
        }
    }

    /// What follows a product: what is fetched next, and the rows of a block that come to lie where one was used.
    fn behind(self, o: &mut String, u: u32) {
        if self.together() == 2 {
            self.fetch_next(o, u);
        }
        let next = u / 2 + self.ahead() - 1;
        match self.left {
            _ if u % 2 == 1 => {}
            Left::Values => Self::load(o, next % self.ahead(), next),
            Left::Input(axes) => {
                Self::load_input(o, axes, next % self.ahead(), next);
            }
            Left::Codes(group) => {
                if u / 2 == BLOCKS - 1 {
                    Self::rotate_codes(o, group);
                }
                self.decode(o, (u / 2 + 1) % BLOCKS);
            }
        }
        if u + 1 == BLOCKS && matches!(self.left, Left::Input(_)) {
            // Sums may end half way.
            put(o, format_args!("setp.eq.u32 q,left,{BLOCKS};\n@q bra SUMS;"));
        }
    }

    /// The loop over K.
    fn multiply(self, o: &mut String) {
        let (stages, piece, n) = (self.stages(), self.piece(), self.columns);
        let kind = kind(self.dtype);
        let sums = (0..n / 2).map(|i| format!("c{i}")).collect::<Vec<_>>().join(",");
        put(o, format_args!("LOOP:"));
        for u in 0..2 * BLOCKS {
            let codes = matches!(self.left, Left::Codes(_));
            let (f, s) = (u / 2 % (if codes { 2 } else { self.ahead() }) * 8, u % 2);
            put(
                o,
                format_args!(
                    "shl.b32 tmp,slot,3; add.u32 tmp2,fullb,tmp;
WAIT{u}:
mbarrier.try_wait.parity.shared::cta.b64 q,[tmp2],phase;
@!q bra WAIT{u};
mad.lo.u32 lo,slot,{slot},{half}; shr.u32 tmp2,sm,4; add.u32 lo,lo,tmp2; mov.b64 desc,{{lo,hi}};
{fence}wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{kind}.{kind} {{{sums}}},{{f{},f{},f{},f{}}},desc,1,1,1,{across};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 1;",
                    f + 2 * s,
                    f + 4 + 2 * s,
                    f + 2 * s + 1,
                    f + 5 + 2 * s,
                    slot = piece >> 4,
                    // The low word: of an image the other half of K lies a tile's columns behind, else the next 64 columns 1024 bytes.
                    half = if self.copied() { 1024 >> 4 << 16 } else { n << 16 },
                    across = u32::from(self.copied()),
                    // What threads copied is seen by the products.
                    fence = if self.copied() { "fence.proxy.async.shared::cta;\n" } else { "" },
                ),
            );
            // The product before this one is done: its piece and, after two, its rows may be overwritten.
            match u {
                0 => put(o, format_args!("setp.ne.u32 p,it,0; and.pred p,p,lane0;")),
                1 => put(o, format_args!("mov.pred p,lane0;")),
                _ => {}
            }
            put(
                o,
                format_args!(
                    "setp.eq.u32 q,slot,0; selp.u32 tmp2,{},0,q;
@!q sub.u32 tmp2,tmp,8;
add.u32 tmp2,tmp2,emptyb;
@p mbarrier.arrive.shared::cta.b64 _,[tmp2];
add.u32 slot,slot,1; setp.eq.u32 q,slot,{stages};
@q mov.u32 slot,0;
@q xor.b32 phase,phase,1;",
                    8 * (stages - 1)
                ),
            );
            self.behind(o, u);
        }
        put(
            o,
            format_args!(
                "{on}add.u32 it,it,1;
sub.u32 left,left,{}; setp.ne.u32 q,left,0;
@q bra LOOP;
SUMS:
wgmma.wait_group.sync.aligned 0;
{place}
setp.lt.u32 row0ok,row0,rows; setp.lt.u32 row1ok,row1,rows;",
                2 * BLOCKS,
                place = self.place(),
                on = self.advance(),
            ),
        );
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
