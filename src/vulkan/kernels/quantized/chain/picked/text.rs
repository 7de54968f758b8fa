//! Which matrices a row picks, in the text of a chain: one warp of each workgroup chooses, or reads, and the others wait.

use std::mem::offset_of;

use super::super::PickArgs;
use super::super::text::Chain;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::progress;
use crate::vulkan::kernels::quantized::stream::widen;
use crate::vulkan::kernels::sort::choice::Choice;
use crate::vulkan::tune::quantized::chain::BATCHES;

/// Of a stage's flags: rows of picked matrices follow each other, or columns.
pub(in crate::vulkan::kernels::quantized::chain) const ROWS: u32 = 8;
pub(in crate::vulkan::kernels::quantized::chain) const COLUMNS: u32 = 16;
/// The row is the one of the stage before, as it lies there.
pub(in crate::vulkan::kernels::quantized::chain) const SAME: u32 = 32;
pub(super) const ANY: u32 = ROWS | COLUMNS;
/// Arrays that are read after the products are tables, a row for each matrix.
pub(super) const TABLES: [u32; 2] = [64, 128];

/// Where it is said which matrices are picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Picked {
    /// It is chosen first.
    Chosen(Choice),
    /// It is chosen of what one of the products makes.
    Within(Choice),
    /// It stands in memory: so many indices, and numbers beside them, which may be float32 (`wide`).
    Stored { count: u32, wide: bool },
}

impl Picked {
    pub fn count(&self) -> u32 {
        match self {
            Picked::Chosen(choice) | Picked::Within(choice) => choice.how.count,
            Picked::Stored { count, .. } => *count,
        }
    }
}

impl Chain {
    /// How many matrices are picked.
    pub(super) fn count_picks(self) -> u32 {
        self.picks.map_or(1, |p| p.count())
    }

    /// Shared memory and registers.
    pub(in crate::vulkan::kernels::quantized::chain) fn picking(self, o: &mut String) {
        if self.picks.is_none() {
            return;
        }
        put(
            o,
            format_args!(
                ".shared .align 4 .b8 ids[{bytes}];
.shared .align 4 .b8 weights[{bytes}];
.reg .pred columns,mid;
.reg .b32 place,number,cfull,part,lim,upto,turns;
.reg .f32 weight;
.reg .b64 from,na,cm,nj<{BATCHES}>;",
                bytes = 4 * self.count_picks(),
            ),
        );
    }

    /// Waits for what others make, and has the first warp find what is picked. `at` is where it is told of that.
    pub(in crate::vulkan::kernels::quantized::chain) fn find_picks(
        self,
        o: &mut String,
        picked: Picked,
        at: usize,
    ) {
        progress::workgroup_waits(o, at + size_of::<PickArgs>());
        self.first_warp_picks(o, picked, at);
    }

    /// The first warp finds what is picked, for which the others wait: of elements, or of words where it is chosen amid the products.
    fn first_warp_picks(self, o: &mut String, picked: Picked, at: usize) {
        put(o, format_args!("setp.ne.u32 p,warp,0;\n@p bra CHOSEN;"));
        let keys = format!("ld.param.u64 from,[args+{}];", at + offset_of!(PickArgs, keys));
        match picked {
            Picked::Chosen(choice) => {
                put(o, format_args!("{keys}"));
                choice.choose(o);
                self.keep_picks(o, choice, at);
            }
            Picked::Within(choice) => {
                let tag = at + offset_of!(PickArgs, key_tag);
                put(o, format_args!("{keys} ld.param.u32 tag,[args+{tag}];"));
                choice.choose_from(o, Some("tag"));
                self.keep_picks(o, choice, at);
            }
            Picked::Stored { wide, .. } => self.read_picks(o, at, wide),
        }
        put(o, format_args!("CHOSEN:\nbar.sync 0;"));
    }

