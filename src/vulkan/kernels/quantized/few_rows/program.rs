//! The text of the products of few rows with four-bit codes (PTX): copies of codes to shared memory, x in registers as the right
//! sides of products, codes as left ones, and the walk over rows of codes. What becomes of sums stands in `finish`.

use std::mem::offset_of;

use crate::core::Dtype;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::vulkan::kernels::matmul::warpgroup::text::{self, put};
use crate::vulkan::kernels::progress;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::kernels::quantized::units::Units;
use crate::vulkan::tune::quantized::few_rows::{COLUMN, Form, GROUPS, PIECE, SPAN, UNIT};

/// What the kernel does; bfloat16, groups of 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Program {
    pub form: Form,
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

/// What codes are multiplied by as elements whose exponent is zero: low digits, and those four places up; and what undoes it.
const UP: [u32; 2] = [0x6f80_6f80, 0x6d80_6d80];
/// Bits of 2^-37, which both come to.
const DOWN: u32 = 0x2d00_0000;

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
        [self.k / 2, self.k / 32]
    }

    /// Whether every piece of every subgroup is there.
    fn exact(&self) -> bool {
        self.k == self.form.warps * self.form.pieces * self.form.splits * self.form.span()
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
        let xs = tiles * pieces * groups * 8;
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
.reg .b32 rx<4>,x<{xs}>,bx<{bxs}>,sc<4>,bi<2>,c<4>,a<4>,size<{pieces}>,half<{pieces}>,v<{rounds}>,r<{rounds}>,at<{rounds}>;
.reg .b32 ar<{arrays}>,h<8>,up<3>,nw<4>,pk,ws<{codes}>,above,part,fu;
.reg .f32 f<16>,root<{roots}>,z,acc<{accs}>,tot<{accs}>,y<{ys}>,e<8>,sum<4>,w0,w1;
.reg .b64 wp,fp,l,m,na,xa,wa,sa,ba,da;
ld.param.u32 rows,[args+{at_rows}];
mov.u32 tid,%tid.x; shr.u32 warp,tid,5; and.b32 lane,tid,31; shr.u32 g,lane,2; and.b32 t,lane,3; mov.f32 z,0f00000000;",
                ring = if held > 0 { held * self.k } else { slots * warps * pieces * PIECE },
                codes = (4 * held * groups).max(1),
                sums = self.form.sums() * buffers,
                roots = tiles.max(self.rounds()),
                rounds = self.rounds(),
                bxs = 2 * tiles * pieces,
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
                "mad.lo.u32 rs,g,8,rs; add.u32 rs,rs,{codes_of_piece}; and.b32 tmp,t,1; mad.lo.u32 rb,tmp,4,rs; add.u32 rb,rb,{biases};
setp.ne.u32 odd,tmp,0; setp.ge.u32 high,t,2;",
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

    /// Rows of x as right sides, each eight of them by their number.
    pub(super) fn load_x(&self, o: &mut String) {
        for j in 0..self.form.tiles {
            put(o, format_args!("add.u32 tmp,g,{};", 8 * j));
            if self.form.parts > 1 {
                put(o, format_args!("add.u32 tmp,tmp,above;"));
            }
            put(o, format_args!("setp.lt.u32 there{j},tmp,rows;"));
            self.load_eight(o, j);
        }
        if self.norm.is_some() {
            self.weigh(o);
        }
        self.deal(o);
        if let Some(eps) = self.norm {
            self.roots(o, eps);
        }
    }

    /// Loads the eight rows `j` as right sides: of each group a thread has 16 elements of the row in `tmp`, those of the codes that it will
    /// read; zeros where `there` says that there is none.
    pub fn load_eight(&self, o: &mut String, j: u32) {
        let Form { pieces, groups, .. } = self.form;
        put(
            o,
            format_args!(
                "mul.wide.u32 l,tmp,{}; ld.param.u64 xa,[args]; add.u64 xa,xa,l;
mad.lo.u32 tmp,t,16,k0; mul.wide.u32 l,tmp,2; add.u64 xa,xa,l;",
                2 * self.k
            ),
        );
        for p in 0..pieces {
            if !self.exact() {
                put(o, format_args!("setp.ne.u32 p,size{p},0; and.pred p,p,there{j};"));
            }
            let guard = if self.exact() { format!("there{j}") } else { "p".into() };
            let first = (j * pieces + p) * groups * 8;
            for i in 0..2 * groups {
                let [a, b, c, d] = [0, 1, 2, 3].map(|e| first + 4 * i + e);
                put(
                    o,
                    format_args!(
                        "mov.b32 x{a},0; mov.b32 x{b},0; mov.b32 x{c},0; mov.b32 x{d},0;
@{guard} ld.global.cg.v4.b32 {{x{a},x{b},x{c},x{d}}},[xa+{}];",
                        2 * (self.form.span() * p + 64 * (i / 2)) + 16 * (i % 2)
                    ),
                );
            }
        }
    }

    /// Makes right sides of what was loaded.
    pub fn deal(&self, o: &mut String) {
        put(o, format_args!("mov.b32 up0,{:#x}; mov.b32 up1,{:#x}; mov.b32 up2,0x80008000;", UP[0], UP[1]));
        let groups = self.form.groups;
        (groups..GROUPS).for_each(|i| put(o, format_args!("mov.f32 sum{i},0f00000000;")));
        for part in 0..self.form.tiles * self.form.pieces {
            for i in 0..groups {
                Self::deal_x(o, (part * groups + i) * 8, i);
            }
            Self::deal_sums(o, 2 * part);
        }
    }

    /// Multiplies the rows that were asked for by the weights that normalise them, and leaves what subgroups have of their squares: sums of
    /// products are multiplied by what rows would be (`roots`).
    fn weigh(&self, o: &mut String) {
        let Form { tiles, pieces, groups, .. } = self.form;
        put(
            o,
            format_args!(
                "ld.param.u64 wa,[args+{}]; mad.lo.u32 tmp,t,16,k0; mul.wide.u32 l,tmp,2; add.u64 wa,wa,l;",
                offset_of!(Push, norm)
            ),
        );
        (0..tiles).for_each(|j| put(o, format_args!("mov.f32 root{j},0f00000000;")));
        for (p, i) in (0..pieces).flat_map(|p| (0..2 * groups).map(move |i| (p, i))) {
            let guard = if self.exact() { "" } else { "@p " };
            if !self.exact() {
                put(
                    o,
                    format_args!(
                        "setp.ne.u32 p,size{p},0; mov.b32 nw0,0; mov.b32 nw1,0; mov.b32 nw2,0; mov.b32 nw3,0;"
                    ),
                );
            }
            put(
                o,
                format_args!(
                    "{guard}ld.global.v4.b32 {{nw0,nw1,nw2,nw3}},[wa+{}];",
                    2 * (self.form.span() * p + 64 * (i / 2)) + 16 * (i % 2)
                ),
            );
            for e in 0..4 {
                Self::pair(o, ["f2", "f3"], &format!("nw{e}"));
                for j in 0..tiles {
                    let x = format!("x{}", ((j * pieces + p) * groups * 8) + 4 * i + e);
                    Self::pair(o, ["f0", "f1"], &x);
                    put(
                        o,
                        format_args!(
                            "fma.rn.f32 root{j},f0,f0,root{j}; fma.rn.f32 root{j},f1,f1,root{j}; mul.rn.f32 f0,f0,f2; mul.rn.f32 f1,f1,f3; cvt.rn.bf16x2.f32 {x},f1,f0;"
                        ),
                    );
                }
            }
        }
        put(
            o,
            format_args!(
                "setp.eq.u32 q,t,0; mov.u32 tmp2,squares; mad.lo.u32 tmp2,g,4,tmp2; mad.lo.u32 tmp2,warp,{},tmp2;",
                4 * 8 * tiles
            ),
        );
        for j in 0..tiles {
            put(
                o,
                format_args!(
                    "shfl.sync.bfly.b32 f1,root{j},1,31,-1; add.f32 f0,root{j},f1; shfl.sync.bfly.b32 f1,f0,2,31,-1; add.f32 f0,f0,f1;\n@q st.shared.f32 [tmp2+{}],f0;",
                    32 * j
                ),
            );
        }
    }

    /// What the rows of a thread's results are multiplied by: squares are summed up over subgroups.
    pub(super) fn roots(&self, o: &mut String, eps: u32) {
        let Form { tiles, warps, parts, .. } = self.form;
        put(o, format_args!("bar.sync 0;"));
        for r in 0..self.rounds() {
            put(o, format_args!("mov.f32 root{r},0f00000000; mov.u32 tmp2,squares;"));
            let row = if parts > 1 {
                put(o, format_args!("sub.u32 tmp,v{r},above;"));
                "tmp".to_string()
            } else {
                format!("v{r}")
            };
            put(o, format_args!("mad.lo.u32 tmp2,{row},4,tmp2;"));
            for w in 0..warps {
                put(
                    o,
                    format_args!(
                        "@mine{r} ld.shared.f32 f5,[tmp2+{}];\n@mine{r} add.f32 root{r},root{r},f5;",
                        4 * 8 * tiles * w
                    ),
                );
            }
            self.root(o, &format!("root{r}"), &format!("root{r}"), eps);
        }
    }

    /// The pair of elements in register `x` times `root` and two weights, which the last two of four registers have; rounded.
    pub(super) fn normalised(o: &mut String, x: &str, root: &str, [a, b, v, w]: [&str; 4]) {
        Self::pair(o, [a, b], x);
        put(
            o,
            format_args!(
                "mul.rn.f32 {a},{a},{root}; mul.rn.f32 {b},{b},{root}; mul.rn.f32 {a},{a},{v}; mul.rn.f32 {b},{b},{w}; cvt.rn.bf16x2.f32 {x},{b},{a};"
            ),
        );
    }

    /// What a row is multiplied by whose squares have this sum.
    pub(super) fn root(&self, o: &mut String, to: &str, sum: &str, eps: u32) {
        let k = (self.k as f32).to_bits();
        put(
            o,
            format_args!(
                "div.rn.f32 {to},{sum},0f{k:08X}; add.rn.f32 {to},{to},0f{eps:08X}; sqrt.rn.f32 {to},{to}; rcp.rn.f32 {to},{to};"
            ),
        );
    }

    /// A pair of elements as float32.
    pub(super) fn pair(o: &mut String, to: [&str; 2], from: &str) {
        text::pair(o, Dtype::BF16, to, from, "tmp");
    }

    /// Sums the 16 elements of a group from register `first` on, over four lanes too, into `sum{i}`; and orders them as codes lie
    /// in words, in the range that codes need.
    fn deal_x(o: &mut String, first: u32, i: u32) {
        for k in 0..8 {
            let to = [2 * k, 2 * k + 1].map(|e| format!("f{e}"));
            Self::pair(o, [&to[0], &to[1]], &format!("x{}", first + k));
        }
        for step in [8, 4, 2, 1] {
            (0..step).for_each(|k| put(o, format_args!("add.f32 f{k},f{k},f{};", k + step)));
        }
        put(
            o,
            format_args!(
                "shfl.sync.bfly.b32 f1,f0,1,31,-1; add.f32 f0,f0,f1; shfl.sync.bfly.b32 f1,f0,2,31,-1; add.f32 sum{i},f0,f1;"
            ),
        );
        for h in [0, 4] {
            for (to, from, selected) in [(0, 0, 0x5410), (1, 0, 0x7632), (2, 1, 0x5410), (3, 1, 0x7632)] {
                put(
                    o,
                    format_args!(
                        "prmt.b32 h{},x{},x{},{selected:#x};",
                        h + to,
                        first + h + from,
                        first + h + from + 2
                    ),
                );
            }
        }
        for k in 0..8 {
            put(o, format_args!("fma.rn.bf16x2 x{},h{k},up{},up2;", first + k, k % 2));
        }
    }

    /// The sums of four groups as the right side that biases meet: three numbers of 16 bits for each, that have all of its digits.
    fn deal_sums(o: &mut String, to: u32) {
        put(
            o,
            format_args!(
                "selp.f32 f0,sum2,sum0,odd; selp.f32 f1,sum3,sum1,odd; mul.f32 f0,f0,0f{DOWN:08X}; mul.f32 f1,f1,0f{DOWN:08X};"
            ),
        );
        for i in 0..3 {
            put(o, format_args!("cvt.rn.bf16x2.f32 h{i},f1,f0;"));
            Self::pair(o, ["f2", "f3"], &format!("h{i}"));
            put(o, format_args!("sub.f32 f0,f0,f2; sub.f32 f1,f1,f3;"));
        }
        put(o, format_args!("selp.b32 bx{to},h1,h0,high; selp.b32 bx{},0,h2,high;", to + 1));
    }

    pub(super) fn multiply(o: &mut String, to: &str, right: [String; 2], add: [String; 4]) {
        put(
            o,
            format_args!(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{to}}},{{a0,a1,a2,a3}},{{{}}},{{{}}};",
                right.join(","),
                add.join(",")
            ),
        );
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
        let tiles = self.form.tiles;
        let at = p * PIECE;
        put(
            o,
            format_args!(
                "ld.shared.v2.b32 {{sc0,sc1}},[rs+{at}]; ld.shared.v2.b32 {{sc2,sc3}},[rs+{}];
ld.shared.b32 bi0,[rb+{at}]; ld.shared.b32 bi1,[rb+{}];",
                at + 64,
                at + 64
            ),
        );
        put(o, format_args!("mov.b32 a0,bi0; mov.b32 a1,bi1; mov.b32 a2,bi0; mov.b32 a3,bi1;"));
        for j in 0..tiles {
            let b = 2 * (j * self.form.pieces + p);
            let right = [format!("bx{b}"), format!("bx{}", b + 1)];
            Self::multiply(o, &four("tot", 4 * j).join(","), right, four("tot", 4 * j));
        }
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

    /// Multiplies a quarter of a group of a piece: codes two at a time, at two places of half a word each.
    pub(super) fn multiply_group(&self, o: &mut String, p: u32, i: u32, h: u32) {
        let (low, high) = (h / 2, h / 2 + 2);
        if h % 2 == 1 {
            put(o, format_args!("shr.u32 c{low},c{low},8; shr.u32 c{high},c{high},8;"));
        }
        put(
            o,
            format_args!(
                "and.b32 a0,c{low},0x000f000f; and.b32 a1,c{high},0x000f000f; and.b32 a2,c{low},0x00f000f0; and.b32 a3,c{high},0x00f000f0;"
            ),
        );
        for j in 0..self.form.tiles {
            let x = ((j * self.form.pieces + p) * self.form.groups + i) * 8 + 2 * h;
            let right = [format!("x{x}"), format!("x{}", x + 1)];
            let sums = four("acc", 4 * j);
            let add = if h == 0 { ["z"; 4].map(String::from) } else { sums.clone() };
            Self::multiply(o, &sums.join(","), right, add);
        }
    }

    /// Adds the sums of a group times their scales.
    pub(super) fn scale_group(&self, o: &mut String, i: u32) {
        for row in 0..2 {
            let word = 2 * row + i / 2;
            match i % 2 {
                0 => put(o, format_args!("shl.b32 tmp,sc{word},16; mov.b32 f{row},tmp;")),
                _ => put(o, format_args!("and.b32 tmp,sc{word},0xffff0000; mov.b32 f{row},tmp;")),
            }
        }
        for e in 0..4 * self.form.tiles {
            put(o, format_args!("fma.rn.f32 tot{e},acc{e},f{},tot{e};", e / 2 % 2));
        }
    }
}

/// Names of four registers.
pub(super) fn four(name: &str, first: u32) -> [String; 4] {
    [0, 1, 2, 3].map(|e| format!("{name}{}", first + e))
}
