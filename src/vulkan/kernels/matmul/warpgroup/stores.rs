//! How a kernel on warpgroups writes the sums of its tile: elements of 16 bits, eight at once, by rows or turned, or the sums themselves.

use super::program::{Left, Program, Right, Store};
use super::text::{kind, put, turn};

impl Program {
    /// Where the tile's first result goes, and its first column.
    pub(super) fn place(self) -> String {
        if self.right == Right::Runs {
            // The last piece is let go of here: another tile may follow.
            return format!(
                "setp.eq.u32 q,slot,0; shl.b32 tmp,slot,3; selp.u32 tmp2,{},0,q;
@!q sub.u32 tmp2,tmp,8;
add.u32 tmp2,tmp2,emptyb;
@lane0 mbarrier.arrive.shared::cta.b64 _,[tmp2];
mul.wide.u32 x,start,ldd; shl.b64 x,x,{}; add.u64 out,d,x; mov.u32 col,0;",
                8 * (self.stages() - 1),
                self.shift()
            );
        }
        // Sums of parts stand behind each other; elements are written once.
        let part = match self.store {
            Store::SumRows | Store::SumColumns => {
                "mov.u32 tmp2,%nctaid.y; mul.lo.u32 tmp,tmp,tmp2; mov.u32 tmp2,%ctaid.y; add.u32 tmp,tmp,tmp2;"
            }
            Store::Rows | Store::Columns => "",
        };
        format!(
            "ld.param.u32 s0,[args+124]; mov.u32 tmp,%ctaid.z; {part}
mul.wide.u32 x,tmp,s0; shl.b64 x,x,{}; add.u64 out,d,x;
mul.lo.u32 col,tn,{};",
            self.shift(),
            self.columns
        )
    }

    /// Shift from elements of the result to bytes.
    pub(super) fn shift(self) -> u32 {
        if matches!(self.store, Store::Rows | Store::Columns) { 1 } else { 2 }
    }

    /// Two sums as a pair of elements, the first one low.
    pub(super) fn pair(self, o: &mut String, to: u32, sum: u32) {
        let kind = kind(self.dtype);
        put(o, format_args!("cvt.rn.{kind}x2.f32 v{to},c{},c{sum};", sum + 1));
    }

    /// The bits of t, for `turn`.
    pub(super) fn odd_lanes(o: &mut String) {
        put(o, format_args!("and.b32 tmp,t,1; setp.ne.u32 p,tmp,0; and.b32 tmp2,t,2; setp.ne.u32 r,tmp2,0;"));
    }

    pub(super) fn store_rows(self, o: &mut String) {
        put(o, format_args!("mad.lo.u32 col,t,8,col; cvt.u64.u32 y,col;"));
        for row in 0..2 {
            match self.left {
                Left::Input(axes) => Self::result_row(o, axes, row),
                _ => put(o, format_args!("mul.wide.u32 x,row{row},ldd;")),
            }
            put(o, format_args!("add.u64 x,x,y; shl.b64 x,x,1; add.u64 d{row},out,x;"));
        }
        Self::odd_lanes(o);
        for (block, row) in (0..self.columns / 32).flat_map(|b| [(b, 0), (b, 1)]) {
            (0..4).for_each(|i| self.pair(o, i, 4 * (4 * block + i) + 2 * row));
            turn(o, ["p", "r"]);
            put(
                o,
                format_args!(
                    "add.u32 tmp,col,{}; setp.lt.u32 q,tmp,columns; and.pred q,q,row{row}ok;
@q st.global.v4.b32 [d{row}+{}],{{v0,v1,v2,v3}};",
                    32 * block,
                    64 * block
                ),
            );
        }
    }

    pub(super) fn store_columns(self, o: &mut String) {
        Self::odd_lanes(o);
        // Lane t has eight rows of column g of the first (t below 2) or the second block, the lower or the upper eight.
        put(
            o,
            format_args!(
                "sub.u32 row0,row0,g; mad.lo.u32 row0,tmp,8,row0; setp.lt.u32 row0ok,row0,rows;
mad.lo.u32 col,tmp2,4,col; add.u32 col,col,g;
mul.wide.u32 x,col,ldd; cvt.u64.u32 y,row0; add.u64 x,x,y; shl.b64 x,x,1; add.u64 d0,out,x;
mul.wide.u32 y,ldd,32;"
            ),
        );
        for block in 0..self.columns / 16 {
            for i in 0..4 {
                self.pair(o, i, 8 * block + 2 * i);
                put(o, format_args!("movmatrix.sync.aligned.m8n8.trans.b16 v{i},v{i};"));
            }
            turn(o, ["p", "r"]);
            put(
                o,
                format_args!(
                    "add.u32 tmp,col,{}; setp.lt.u32 q,tmp,columns; and.pred q,q,row0ok;
@q st.global.v4.b32 [d0],{{v0,v1,v2,v3}};
add.u64 d0,d0,y;",
                    16 * block
                ),
            );
        }
    }

    pub(super) fn store_sums(self, o: &mut String) {
        let along = self.store == Store::SumRows;
        put(
            o,
            format_args!(
                "mad.lo.u32 col,t,2,col;
mul.wide.u32 x,{main},ldd; cvt.u64.u32 y,{other}; add.u64 x,x,y; shl.b64 x,x,2; add.u64 d0,out,x;",
                main = if along { "row0" } else { "col" },
                other = if along { "col" } else { "row0" },
            ),
        );
        // To the next column, and eight rows on; or the other way round.
        put(
            o,
            format_args!(
                "{} add.u64 d1,d0,x;",
                if along { "mul.wide.u32 x,ldd,32;" } else { "mul.wide.u32 x,ldd,4; mul.wide.u32 y,ldd,32;" }
            ),
        );
        for block in 0..self.columns / 8 {
            let c = 4 * block;
            for e in 0..2 {
                put(
                    o,
                    format_args!(
                        "add.u32 tmp,col,{}; setp.lt.u32 q,tmp,columns; and.pred p,q,row0ok; and.pred q,q,row1ok;",
                        8 * block + e
                    ),
                );
                let at = 32 * block + 4 * e;
                match along {
                    true => put(
                        o,
                        format_args!(
                            "@p st.global.f32 [d0+{at}],c{};\n@q st.global.f32 [d1+{at}],c{};",
                            c + e,
                            c + 2 + e
                        ),
                    ),
                    false => put(
                        o,
                        format_args!(
                            "@p st.global.f32 [d{e}],c{};\n@q st.global.f32 [d{e}+32],c{};",
                            c + e,
                            c + 2 + e
                        ),
                    ),
                }
            }
            if !along {
                put(o, format_args!("add.u64 d0,d0,y; add.u64 d1,d1,y;"));
            }
        }
    }
}