    /// What was chosen is kept for the workgroup; the first one stores it.
    fn keep_picks(self, o: &mut String, choice: Choice, at: usize) {
        put(
            o,
            format_args!(
                "setp.lt.u32 q,lane,{}; mov.u32 t0,ids; mad.lo.u32 t0,lane,4,t0;\n@q st.shared.b32 [t0],place;",
                self.count_picks()
            ),
        );
        choice.follow(o);
        put(o, format_args!("cvt.u16.u32 h0,number;"));
        widen(self.dtype, o, "weight", "h0");
        self.put_weight(o);
        put(o, format_args!("setp.ne.u32 p,cta,0;\n@p bra CHOSEN;\nmov.u32 t0,0;"));
        choice.store(o, "t0", [at + offset_of!(PickArgs, places), at + offset_of!(PickArgs, chosen)]);
    }

    /// Begins with the products before the choice: units behind it are not known yet.
    pub(in crate::vulkan::kernels::quantized::chain) fn start(self, o: &mut String, at: usize) {
        put(
            o,
            format_args!(
                "ld.param.u32 upto,[args+{}]; add.u32 turns,upto,1; max.u32 turns,turns,stages; setp.ne.u32 mid,zero,0;\nbra START;\nBEGUN:",
                at + offset_of!(PickArgs, stage)
            ),
        );
    }

    /// Chooses where the row of the choice was made by the stage before, and asks for the first units behind that.
    pub(in crate::vulkan::kernels::quantized::chain) fn choose_within(
        self,
        o: &mut String,
        picked: Picked,
        at: usize,
    ) {
        put(
            o,
            format_args!(
                "ld.param.u32 t0,[args+{}]; setp.ne.u32 p,t0,stage;\n@p bra UNCHOSEN;",
                at + offset_of!(PickArgs, stage)
            ),
        );
        self.first_warp_picks(o, picked, at);
        put(
            o,
            format_args!(
                "setp.ge.u32 p,stage,stages;
@p bra ENDED;
mov.u32 upto,stages; setp.eq.u32 mid,zero,0;
bra START;
RESTARTED:
UNCHOSEN:"
            ),
        );
    }

    /// They are read, and held inside as `picked` of shaders/quantized/qmm.glsl does; numbers beside them where there are some.
    fn read_picks(self, o: &mut String, at: usize, wide: bool) {
        put(
            o,
            format_args!(
                "setp.lt.u32 q,lane,{count}; mov.u32 t0,ids; mad.lo.u32 t0,lane,4,t0; ld.param.u64 from,[args+{places}]; mad.wide.u32 from,lane,4,from;
@q ld.global.cg.b32 place,[from];
ld.param.u64 from,[args+{chosen}]; setp.ne.u64 p,from,0; and.pred p,p,q; mad.wide.u32 from,lane,{bytes},from; mov.b16 h0,0; mov.f32 weight,zf;
@p ld.global.cg.{kind},[from];
ld.param.u32 number,[args+{matrices}]; ld.param.u32 t1,[args+{signed}];
shr.u32 t2,place,31; and.b32 t2,t2,t1; setp.ne.u32 p,t2,0;
@p add.u32 place,place,number;
shr.u32 t2,place,31; and.b32 t2,t2,t1; setp.ne.u32 p,t2,0;
@p mov.u32 place,0;
sub.u32 number,number,1; min.u32 place,place,number;
@q st.shared.b32 [t0],place;",
                bytes = if wide { 4 } else { 2 },
                kind = if wide { "f32 weight" } else { "b16 h0" },
                count = self.count_picks(),
                places = at + offset_of!(PickArgs, places),
                chosen = at + offset_of!(PickArgs, chosen),
                matrices = at + offset_of!(PickArgs, matrices),
                signed = at + offset_of!(PickArgs, signed),
            ),
        );
        if !wide {
            widen(self.dtype, o, "weight", "h0");
        }
        self.put_weight(o);
    }

    /// `weight` weighs what the lane picks.
    fn put_weight(self, o: &mut String) {
        put(o, format_args!("mov.u32 t0,weights; mad.lo.u32 t0,lane,4,t0;\n@q st.shared.f32 [t0],weight;"));
    }
}
