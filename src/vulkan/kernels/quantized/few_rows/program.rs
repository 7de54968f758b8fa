//! The text of the products of few rows with codes (PTX): copies of codes to shared memory, x in registers as the right sides of products,
//! codes as left ones, and the walk over rows of codes. Codes are of four bits in groups of 64, but for what stands in `formats`; what becomes
//! of sums stands in `finish`.

use std::mem::offset_of;

use crate::core::Dtype;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::kernels::quantized::quant::Format;
use crate::vulkan::kernels::matmul::warpgroup::text::{self, put};
use crate::vulkan::kernels::progress;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::kernels::quantized::units::Units;
use crate::vulkan::tune::quantized::few_rows::{COLUMN, Form, GROUPS, PIECE, SPAN, UNIT};

/// What the kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Program {
    pub form: Form,
    /// How codes are read: in a kernel of its own four bits in groups of 64.
    pub format: Format,
    /// Of x, factors and results: bfloat16 or float16.
    pub dtype: Dtype,
    /// Length of a row.
    pub k: u32,
    /// Rows of codes of each matrix, whole units.
    pub lengths: [u32; 3],
    /// The bits of the epsilon that rows of x are normalised with.
    pub norm: Option<u32>,
    /// What becomes of the results of one matrix, or of two at once.
    pub after: Option<KeptAfter>,
    /// Each matrix is one of many that rows of x pick (`few_picked`).
    pub picked: bool,
}

impl Program {
    /// How it goes over rows.
    pub(super) fn rows(&self) -> Units {
        Units { lengths: self.lengths, after: self.after.is_some(), unit: UNIT }
    }

    pub fn matrices(&self) -> u32 {
        self.rows().matrices()
    }

    /// Matrices that a unit has rows of.
    pub fn sides(&self) -> u32 {
        self.rows().sides()
    }

    /// All units.
    pub fn units(&self) -> u32 {
        self.rows().all()
    }

    /// Bytes of a row of codes, and of one of factors.
    pub(super) fn row_bytes(&self) -> [u32; 2] {
        let size = if self.format.affine() { 2 } else { 1 };
        [self.k / 8 * self.format.bits, self.k / self.format.group * size]
    }

    /// Whether every piece of every subgroup is there.
    pub(super) fn exact(&self) -> bool {
        self.k == self.form.warps * self.form.pieces * self.form.splits * self.span()
    }

    /// The whole text.
    pub fn text(&self) -> String {
        let mut o = String::with_capacity(64 << 10);
        if self.form.held > 0 {
            self.held(&mut o);
            return o;
        }
        self.head(&mut o, 1);
        self.places(&mut o);
        self.own_results(&mut o);
        put(&mut o, format_args!("mov.u32 unit,list;"));
        self.seek(&mut o, "unit", 0);
        (0..self.form.pieces).for_each(|p| self.copy(&mut o, p));
        put(&mut o, format_args!("mov.pred first,have;"));
        for turn in 1..self.form.ahead {
            put(&mut o, format_args!("mad.lo.u32 next,lists,{},unit;", turn / self.sides()));
            self.fetch(&mut o, "next", turn % self.sides());
        }
        progress::workgroup_waits(&mut o, size_of::<Push>());
        self.load_x(&mut o);
        put(
            &mut o,
            format_args!("@!first bra {};\nUNIT:", if self.form.splits > 1 { "JOIN" } else { "DONE" }),
        );
        if self.form.splits == 1 {
            self.read_arrays(&mut o);
        }
        for side in 0..self.sides() {
            self.step(&mut o, side);
        }
        if self.form.splits == 1 {
            self.results(&mut o, "A");
        }
        put(
            &mut o,
            format_args!("add.u32 unit,unit,lists; setp.lt.u32 p,unit,{};\n@p bra UNIT;", self.units()),
        );
        if self.form.splits > 1 {
            self.join(&mut o);
        }
        o += "DONE:\n";
        progress::ends(&mut o, size_of::<Push>());
        o += "ret;\n}\n";
        o
    }

