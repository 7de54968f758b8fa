//! The text of 17 and more rows by long matrices of codes on warpgroups (wgmma of PTX): a warp has a block of rows of codes, a lane asks for
//! sixteen bytes of two of them at a time, which become left sides in registers. Other warps bring rows of x to shared memory, where they are
//! right sides. What becomes of sums stands in `finish`.

use std::mem::offset_of;

use crate::core::Dtype;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::vulkan::kernels::matmul::warpgroup::text::{head, kind, put};
use crate::vulkan::kernels::progress;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::kernels::quantized::units::{Units, place};
use crate::vulkan::tune::quantized::wide_codes::{ACROSS, BATCH, BLOCK, COLUMN, COLUMNS, RING, SPAN};

/// What the kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Program {
    /// Workgroups that share K.
    pub splits: u32,
    /// Codes of a group.
    pub group: u32,
    /// bfloat16 or float16.
    pub dtype: Dtype,
    /// Length of a row.
    pub k: u32,
    /// Rows of each matrix.
    pub lengths: [u32; 3],
    /// What becomes of the results of one matrix, or of two at once.
    pub after: Option<KeptAfter>,
}

/// Threads of a workgroup.
pub(super) const THREADS: u32 = 32 * (ACROSS + RING);
/// Bytes of a span of a row of codes.
const SPAN_BYTES: u32 = SPAN / 2;
/// Products of a span, each of sixteen elements of K.
const STEPS: u32 = SPAN / 16;
/// Eights of rows of x.
const TILES: u32 = COLUMNS / 8;
/// Bytes of a span of x.
const STAGE: u32 = 2 * SPAN * COLUMNS;
/// Bytes of sums of a block.
pub(super) const SUMS: u32 = 4 * COLUMN * COLUMNS;
/// Registers of two batches of codes: of each span 16 bytes of two rows.
const HELD: u32 = 8 * BATCH * BATCHES;
/// Registers of the factors of two batches: of groups of 32 four each.
const FACTORS: u32 = 8;
/// A batch that is asked for, and the one that is multiplied.
const BATCHES: u32 = 2;

impl Program {
    /// How it goes over rows.
    pub(super) fn rows(&self) -> Units {
        Units { lengths: self.lengths, after: self.after.is_some(), unit: BLOCK }
    }

    /// Blocks of a workgroup, of each side.
    pub(super) fn own(&self) -> u32 {
        ACROSS / self.rows().sides()
    }

    /// Workgroups beside each other.
    pub fn units(&self) -> u32 {
        self.rows().all().div_ceil(self.own())
    }

    /// Batches of K, and those of a part of it.
    fn batches(&self) -> [u32; 2] {
        let all = self.k / (SPAN * BATCH);
        [all, all.div_ceil(self.splits)]
    }

    /// The whole text.
    pub fn text(&self) -> String {
        let mut o = String::with_capacity(32 << 10);
        self.head(&mut o);
        self.bring(&mut o);
        put(&mut o, format_args!("MULTIPLY:"));
        self.places(&mut o);
        self.ask(&mut o, 0);
        put(&mut o, format_args!("BODY:"));
        for s in 0..RING {
            put(
                &mut o,
                format_args!(
                    "W{s}:\nmbarrier.try_wait.parity.shared::cta.b64 q,[full+{}],phase;\n@!q bra W{s};",
                    8 * s
                ),
            );
            self.multiply(&mut o, s);
            if (s + 1) % BATCH == 0 {
                put(&mut o, format_args!("setp.le.u32 p,left,{};\n@p bra END;", (s + 1) / BATCH));
            }
        }
        put(
            &mut o,
            format_args!(
                "add.u64 wa,wa,{all}; add.u64 wb,wb,{all}; add.u64 fp,fp,{factors}; sub.u32 left,left,{}; xor.b32 phase,phase,1; mov.pred again,first;\nbra BODY;\nEND:\nwgmma.wait_group.sync.aligned 0;",
                RING / BATCH,
                all = RING * SPAN_BYTES,
                factors = RING * 2 * SPAN / self.group,
            ),
        );
        self.finish(&mut o);
        o += "DONE:\n";
        progress::ends(&mut o, size_of::<Push>());
        o += "ret;\n}\n";
        o
    }

