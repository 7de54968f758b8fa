//! The text of the products of rows that pick their matrices (PTX): what `few_rows` has for the rows of one matrix, behind the lists of which
//! matrices are picked, that each workgroup makes for itself.

use std::mem::offset_of;

use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::progress;
use crate::vulkan::kernels::quantized::few_rows::program::Program as Rows;
use crate::vulkan::kernels::quantized::push::Push;
use crate::vulkan::kernels::quantized::units::place;
use crate::vulkan::kernels::sort::choice::Choice;
use crate::vulkan::tune::quantized::few_picked::{
    BEGINNING, EIGHT, MATRICES, PICKS, SEEN, TAKEN, items, own,
};

/// What the kernel does; all matrices of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Program {
    pub rows: Rows,
    /// Sides of units that shared memory has room for.
    pub slots: u32,
    /// Matrices to choose from.
    pub matrices: u32,
    /// Picks that follow each other and have one row of x.
    pub share: u32,
    /// What makes the picks of each row, which else stand in memory.
    pub choice: Option<Choice>,
}

impl Program {
    fn threads(&self) -> u32 {
        32 * self.rows.form.warps
    }

    /// Units that copies are ahead; none where only the next side of the same unit is.
    fn ahead(&self) -> u32 {
        self.slots / self.rows.sides()
    }

    /// Has the first sides of units copied.
    fn first(&self, o: &mut String) {
        for side in 0..self.slots {
            self.rows.seek(o, "next", side % self.rows.sides());
            (0..self.rows.form.pieces).for_each(|p| self.rows.copy(o, p));
            self.next_slot(o, &["cs", "fs"]);
            if (side + 1) % self.rows.sides() == 0 {
                self.next(o);
            }
        }
    }

    /// Goes to what is copied in place of a side of the unit at hand.
    fn following(&self, o: &mut String, side: u32) {
        if self.ahead() > 0 {
            return self.rows.seek(o, "next", side);
        }
        let next = (side + self.slots) % self.rows.sides();
        if next < side {
            self.next(o);
        }
        self.rows.seek(o, "next", next);
    }

    /// The whole text.
    pub fn text(&self) -> String {
        let rows = &self.rows;
        let mut o = String::with_capacity(64 << 10);
        rows.head(&mut o, self.slots);
        self.more(&mut o);
        rows.places(&mut o);
        self.count(&mut o);
        self.list(&mut o);
        self.share(&mut o);
        put(&mut o, format_args!("ITEM:"));
        self.find(&mut o, "FIND");
        self.own_picks(&mut o);
        self.load(&mut o);
        put(&mut o, format_args!("setp.ne.u32 q,begun,0;\n@q bra DEAL;\nmov.u32 begun,1;"));
        self.first(&mut o);
        // Counts lie where sums are going to.
        put(&mut o, format_args!("bar.sync 0;\nDEAL:"));
        rows.deal(&mut o);
        put(&mut o, format_args!("UNIT:"));
        for side in 0..rows.sides() {
            self.following(&mut o, side);
            rows.pieces(&mut o, self.slots * rows.form.pieces - 1);
            self.next_slot(&mut o, &["cs", "fs", "rs", "rb", "rx0", "rx1", "rx2", "rx3"]);
            rows.sum_up(&mut o, side);
        }
        if rows.form.splits == 1 {
            rows.results(&mut o, "");
        }
        if self.ahead() > 0 {
            self.next(&mut o);
        }
        put(
            &mut o,
            format_args!(
                "sub.u32 left,left,1; setp.eq.u32 p,left,0;
@p bra {};
add.u32 unit,unit,1; setp.lt.u32 p,unit,{};
@p bra UNIT;
mov.u32 unit,0; add.u32 item,item,1;
bra ITEM;",
                if rows.form.splits > 1 { "LEFT" } else { "DONE" },
                rows.units()
            ),
        );
        if rows.form.splits > 1 {
            self.join(&mut o);
        }
        put(&mut o, format_args!("DONE:"));
        progress::ends(&mut o, size_of::<Push>());
        o += "ret;\n}\n";
        o
    }