    /// Registers, and shared memory with room for `slots` units of one side.
    pub fn head(&self, o: &mut String, slots: u32) {
        let Form { tiles, pieces, groups, warps, together, buffers, held, .. } = self.form;
        let xs = tiles * pieces * self.span() / 8;
        *o += &text::head("sm_90", progress::told::<Push>(), [32 * warps, together]);
        put(
            o,
            format_args!(
                ".shared .align 128 .b8 ring[{ring}];
.shared .align 16 .b8 sums[{sums}];
.shared .align 4 .b8 flag[4];
.shared .align 4 .b8 squares[{squares}];
.reg .pred p,q,have,first,second,odd,high,one,two,there<{tiles}>,mine<{rounds}>;
.reg .b32 tid,lane,warp,g,t,list,lists,split,rows,k0,unit,next,local,tmp,tmp2,cs,fs,rs,rb,ss,sr,co,fo,buffer,len,word,count;
.reg .b32 rx<4>,x<{xs}>,bx<{bxs}>,sc<8>,bi<2>,c<4>,a<4>,size<{pieces}>,half<{pieces}>,v<{rounds}>,r<{rounds}>,at<{rounds}>;
.reg .b32 ar<{arrays}>,h<14>,up<3>,nw<4>,pk,ws<{codes}>,above,part,fu;
.reg .f32 f<16>,root<{roots}>,z,acc<{accs}>,tot<{accs}>,y<{ys}>,e<8>,sum<4>,w0,w1;
.reg .b64 wp,fp,l,m,na,xa,wa,sa,ba,da;
.reg .b16 hl,hh;
ld.param.u32 rows,[args+{at_rows}];
mov.u32 tid,%tid.x; shr.u32 warp,tid,5; and.b32 lane,tid,31; shr.u32 g,lane,2; and.b32 t,lane,3; mov.f32 z,0f00000000;",
                ring = if held > 0 { held * self.k } else { slots * warps * pieces * self.piece_of().bytes() },
                codes = (4 * held * groups).max(1),
                sums = self.form.sums() * buffers,
                roots = tiles.max(self.rounds()),
                rounds = self.rounds(),
                bxs = (self.parts() * tiles * pieces * self.sets()).max(1),
                arrays = 4 * self.rounds(),
                accs = 4 * tiles,
                ys = 4 * self.rounds(),
                squares = if self.norm.is_some() { 4 * warps * tiles * 8 } else { 4 },
                at_rows = offset_of!(Push, rows),
            ),
        );
    }

    /// Where threads copy from and to, and read.
    pub fn places(&self, o: &mut String) {
        if !self.usual() {
            return self.other_places(o);
        }
        let Form { pieces, warps, splits, .. } = self.form;
        let [codes, factors] = self.row_bytes();
        put(
            o,
            format_args!(
                "mov.u32 tmp,%ctaid.x; div.u32 list,tmp,{splits}; rem.u32 split,tmp,{splits}; mov.u32 tmp,%nctaid.x; div.u32 lists,tmp,{splits};
mad.lo.u32 k0,split,{warps},warp; mul.lo.u32 k0,k0,{span};
shr.u32 tmp,lane,3; and.b32 tmp2,lane,7; shr.u32 co,k0,1; mad.lo.u32 co,tmp,{codes},co; mad.lo.u32 co,tmp2,16,co;
mov.u32 rs,ring; mad.lo.u32 rs,warp,{ring},rs;
shl.b32 sr,tmp,1; xor.b32 tmp2,tmp2,sr; mad.lo.u32 cs,tmp,128,rs; mad.lo.u32 cs,tmp2,16,cs;
setp.ge.u32 second,lane,16; and.b32 tmp,lane,15; shr.u32 fo,k0,5; mad.lo.u32 fo,tmp,{factors},fo; mad.lo.u32 fs,lane,8,rs; add.u32 fs,fs,{codes_of_piece};
mad.lo.u32 ss,g,128,rs; mad.lo.u32 ss,t,8,ss; and.b32 tmp,g,3;",
                span = SPAN * pieces,
                ring = pieces * PIECE,
                codes_of_piece = UNIT * SPAN / 2,
            ),
        );
        for i in 0..GROUPS {
            put(o, format_args!("xor.b32 tmp2,tmp,{i}; mad.lo.u32 rx{i},tmp2,32,ss;"));
        }
        put(
            o,
            format_args!(
                "mad.lo.u32 rs,g,8,rs; add.u32 rs,rs,{codes_of_piece}; and.b32 tmp,t,1; setp.ne.u32 odd,tmp,0; setp.ge.u32 high,t,2;
mad.lo.u32 rb,{},rs; add.u32 rb,rb,{biases};",
                if self.half() { "t,2" } else { "tmp,4" },
                codes_of_piece = UNIT * SPAN / 2,
                biases = 8 * UNIT,
            ),
        );
        if !self.exact() {
            for p in 0..pieces {
                put(
                    o,
                    format_args!(
                        "add.u32 tmp,k0,{}; setp.lt.u32 p,tmp,{}; selp.u32 size{p},16,0,p; selp.u32 half{p},8,0,p;",
                        SPAN * p,
                        self.k
                    ),
                );
            }
        }
        self.sums_places(o);
    }