    fn head(&self, o: &mut String) {
        let [all, of_part] = self.batches();
        *o += &head("sm_90a", progress::told::<Push>(), [THREADS, 1]);
        put(
            o,
            format_args!(
                ".shared .align 128 .b8 ring[{ring}];
.shared .align 8 .b64 bars[{bars}];
.shared .align 4 .b8 flag[4];
.reg .pred p,q,one,two,there<{TILES}>,mine,live,odd,again,first;
.reg .b32 tid,lane,warp,g,t,rows,unit,split,block,local,tmp,tmp2,left,len,at,v,r,pk,own,sel,unity,minus,row0,full,phase,lo,hi,base;
.reg .b32 x<{xs}>,c<{HELD}>,f<32>,h<14>,ar<2>,fq<{FACTORS}>,fs<4>,fb<4>,sc<2>,bi<2>;
.reg .b16 hl,hh;
.reg .f32 tot<{sums}>,w<48>,e<6>,y<4>;
.reg .b64 wa,wb,fp,l,m,da,xa,desc;
ld.param.u32 rows,[args+{at_rows}];
mov.u32 tid,%tid.x; shr.u32 warp,tid,5; and.b32 lane,tid,31; shr.u32 g,lane,2; and.b32 t,lane,3; mov.u32 full,bars;
mov.u32 tmp,%ctaid.x; div.u32 unit,tmp,{splits}; rem.u32 split,tmp,{splits};
mul.lo.u32 own,split,{of_part}; min.u32 own,own,{all}; sub.u32 left,{all},own; min.u32 left,left,{of_part};
setp.eq.u32 first,lane,0; setp.ne.u32 p,tid,0;\n@p bra READY;",
                ring = (RING * STAGE).max(ACROSS * SUMS),
                bars = 2 * RING,
                xs = 16 * TILES,
                sums = 4 * TILES,
                at_rows = offset_of!(Push, rows),
                splits = self.splits,
            ),
        );
        for s in 0..RING {
            put(
                o,
                format_args!(
                    "mbarrier.init.shared::cta.b64 [full+{}],32; mbarrier.init.shared::cta.b64 [full+{}],{ACROSS};",
                    8 * s,
                    8 * (RING + s)
                ),
            );
        }
        put(o, format_args!("READY:\nbar.sync 0;\nsetp.lt.u32 p,warp,{ACROSS};\n@p bra MULTIPLY;"));
    }