    /// What there is besides the registers and the shared memory of rows.
    fn more(&self, o: &mut String) {
        put(
            o,
            format_args!(
                ".shared .align 4 .b8 items[{}];
.shared .align 16 .b8 ids[{}];
.shared .align 4 .b8 columns[{}];
.shared .align 4 .b8 begins[12];
.reg .b32 picks,choice,signed,own,ahead,expert,item,fitem,begun,left,fleft,all,slot,step,mask,below,cb,idb,col,ir,nr,it,some,pick<{rounds}>,row<{rounds}>,n<{own}>,got<{counted}>,id<4>;
.reg .b64 ip;
.reg .b16 short;
mov.u32 picks,rows; ld.param.u64 ip,[args+{}]; ld.param.u32 choice,[args+{matrices}]; ld.param.u32 signed,[args+{}]; and.b32 signed,signed,1;
mov.u32 slot,0; mov.u32 begun,0; mov.u32 it,items; mov.u32 cb,columns; mov.u32 idb,ids; mov.u32 below,1; shl.b32 below,below,lane; sub.u32 below,below,1;",
                2 * items(self.matrices),
                2 * PICKS,
                4 * EIGHT,
                place(0, 2),
                place(1, 2) + 4,
                rounds = self.rows.rounds(),
                own = own(self.matrices),
                counted = self.counted(),
                matrices = place(1, 2),
            ),
        );
    }

    /// Picks that a thread counts, at most.
    fn counted(&self) -> u32 {
        PICKS.div_ceil(self.threads())
    }

    /// Counts the picks of each matrix, in what is going to be room for sums, and keeps the matrix of each pick; none behind them.
    /// All picks are read before the first is looked at, past the first-level cache, as who makes them may just have ended.
    fn count(&self, o: &mut String) {
        let threads = self.threads();
        for first in (0..32 * own(self.matrices)).step_by(threads as usize) {
            put(
                o,
                format_args!(
                    "add.u32 tmp,tid,{first}; setp.lt.u32 p,tmp,{}; mad.lo.u32 tmp,tmp,4,sr;
@p st.shared.b32 [tmp],0;",
                    32 * own(self.matrices)
                ),
            );
        }
        for first in (0..PICKS / TAKEN).step_by(threads as usize) {
            put(
                o,
                format_args!(
                    "add.u32 tmp,tid,{first}; setp.lt.u32 p,tmp,{}; mad.lo.u32 tmp,tmp,{},idb; mov.b32 own,{none:#x};
@p st.shared.v4.b32 [tmp],{{own,own,own,own}};",
                    PICKS / TAKEN,
                    2 * TAKEN,
                    none = MATRICES << 16 | MATRICES
                ),
            );
        }
        progress::workgroup_waits(o, size_of::<Push>());
        if let Some(choice) = self.choice {
            return self.choose(o, choice);
        }
        for n in 0..self.counted() {
            put(
                o,
                format_args!(
                    "add.u32 ir,tid,{}; setp.lt.u32 q,ir,picks; mul.wide.u32 l,ir,4; add.u64 l,ip,l; mov.u32 got{n},0;
@q ld.global.cg.b32 got{n},[l];",
                    threads * n
                ),
            );
        }
        put(o, format_args!("bar.sync 0;"));
        for n in 0..self.counted() {
            if n > 0 {
                put(o, format_args!("setp.le.u32 p,picks,{};\n@p bra TALLIED;", threads * n));
            }
            Self::count_one(o, &format!("got{n}"), threads * n);
        }
        put(o, format_args!("TALLIED:\nbar.sync 0;"));
    }

    /// Makes the picks and counts them, a row for each warp at a time; the first workgroup stores them, and the numbers that belong to them.
    fn choose(&self, o: &mut String, choice: Choice) {
        let count = choice.how.count;
        put(
            o,
            format_args!(
                ".reg .pred keeps;
.reg .b32 row,place,number;
.reg .b64 keys,from;
ld.param.u64 keys,[args+{}]; mov.u32 row,warp; mov.u32 tmp,%ctaid.x; setp.eq.u32 keeps,tmp,0;
CHOOSE:
mul.lo.u32 ir,row,{count}; setp.ge.u32 p,ir,picks;
@p bra CHOSEN;
mad.wide.u32 from,row,{},keys;",
                offset_of!(Push, norm),
                2 * choice.n
            ),
        );
        choice.choose(o);
        put(o, format_args!("setp.lt.u32 q,lane,{count}; add.u32 ir,ir,lane;"));
        Self::keep(o, "place");
        put(o, format_args!("@!keeps bra KEPT;"));
        choice.follow(o);
        choice.store(o, "row", [place(0, 2) as usize, offset_of!(Push, sums)]);
        put(
            o,
            format_args!(
                "KEPT:\nadd.u32 row,row,{};\nbra CHOOSE;\nCHOSEN:\nbar.sync 0;",
                self.rows.form.warps
            ),
        );
    }

