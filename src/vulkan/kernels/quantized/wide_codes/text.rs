//! The text of rows by long matrices of codes on warpgroups (wgmma of PTX): a warp has a block of rows of codes, a lane asks for
//! its codes of two of them at a time, which become left sides in registers (`decode`). Other warps bring rows of x to shared memory
//! (`bring`), where they are right sides. What becomes of sums stands in `finish`.

use std::mem::offset_of;

use crate::core::Dtype;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::kernels::quantized::quant::Format;
use crate::vulkan::kernels::matmul::warpgroup::text::{head, kind, put};
use crate::vulkan::kernels::progress;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::kernels::quantized::units::{Units, place};
use crate::vulkan::tune::quantized::wide_codes::{ACROSS, BLOCK, COLUMN, RING, SPAN, batch};

/// What the kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Program {
    /// Workgroups that share K.
    pub splits: u32,
    /// How codes are read.
    pub format: Format,
    /// Rows of x at a time: 8, 16 or 32.
    pub columns: u32,
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
/// Products of a span, each of sixteen elements of K.
const STEPS: u32 = SPAN / 16;
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

    /// Eights of rows of x.
    pub(super) fn tiles(&self) -> u32 {
        self.columns / 8
    }

    /// Bytes of a span of x.
    pub(super) fn stage(&self) -> u32 {
        2 * SPAN * self.columns
    }

    /// Bytes of sums of a block.
    pub(super) fn sums(&self) -> u32 {
        4 * COLUMN * self.columns
    }

    /// Bytes of a row of codes of a batch.
    pub(super) fn bytes(&self) -> u32 {
        batch(self.format) / 8 * self.format.bits
    }

    /// Registers of two batches of codes: those that a lane has of two rows.
    fn held(&self) -> u32 {
        BATCHES * 2 * self.bytes() / 16
    }

    /// Spans of a batch.
    pub(super) fn spans(&self) -> u32 {
        batch(self.format) / SPAN
    }

    /// Which of two batches span `s` is in, and its place there.
    pub(super) fn set_of(&self, s: u32) -> (u32, u32) {
        (s / self.spans() % BATCHES, s % self.spans())
    }

    /// Batches of K, and those of a part of it.
    fn batches(&self) -> [u32; 2] {
        let all = self.k / batch(self.format);
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
            if (s + 1) % self.spans() == 0 {
                put(&mut o, format_args!("setp.le.u32 p,left,{};\n@p bra END;", (s + 1) / self.spans()));
            }
        }
        put(
            &mut o,
            format_args!(
                "add.u64 wa,wa,{all}; add.u64 wb,wb,{all}; add.u64 fp,fp,{factors}; sub.u32 left,left,{}; xor.b32 phase,phase,1; mov.pred again,first;\nbra BODY;\nEND:\nwgmma.wait_group.sync.aligned 0;",
                RING / self.spans(),
                all = RING / self.spans() * self.bytes(),
                factors = RING / self.spans() * self.of_batch(),
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
.reg .pred p,q,one,two,there<{tiles}>,mine,live,odd,again,first;
.reg .b32 tid,lane,warp,g,t,rows,unit,split,block,local,tmp,tmp2,left,len,at,v,r,pk,own,sel0,sel1,unity,minus,up,eights,beyond,least,zero,sevens,tops,row0,full,phase,lo,hi,base;
.reg .b32 x<{xs}>,c<{held}>,f<32>,h<14>,ar<2>,fq<{FACTORS}>,fs<4>,fb<4>,sc<4>,bi<4>;
.reg .b16 hl,hh;
.reg .f32 tot<{sums}>,w<48>,e<6>,y<4>;
.reg .b64 wa,wb,fp,l,m,da,xa,desc;
ld.param.u32 rows,[args+{at_rows}];
mov.u32 tid,%tid.x; shr.u32 warp,tid,5; and.b32 lane,tid,31; shr.u32 g,lane,2; and.b32 t,lane,3; mov.u32 full,bars;
mov.u32 tmp,%ctaid.x; div.u32 unit,tmp,{splits}; rem.u32 split,tmp,{splits};
mul.lo.u32 own,split,{of_part}; min.u32 own,own,{all}; sub.u32 left,{all},own; min.u32 left,left,{of_part};
setp.eq.u32 first,lane,0; setp.ne.u32 p,tid,0;\n@p bra READY;",
                tiles = self.tiles(),
                ring = (RING * self.stage()).max(ACROSS * self.sums()),
                bars = 2 * RING,
                held = self.held(),
                xs = 16 * self.tiles(),
                sums = 4 * self.tiles(),
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

    /// Where a lane's rows of weights lie; rows beyond a matrix are its last one.
    fn places(&self, o: &mut String) {
        let rows = self.rows();
        self.block(o);
        rows.matrix_of(o, "block");
        rows.length(o);
        self.told(o, "wa", 0);
        put(
            o,
            format_args!(
                "mul.wide.u32 m,own,{batch}; mul.wide.u32 l,t,{lane}; add.u64 m,m,l; add.u64 wa,wa,m; sub.u32 len,len,1;
mad.lo.u32 row0,local,{BLOCK},g; min.u32 tmp,row0,len; add.u32 row0,row0,8; min.u32 row0,row0,len;
mul.wide.u32 l,row0,{bytes}; add.u64 wb,wa,l; mul.wide.u32 l,tmp,{bytes}; add.u64 wa,wa,l;",
                batch = self.bytes(),
                lane = if self.odd() { 4 * self.format.bits } else { 16 },
                bytes = self.k / 8 * self.format.bits,
            ),
        );
        self.factors_at(o);
        self.constants(o);
        (0..FACTORS).for_each(|i| put(o, format_args!("mov.b32 fq{i},0;")));
        put(
            o,
            format_args!(
                "mov.u32 tmp,ring; shr.u32 base,tmp,4; add.u32 base,base,{}; mov.u32 hi,8; mov.u32 phase,0; setp.ne.u32 again,left,left;",
                self.columns << 16
            ),
        );
        (0..4 * self.tiles()).for_each(|i| put(o, format_args!("mov.f32 tot{i},0f00000000;")));
        (0..self.held()).for_each(|i| put(o, format_args!("mov.b32 c{i},0;")));
    }

    /// What is told of the matrix of a warp.
    fn told(&self, o: &mut String, to: &str, part: u32) {
        self.rows().told(o, to, part, 0);
        if self.rows().sides() == 2 {
            put(o, format_args!("@odd ld.param.u64 {to},[args+{}];", place(part, 1)));
        }
    }

    /// Where a lane's factors lie: of four lanes each has the scales or the biases of one of both rows, or of scales alone those of every
    /// other span.
    fn factors_at(&self, o: &mut String) {
        self.told(o, "fp", 1);
        put(o, format_args!("and.b32 v,t,1;"));
        if self.format.affine() {
            self.told(o, "m", 2);
            put(o, format_args!("setp.ne.u32 p,v,0; selp.b64 fp,m,fp,p;"));
        } else if self.spans() == 2 {
            put(o, format_args!("mul.wide.u32 l,v,{}; add.u64 fp,fp,l;", 4 * self.words()));
        }
        put(
            o,
            format_args!(
                "setp.ge.u32 p,t,2; selp.b32 tmp,row0,tmp,p; mul.wide.u32 l,tmp,{row}; add.u64 fp,fp,l; mul.wide.u32 l,own,{batch}; add.u64 fp,fp,l;",
                row = self.k / batch(self.format) * self.of_batch(),
                batch = self.of_batch(),
            ),
        );
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
        let at = ahead * self.bytes();
        if self.odd() {
            self.ask_odd(o, set, at);
        } else {
            for (load, row, name) in (0..self.bytes() / 64).flat_map(|i| [(i, 0, "wa"), (i, 1, "wb")]) {
                let c = four("c", 8 * (self.bytes() / 64 * set + load) + 4 * row).join(",");
                put(o, format_args!("@p ld.volatile.global.v4.b32 {{{c}}},[{name}+{}];", at + 64 * load));
            }
        }
        let (words, at) = (self.words(), ahead * self.of_batch());
        let all = (0..words).map(|w| format!("fq{}", words * set + w)).collect::<Vec<_>>().join(",");
        let kind = match words {
            1 if self.lane_factors() == 2 => "u16",
            1 => "b32",
            2 => "v2.b32",
            _ => "v4.b32",
        };
        let all = if words > 1 { format!("{{{all}}}") } else { all };
        put(o, format_args!("@p ld.global.nc.{kind} {all},[fp+{at}];"));
    }

    /// Bytes of a row's scales, or biases, in a batch.
    fn of_batch(&self) -> u32 {
        let size = if self.format.affine() { 2 } else { 1 };
        batch(self.format) / self.format.group * size
    }

    /// Bytes of a lane's factors in a batch: a row's, or of scales alone those of a span.
    pub(super) fn lane_factors(&self) -> u32 {
        if self.format.affine() { self.of_batch() } else { self.of_batch() / self.spans() }
    }

    /// Words of them.
    pub(super) fn words(&self) -> u32 {
        self.lane_factors().div_ceil(4)
    }

    /// Begins a product of span `s` of the ring.
    fn step(&self, o: &mut String, s: u32, step: u32, left: [String; 4]) {
        let sums = (0..self.columns / 2).map(|i| format!("tot{i}")).collect::<Vec<_>>().join(",");
        put(
            o,
            format_args!(
                "add.u32 lo,base,{}; mov.b64 desc,{{lo,hi}};
wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} {{{sums}}},{{{}}},desc,1,1,1,0;",
                (s * self.stage() + step * self.stage() / STEPS) >> 4,
                left.join(","),
                columns = self.columns,
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
                self.decode(o, s, half, [word, step, row]);
            }
            put(o, format_args!("wgmma.fence.sync.aligned;"));
            for i in 0..STEPS / 2 {
                self.step(o, s, STEPS / 2 * half + i, four("f", 16 * half + 4 * i));
            }
            put(o, format_args!("wgmma.commit_group.sync.aligned;"));
            if s.is_multiple_of(self.spans()) && half == 0 {
                // What was asked for has come.
                self.ask(o, s / self.spans() + 1);
            }
        }
    }
}

/// Names of four registers.
pub(super) fn four(name: &str, first: u32) -> [String; 4] {
    [0, 1, 2, 3].map(|e| format!("{name}{}", first + e))
}