    /// What warps do that bring rows of x: each has a span of the ring, a lane a quarter of rows that lie eight apart, four times 16 bytes
    /// of each. Elements lie as lanes that multiply have their weights: of each step eight rows' 16 bytes beside each other.
    fn bring(&self, o: &mut String) {
        put(
            o,
            format_args!(
                "sub.u32 warp,warp,{ACROSS}; and.b32 v,lane,7; shr.u32 r,lane,3; mad.lo.u32 full,warp,8,full; mul.lo.u32 own,own,{BATCH}; mul.lo.u32 left,left,{BATCH};
ld.param.u64 xa,[args]; add.u32 tmp,own,warp; mul.wide.u32 l,tmp,{span}; add.u64 xa,xa,l; mul.wide.u32 l,r,16; add.u64 xa,xa,l; mul.wide.u32 l,v,{row}; add.u64 xa,xa,l;
mov.u32 at,ring; mad.lo.u32 at,warp,{STAGE},at; mad.lo.u32 at,v,16,at; mad.lo.u32 at,r,{quarter},at; mov.u32 phase,1;",
                span = 2 * SPAN,
                row = 2 * self.k,
                quarter = STAGE / 4,
            ),
        );
        (0..TILES)
            .for_each(|n| put(o, format_args!("add.u32 tmp,v,{}; setp.lt.u32 there{n},tmp,rows;", 8 * n)));
        (0..16 * TILES).for_each(|i| put(o, format_args!("mov.b32 x{i},0;")));
        progress::warp_waits(o, size_of::<Push>());
        put(o, format_args!("setp.ge.u32 p,warp,left;\n@p bra DONE;\nBRING:"));
        for (n, i) in (0..TILES).flat_map(|n| (0..4).map(move |i| (n, i))) {
            let at = 64 * i + 16 * n * self.k;
            put(
                o,
                format_args!(
                    "@there{n} ld.global.cg.v4.b32 {{{}}},[xa+{at}];",
                    four("x", 16 * n + 4 * i).join(",")
                ),
            );
        }
        put(
            o,
            format_args!(
                "EMPTY:\nmbarrier.try_wait.parity.shared::cta.b64 q,[full+{}],phase;\n@!q bra EMPTY;",
                8 * RING
            ),
        );
        (0..TILES).for_each(|n| self.lay(o, n));
        put(
            o,
            format_args!(
                "fence.proxy.async.shared::cta;\nmbarrier.arrive.shared::cta.b64 _,[full];\nxor.b32 phase,phase,1; add.u32 warp,warp,{RING}; setp.lt.u32 p,warp,left; add.u64 xa,xa,{};\n@p bra BRING;\nbra DONE;",
                RING * 2 * SPAN
            ),
        );
    }

    /// Stores what came of row `n` of a lane: words of its four chunks beside each other, in the order of digits.
    fn lay(&self, o: &mut String, n: u32) {
        for x in (0..4).map(|i| 16 * n + 4 * i) {
            let [a, b, c, d] = [x, x + 1, x + 2, x + 3];
            put(
                o,
                format_args!(
                    "prmt.b32 h0,x{a},x{c},0x5410; prmt.b32 h1,x{a},x{c},0x7632; prmt.b32 h2,x{b},x{d},0x5410; prmt.b32 x{d},x{b},x{d},0x7632; mov.b32 x{a},h0; mov.b32 x{b},h1; mov.b32 x{c},h2;"
                ),
            );
        }
        for word in 0..4 {
            let words = [0, 4, 8, 12].map(|i| format!("x{}", 16 * n + i + word)).join(",");
            let at = word * COLUMNS * 16 + 128 * n;
            put(o, format_args!("st.shared.v4.b32 [at+{at}],{{{words}}};"));
        }
    }