    /// Where sums of a subgroup lie, and those that a thread adds up.
    pub(super) fn sums_places(&self, o: &mut String) {
        let warps = self.form.warps;
        put(
            o,
            format_args!(
                "mov.u32 sr,sums; mad.lo.u32 ss,warp,{own},sr; mad.lo.u32 ss,t,{two},ss; mad.lo.u32 ss,g,4,ss; mov.u32 buffer,0;",
                own = self.form.sums() / warps,
                two = 2 * COLUMN * 4,
            ),
        );
        for r in 0..self.rounds() {
            put(
                o,
                format_args!(
                    "add.u32 tmp,tid,{}; shr.u32 v{r},tmp,3; and.b32 r{r},tmp,7; shl.b32 r{r},r{r},1;
mad.lo.u32 at{r},v{r},{column},sr; mad.lo.u32 at{r},r{r},4,at{r};",
                    32 * warps * r,
                    column = COLUMN * 4,
                ),
            );
        }
    }

    /// Which results are a thread's, of `rows` rows.
    pub fn own_results(&self, o: &mut String) {
        for r in 0..self.rounds() {
            put(o, format_args!("setp.lt.u32 mine{r},v{r},rows;"));
            if 8 * self.form.tiles * 8 < 32 * self.form.warps * (r + 1) {
                let all = 8 * self.form.tiles;
                let last = if self.form.parts > 1 { "tmp".into() } else { all.to_string() };
                if self.form.parts > 1 {
                    put(o, format_args!("add.u32 tmp,above,{all};"));
                }
                put(o, format_args!("setp.lt.u32 p,v{r},{last}; and.pred mine{r},mine{r},p;"));
            }
        }
    }

    /// Takes what is told of the matrix at hand; of the one of many that register `own` says.
    pub(super) fn told(&self, o: &mut String, to: &str, [part, side]: [u32; 2], own: &str) {
        self.rows().told(o, to, part, side);
        if self.picked && part < 3 {
            // All are of one length.
            let [codes, factors] = self.row_bytes();
            let bytes = self.lengths[0] * if part == 0 { codes } else { factors };
            put(o, format_args!("mul.wide.u32 l,{own},{bytes}; add.u64 {to},{to},l;"));
        }
    }

    /// Goes to where this thread copies from of a unit; `have` is whether there is one, which who picks matrices knows by itself.
    pub fn seek(&self, o: &mut String, unit: &str, side: u32) {
        let [codes, factors] = self.row_bytes();
        self.rows().matrix_of(o, unit);
        if !self.usual() {
            // Whoever picks matrices knows by itself whether there is one.
            return self.seek_factors(o, side);
        }
        self.told(o, "wp", [0, side], "ahead");
        self.told(o, "fp", [1, side], "ahead");
        self.told(o, "m", [2, side], "ahead");
        if !self.picked {
            put(o, format_args!("setp.lt.u32 have,{unit},{};", self.units()));
        }
        put(
            o,
            format_args!(
                "selp.b64 fp,m,fp,second;
mul.wide.u32 l,local,{}; add.u64 wp,wp,l; cvt.u64.u32 l,co; add.u64 wp,wp,l;
mul.wide.u32 l,local,{}; add.u64 fp,fp,l; cvt.u64.u32 l,fo; add.u64 fp,fp,l;",
                UNIT * codes,
                UNIT * factors
            ),
        );
    }