    /// Counts the pick of this thread from `first` on, held inside as `picked` of shaders/quantized/qmm.glsl does.
    fn count_one(o: &mut String, got: &str, first: u32) {
        put(
            o,
            format_args!(
                "shr.u32 tmp,{got},31; and.b32 tmp,tmp,signed; setp.ne.u32 p,tmp,0;
@p add.u32 {got},{got},choice;
shr.u32 tmp2,{got},31; and.b32 tmp,tmp,tmp2; setp.ne.u32 p,tmp,0;
@p mov.u32 {got},0;
sub.u32 tmp,choice,1; min.u32 {got},{got},tmp; add.u32 ir,tid,{first}; setp.lt.u32 q,ir,picks;"
            ),
        );
        Self::keep(o, got);
    }

    /// Counts the matrix `got` that pick `ir` is of, and keeps it, where `q` says that there is one.
    fn keep(o: &mut String, got: &str) {
        put(
            o,
            format_args!(
                "mad.lo.u32 tmp,{got},4,sr;
@q atom.shared.add.u32 tmp2,[tmp],1;
cvt.u16.u32 short,{got}; mad.lo.u32 tmp,ir,2,idb;
@q st.shared.b16 [tmp],short;"
            ),
        );
    }

    /// Lists the items, a matrix and which eight of its picks, as each warp does, and counts them.
    fn list(&self, o: &mut String) {
        let own = own(self.matrices);
        put(o, format_args!("mad.lo.u32 tmp,lane,{},sr; mov.u32 some,0;", 4 * own));
        for e in (0..own).step_by(4) {
            put(
                o,
                format_args!("ld.shared.v4.b32 {{n{e},n{},n{},n{}}},[tmp+{}];", e + 1, e + 2, e + 3, 4 * e),
            );
        }
        for e in 0..own {
            put(
                o,
                format_args!(
                    "add.u32 n{e},n{e},{}; shr.u32 n{e},n{e},{}; add.u32 some,some,n{e};",
                    EIGHT - 1,
                    EIGHT.ilog2()
                ),
            );
        }
        put(o, format_args!("mov.u32 all,some;"));
        for step in [1, 2, 4, 8, 16] {
            put(
                o,
                format_args!(
                    "shfl.sync.up.b32 tmp,all,{step},0,-1; setp.ge.u32 p,lane,{step};\n@p add.u32 all,all,tmp;"
                ),
            );
        }
        put(
            o,
            format_args!(
                "sub.u32 tmp,all,some; shfl.sync.idx.b32 all,all,31,31,-1; mad.lo.u32 tmp,tmp,2,it; mul.lo.u32 own,lane,{own};"
            ),
        );
        for e in 0..own {
            put(
                o,
                format_args!(
                    "setp.eq.u32 q,n{e},0; add.u32 nr,own,{e};
@q bra LISTED{e};
LIST{e}:
cvt.u16.u32 short,nr; st.shared.b16 [tmp],short; add.u32 tmp,tmp,2; add.u32 nr,nr,{MATRICES}; sub.u32 n{e},n{e},1; setp.ne.u32 q,n{e},0;
@q bra LIST{e};
LISTED{e}:"
                ),
            );
        }
        put(o, format_args!("bar.warp.sync -1;"));
    }

    /// Takes this workgroup's share of the units of all items. What begins an item counts like [`BEGINNING`] units, so that those
    /// who have the beginning of one among theirs have less of them.
    fn share(&self, o: &mut String) {
        let units = self.rows.units();
        let whole = units + BEGINNING;
        put(
            o,
            format_args!(
                "mul.lo.u32 all,all,{whole}; div.u32 left,all,lists; mul.lo.u32 nr,left,lists; sub.u32 nr,all,nr; mov.u32 tmp,list;
mul.lo.u32 unit,tmp,left; min.u32 tmp2,tmp,nr; add.u32 unit,unit,tmp2; setp.lt.u32 p,tmp,nr;
@p add.u32 left,left,1;
add.u32 all,unit,left;
div.u32 fitem,unit,{whole}; mul.lo.u32 tmp,fitem,{whole}; sub.u32 unit,unit,tmp; max.u32 unit,unit,{BEGINNING}; sub.u32 unit,unit,{BEGINNING};
div.u32 tmp2,all,{whole}; mul.lo.u32 tmp,tmp2,{whole}; sub.u32 all,all,tmp; max.u32 all,all,{BEGINNING}; sub.u32 all,all,{BEGINNING};
sub.u32 tmp,tmp2,fitem; mad.lo.u32 left,tmp,{units},all; sub.u32 left,left,unit;
setp.eq.u32 p,left,0;
@p bra DONE;
mov.u32 item,fitem; mov.u32 next,unit; mov.u32 fleft,left; setp.ne.u32 have,left,0;
mad.lo.u32 tmp,fitem,2,it; ld.shared.b16 short,[tmp]; cvt.u32.u16 ahead,short; and.b32 ahead,ahead,{};",
                MATRICES - 1
            ),
        );
        if self.rows.form.splits > 1 {
            self.keep_beginning(o);
        }
    }