    /// Where a lane's rows of weights lie; rows beyond a matrix are its last one.
    fn places(&self, o: &mut String) {
        let rows = self.rows();
        self.block(o);
        rows.matrix_of(o, "block");
        rows.length(o);
        let told = |o: &mut String, to: &str, part: u32| {
            rows.told(o, to, part, 0);
            if rows.sides() == 2 {
                put(o, format_args!("@odd ld.param.u64 {to},[args+{}];", place(part, 1)));
            }
        };
        told(o, "wa", 0);
        put(
            o,
            format_args!(
                "mul.wide.u32 m,own,{batch}; mul.wide.u32 l,t,16; add.u64 m,m,l; add.u64 wa,wa,m; sub.u32 len,len,1;
mad.lo.u32 row0,local,{BLOCK},g; min.u32 tmp,row0,len; add.u32 row0,row0,8; min.u32 row0,row0,len;
mul.wide.u32 l,row0,{bytes}; add.u64 wb,wa,l; mul.wide.u32 l,tmp,{bytes}; add.u64 wa,wa,l;",
                batch = SPAN_BYTES * BATCH,
                bytes = self.k / 2,
            ),
        );
        // Of four lanes each has the scales or the biases of one of both rows.
        told(o, "fp", 1);
        told(o, "m", 2);
        put(
            o,
            format_args!(
                "and.b32 v,t,1; setp.ne.u32 p,v,0; selp.b64 fp,m,fp,p; setp.ge.u32 p,t,2; selp.b32 tmp,row0,tmp,p; mul.wide.u32 l,tmp,{factors}; add.u64 fp,fp,l; mul.wide.u32 l,own,{batch}; add.u64 fp,fp,l;
mul.lo.u32 tmp,t,{of_span}; shr.u32 tmp,tmp,2; mul.lo.u32 tmp,tmp,0x2222; add.u32 sel,tmp,0x1010; mov.b32 unity,{unity:#x}; mov.b32 minus,{minus:#x};",
                factors = 2 * self.k / self.group,
                batch = 2 * SPAN * BATCH / self.group,
                unity = self.whole()[1],
                minus = self.whole()[2],
                of_span = SPAN / self.group,
            ),
        );
        (0..FACTORS).for_each(|i| put(o, format_args!("mov.b32 fq{i},0;")));
        put(
            o,
            format_args!(
                "mov.u32 tmp,ring; shr.u32 base,tmp,4; add.u32 base,base,{}; mov.u32 hi,8; mov.u32 phase,0; setp.ne.u32 again,left,left;",
                COLUMNS << 16
            ),
        );
        (0..4 * TILES).for_each(|i| put(o, format_args!("mov.f32 tot{i},0f00000000;")));
        (0..HELD).for_each(|i| put(o, format_args!("mov.b32 c{i},0;")));
    }

    /// Which block of rows a warp has, whether it is there, and whether of the second side; the last one for those beyond.
    pub(super) fn block(&self, o: &mut String) {
        let all = self.rows().all();
        put(
            o,
            format_args!(
                "div.u32 tmp,warp,{sides}; mad.lo.u32 block,unit,{own},tmp; rem.u32 tmp,warp,{sides}; setp.ne.u32 odd,tmp,0;\nsetp.lt.u32 live,block,{all}; min.u32 block,block,{last};",
                sides = self.rows().sides(),
                own = self.own(),
                last = all - 1
            ),
        );
    }

    /// Asks for the weights of the batch `ahead` of the body's first. Volatile: the compiler leaves the loads where they are.
    fn ask(&self, o: &mut String, ahead: u32) {
        let set = ahead % BATCHES;
        put(o, format_args!("setp.gt.u32 p,left,{ahead};"));
        for (span, row, name) in (0..BATCH).flat_map(|s| [(s, 0, "wa"), (s, 1, "wb")]) {
            let c = four("c", 8 * (BATCH * set + span) + 4 * row).join(",");
            put(
                o,
                format_args!(
                    "@p ld.volatile.global.v4.b32 {{{c}}},[{name}+{}];",
                    (ahead * BATCH + span) * SPAN_BYTES
                ),
            );
        }
        let words = self.words();
        let all = (0..words).map(|w| format!("fq{}", words * set + w)).collect::<Vec<_>>().join(",");
        let kind = ["", "", "v2.", "", "v4."][words as usize];
        let all = if words > 1 { format!("{{{all}}}") } else { all };
        put(o, format_args!("@p ld.global.nc.{kind}b32 {all},[fp+{}];", 4 * words * ahead));
    }

    /// Words of a lane's factors in a batch.
    fn words(&self) -> u32 {
        2 * SPAN * BATCH / self.group / 4
    }

    /// Begins a product of span `s` of the ring.
    fn step(&self, o: &mut String, s: u32, step: u32, left: [String; 4]) {
        let sums = (0..COLUMNS / 2).map(|i| format!("tot{i}")).collect::<Vec<_>>().join(",");
        put(
            o,
            format_args!(
                "add.u32 lo,base,{}; mov.b64 desc,{{lo,hi}};
wgmma.mma_async.sync.aligned.m64n{COLUMNS}k16.f32.{kind}.{kind} {{{sums}}},{{{}}},desc,1,1,1,0;",
                (s * STAGE + step * STAGE / STEPS) >> 4,
                left.join(","),
                kind = kind(self.dtype),
            ),
        );
    }

    /// Says that the span before `s` has been read.
    fn free(&self, o: &mut String, s: u32) {
        let guard = if s == 0 { "again" } else { "first" };
        put(
            o,
            format_args!(
                "@{guard} mbarrier.arrive.shared::cta.b64 _,[full+{}];",
                8 * (RING + (s + RING - 1) % RING)
            ),
        );
    }

    /// Multiplies a span, half of it at a time.
    fn multiply(&self, o: &mut String, s: u32) {
        self.factors(o, s);
        for half in 0..2 {
            put(o, format_args!("wgmma.wait_group.sync.aligned 1;"));
            if half == 1 {
                self.free(o, s);
            }
            for (word, step, row) in
                [0, 1].into_iter().flat_map(|w| [(w, 0, 0), (w, 0, 1), (w, 1, 0), (w, 1, 1)])
            {
                let c = 8 * s + 4 * row + 2 * half + word;
                self.decode(o, c, step, row, 16 * half + 4 * (2 * word + step) + row);
            }
            put(o, format_args!("wgmma.fence.sync.aligned;"));
            for i in 0..STEPS / 2 {
                self.step(o, s, STEPS / 2 * half + i, four("f", 16 * half + 4 * i));
            }
            put(o, format_args!("wgmma.commit_group.sync.aligned;"));
            if s.is_multiple_of(BATCH) && half == 0 {
                // What was asked for has come.
                self.ask(o, s / BATCH + 1);
            }
        }
    }

    /// The factors of a lane's codes in span `s`, from the lanes that have them.
    fn factors(&self, o: &mut String, s: u32) {
        let (set, span) = (s / BATCH % BATCHES, s % BATCH);
        // A word has those of two groups.
        let (words, first) = match SPAN / self.group {
            1 => (1, 0),
            n => (n / 2, n / 2 * span),
        };
        for (i, row) in (0..words).flat_map(|i| [(i, 0), (i, 1)]) {
            for (name, lane) in [("fs", 2 * row), ("fb", 2 * row + 1)] {
                let from = self.words() * set + first + i;
                put(o, format_args!("shfl.sync.idx.b32 {name}{},fq{from},{lane},0x1c1f,-1;", 2 * row + i));
            }
        }
        let sel = if self.group == SPAN { ["0x1010", "0x3232"][span as usize] } else { "sel" };
        for row in 0..2 {
            let (low, high) = (2 * row, 2 * row + words - 1);
            put(
                o,
                format_args!(
                    "prmt.b32 sc{row},fs{low},fs{high},{sel}; prmt.b32 bi{row},fb{low},fb{high},{sel};"
                ),
            );
        }
    }

    /// Two pairs of codes of word `c` as values of row `row`: digits behind a power of two are whole numbers, as which they are told apart
    /// again; then their scale and bias, rounded once.
    fn decode(&self, o: &mut String, c: u32, step: u32, row: u32, to: u32) {
        let ([behind, ..], kind) = (self.whole(), kind(self.dtype));
        for (place, to) in [(8 * step, to), (8 * step + 4, to + 2)] {
            put(
                o,
                format_args!(
                    "shr.u32 tmp,c{c},{place}; and.b32 tmp,tmp,0x000f000f; or.b32 tmp,tmp,{behind:#x}; fma.rn.{kind}x2 tmp,tmp,unity,minus; fma.rn.{kind}x2 f{to},tmp,sc{row},bi{row};"
                ),
            );
        }
    }

    /// Pairs of what codes are added to, 128 or 1024, of one and of minus the first.
    fn whole(&self) -> [u32; 3] {
        match self.dtype {
            Dtype::F16 => [0x6400_6400, 0x3c00_3c00, 0xe400_e400],
            _ => [0x4300_4300, 0x3f80_3f80, 0xc300_c300],
        }
    }
}

/// Names of four registers.
pub(super) fn four(name: &str, first: u32) -> [String; 4] {
    [0, 1, 2, 3].map(|e| format!("{name}{}", first + e))
}