    /// Has a piece of where it went copied: 16 rows of codes whose 32-byte blocks are dealt over banks, scales and biases behind.
    pub fn copy(&self, o: &mut String, piece: u32) {
        if !self.usual() {
            return self.other_copy(o, piece);
        }
        let [codes, _] = self.row_bytes();
        let size = |name: &str| if self.exact() { String::new() } else { format!(",{name}{piece}") };
        for i in 0..4 {
            put(
                o,
                format_args!(
                    "@have cp.async.cg.shared.global [cs+{}],[wp+{}],16{};",
                    piece * PIECE + 512 * i,
                    4 * i * codes + piece * SPAN / 2,
                    size("size")
                ),
            );
        }
        put(
            o,
            format_args!(
                "@have cp.async.ca.shared.global [fs+{}],[fp+{}],8{};\ncp.async.commit_group;",
                piece * PIECE,
                8 * piece,
                size("half")
            ),
        );
    }

    /// Has this workgroup's share of the rows of a unit, which lie beside each other, brought to the second-level cache.
    fn fetch(&self, o: &mut String, unit: &str, side: u32) {
        let splits = self.form.splits;
        let units = self.units();
        put(o, format_args!("setp.ne.u32 p,tid,0; setp.ge.u32 q,{unit},{units}; or.pred q,q,p;"));
        self.rows().matrix_of(o, unit);
        for (part, bytes) in [(0, self.row_bytes()[0]), (1, self.row_bytes()[1]), (2, self.row_bytes()[1])] {
            self.told(o, "wa", [part, side], "ahead");
            let share = UNIT * bytes / splits;
            put(
                o,
                format_args!(
                    "mul.wide.u32 l,local,{}; add.u64 wa,wa,l; mul.wide.u32 l,split,{share}; add.u64 wa,wa,l;
@!q cp.async.bulk.prefetch.L2.global [wa],{share};",
                    UNIT * bytes
                ),
            );
        }
    }

    /// Multiplies 16 rows of codes of one side of a unit, while those of the next are on their way.
    fn step(&self, o: &mut String, side: u32) {
        let pieces = self.form.pieces;
        if side + 1 < self.sides() {
            self.seek(o, "unit", side + 1);
        } else {
            put(o, format_args!("add.u32 next,unit,lists;"));
            self.seek(o, "next", 0);
        }
        if self.form.ahead > 0 {
            let turn = self.form.ahead + side;
            put(o, format_args!("mad.lo.u32 next,lists,{},unit;", turn / self.sides()));
            self.fetch(o, "next", turn % self.sides());
        }
        self.pieces(o, pieces - 1);
        self.sum_up(o, side);
    }

    /// Multiplies the pieces of a side of a unit, behind which so many are on their way.
    pub fn pieces(&self, o: &mut String, behind: u32) {
        let Form { tiles, pieces, .. } = self.form;
        (0..4 * tiles).for_each(|i| put(o, format_args!("mov.f32 tot{i},0f00000000;")));
        for p in 0..pieces {
            put(o, format_args!("cp.async.wait_group {behind};\nbar.warp.sync -1;"));
            self.piece(o, p);
        }
    }

    /// Multiplies a piece, in place of which comes that of the next rows.
    fn piece(&self, o: &mut String, p: u32) {
        if !self.usual() {
            return self.other_piece(o, p);
        }
        let at = p * PIECE;
        put(
            o,
            format_args!(
                "ld.shared.v2.b32 {{sc0,sc1}},[rs+{at}]; ld.shared.v2.b32 {{sc2,sc3}},[rs+{}];
ld.shared.{bits} bi0,[rb+{at}]; ld.shared.{bits} bi1,[rb+{}];",
                at + 64,
                at + 64,
                bits = if self.half() { "u16" } else { "b32" },
            ),
        );
        self.biased(o, p);
        for i in 0..GROUPS {
            Self::read_codes(o, i, at);
            (0..4).for_each(|h| self.multiply_group(o, p, i, h));
            self.scale_group(o, i);
        }
        put(o, format_args!("bar.warp.sync -1;"));
        self.copy(o, p);
    }

    /// Reads a thread's words of a group of both of its rows.
    fn read_codes(o: &mut String, i: u32, at: u32) {
        put(
            o,
            format_args!(
                "ld.shared.v2.b32 {{c0,c1}},[rx{i}+{at}]; ld.shared.v2.b32 {{c2,c3}},[rx{i}+{}];",
                at + 8 * SPAN / 2
            ),
        );
    }
}

/// Names of four registers.
pub(super) fn four(name: &str, first: u32) -> [String; 4] {
    [0, 1, 2, 3].map(|e| format!("{name}{}", first + e))
}