    /// Goes on to the next unit to be copied; `have` is whether there is one.
    fn next(&self, o: &mut String) {
        put(
            o,
            format_args!(
                "sub.u32 fleft,fleft,1; setp.gt.and.s32 have,fleft,0,have; add.u32 next,next,1; setp.ge.and.u32 q,next,{},have;
@q mov.u32 next,0;
@q add.u32 fitem,fitem,1;
mad.lo.u32 tmp,fitem,2,it;
@q ld.shared.b16 short,[tmp];
@q cvt.u32.u16 nr,short;
@q and.b32 ahead,nr,{};",
                self.rows.units(),
                MATRICES - 1,
            ),
        );
    }

    /// Goes on to the next slot, which these registers point to.
    fn next_slot(&self, o: &mut String, names: &[&str]) {
        let bytes = self.rows.form.warps * self.rows.form.pieces * self.rows.piece_of().bytes();
        let last = self.slots - 1;
        put(
            o,
            format_args!(
                "setp.eq.u32 q,slot,{last}; selp.b32 step,{},{bytes},q; add.u32 slot,slot,1; selp.b32 slot,0,slot,q;",
                (last * bytes).wrapping_neg() as i32
            ),
        );
        for name in names {
            put(o, format_args!("add.u32 {name},{name},step;"));
        }
    }

    /// Finds the picks of the item at hand, in an order of their own, in `columns`: `rows` of them. The label is this place's alone.
    pub(super) fn find(&self, o: &mut String, label: &str) {
        put(
            o,
            format_args!(
                "mad.lo.u32 tmp,item,2,it; ld.shared.b16 short,[tmp]; cvt.u32.u16 nr,short; and.b32 expert,nr,{}; shr.u32 nr,nr,{}; mul.lo.u32 nr,nr,{EIGHT};
mov.u32 col,0; mul.lo.u32 ir,lane,{TAKEN};
{label}:
mad.lo.u32 tmp,ir,2,idb; ld.shared.v4.b32 {{id0,id1,id2,id3}},[tmp];",
                MATRICES - 1,
                MATRICES.ilog2(),
            ),
        );
        for e in 0..TAKEN {
            let half = if e % 2 == 0 { "and.b32 own,id{},0xffff" } else { "shr.u32 own,id{},16" };
            put(
                o,
                format_args!(
                    "{}; setp.eq.u32 q,own,expert; vote.sync.ballot.b32 mask,q,-1; and.b32 tmp,mask,below; popc.b32 tmp,tmp; add.u32 tmp,tmp,col; sub.u32 tmp,tmp,nr;
setp.lt.and.u32 q,tmp,{EIGHT},q; mad.lo.u32 tmp,tmp,4,cb; add.u32 own,ir,{e};
@q st.shared.b32 [tmp],own;
popc.b32 tmp,mask; add.u32 col,col,tmp;",
                    half.replace("{}", &(e / 2).to_string())
                ),
            );
        }
        put(
            o,
            format_args!(
                "add.u32 ir,ir,{SEEN}; mul.lo.u32 tmp,lane,{TAKEN}; sub.u32 tmp,ir,tmp; setp.lt.u32 q,tmp,picks;
@q bra {label};
sub.u32 rows,col,nr; min.u32 rows,rows,{EIGHT};
bar.warp.sync -1;"
            ),
        );
    }

    /// Takes the places of a thread's results of the item at hand.
    pub(super) fn own_picks(&self, o: &mut String) {
        self.rows.own_results(o);
        for r in 0..self.rows.rounds() {
            put(
                o,
                format_args!(
                    "mad.lo.u32 tmp,v{r},4,cb; mov.u32 pick{r},0;
@mine{r} ld.shared.b32 pick{r},[tmp];
div.u32 row{r},pick{r},{};",
                    self.share
                ),
            );
        }
    }

    /// Loads the rows of the item at hand.
    fn load(&self, o: &mut String) {
        put(
            o,
            format_args!(
                "setp.lt.u32 there0,g,rows; mad.lo.u32 tmp,g,4,cb; mov.u32 tmp2,0;
@there0 ld.shared.b32 tmp2,[tmp];
div.u32 tmp,tmp2,{};",
                self.share
            ),
        );
        self.rows.load_eight(o, 0);
    }
}
