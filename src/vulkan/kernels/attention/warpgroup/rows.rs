//! What the texts of attention and its gradient on warpgroups share. Rows of a thread: two of them, eight apart, of which it has eight
//! neighbouring features of every 32. Images whose rows these meet, some at a time.

use std::f32::consts::LOG2_E;

use crate::core::Dtype;
use crate::kernels::DeviceView;
use crate::vulkan::kernels::matmul::warpgroup::text::{self, put};

/// Bytes of shared memory for pieces of images.
const SHARED: u32 = 45 << 10;

/// Sizes that all programs are told.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Sizes {
    /// Queries, keys, features of both, heads, those that share keys, heads of keys.
    pub l: u32,
    pub n: u32,
    pub d: u32,
    pub dv: u32,
    pub heads: u32,
    pub group: u32,
    pub kv: u32,
    /// What scores are multiplied by, for powers of two.
    pub units: f32,
}

impl Sizes {
    pub fn of([q, k, v]: [&DeviceView; 3], scale: f32) -> Sizes {
        // FITS: lengths and heads are int32.
        let [heads, l, d] = [1, 2, 3].map(|i| q.shape[i] as u32);
        let (kv, n, dv) = (k.shape[1] as u32, k.shape[2] as u32, v.shape[3] as u32);
        Sizes { l, n, d, dv, heads, group: heads / kv, kv, units: scale * LOG2_E }
    }

    /// Reads all but `units`, which lie at a place of the arguments.
    pub fn read(at: usize) -> String {
        let [l, n, d, dv, heads, group, kv] = [0, 1, 2, 3, 4, 5, 6].map(|i| at + 4 * i);
        format!(
            "ld.param.u32 l,[args+{l}]; ld.param.u32 n,[args+{n}]; ld.param.u32 d,[args+{d}]; ld.param.u32 dv,[args+{dv}];
ld.param.u32 heads,[args+{heads}]; ld.param.u32 group,[args+{group}]; ld.param.u32 kv,[args+{kv}];"
        )
    }
}

/// How many keys the rows of a warpgroup see, before `row0` is a thread's, and how many its two rows do.
pub fn bounds(causal: bool) -> [&'static str; 2] {
    if causal {
        return [
            "add.u32 whole,row0,1; add.u32 whole,whole,extra; min.u32 whole,whole,n;",
            "add.u32 lim0,row0,1; add.u32 lim0,lim0,extra; min.u32 lim0,lim0,n;
add.u32 lim1,row1,1; add.u32 lim1,lim1,extra; min.u32 lim1,lim1,n;",
        ];
    }
    ["mov.u32 whole,n;", "mov.u32 lim0,n; mov.u32 lim1,n;"]
}

/// How rows are read and written.
#[derive(Clone, Copy)]
pub struct Rows {
    /// Type of the elements.
    pub kind: &'static str,
    /// Features that there is room for: 64 or 128.
    pub features: u32,
    /// Rows of an image that they meet at a time, a multiple of 16.
    pub meet: u32,
}

/// The addresses `rows`0 and `rows`1 of the rows `lo` and `tmp` of head h of batch b at feature z; `base` and `steps` are places of
/// arguments.
pub fn strided(o: &mut String, rows: &str, base: u32, steps: u32) {
    put(
        o,
        format_args!(
            "cvt.u64.u32 x,b; ld.param.u64 y,[args+{steps}]; mul.lo.u64 desc,x,y;
cvt.u64.u32 x,h; ld.param.u64 y,[args+{}]; mad.lo.u64 desc,x,y,desc; add.u64 desc,desc,z;
ld.param.u64 y,[args+{}]; cvt.u64.u32 x,lo; mad.lo.u64 {rows}0,x,y,desc; cvt.u64.u32 x,tmp; mad.lo.u64 {rows}1,x,y,desc;
ld.param.u64 x,[args+{base}]; shl.b64 {rows}0,{rows}0,1; add.u64 {rows}0,{rows}0,x; shl.b64 {rows}1,{rows}1,1; add.u64 {rows}1,{rows}1,x;",
            steps + 8,
            steps + 16
        ),
    );
}

/// The extent in `n` becomes what is added to scores (shaders/attention/grad.glsl).
pub fn taken_off(o: &mut String, n: &str) {
    put(
        o,
        format_args!(
            "lg2.approx.f32 x0,{n}; sub.f32 x0,x0,0f42C00000; setp.ge.f32 p,{n},0f6F000000; selp.f32 {n},x0,{n},p; neg.f32 {n},{n};"
        ),
    );
}

impl Rows {
    pub fn new(dtype: Dtype, features: u32, meet: u32) -> Rows {
        Rows { kind: text::kind(dtype), features, meet }
    }

    /// Pieces of the rows that are met at a time: 64 features each.
    pub fn pieces(self) -> u32 {
        self.features / 64
    }

    /// Bytes of one.
    pub fn piece(self) -> u32 {
        self.meet * 128
    }

    /// How many lie in shared memory.
    pub fn stages(self) -> u32 {
        SHARED / self.piece()
    }

    /// One thread fetches the pieces of a turn from an image; `tag` is this place's alone.
    pub fn fetch(self, o: &mut String, from: &str, tag: &str) {
        for i in 0..self.pieces() {
            text::fetch(o, &format!("{tag}{i}"), from, self.piece(), self.stages());
        }
    }

    /// Waits for a piece that comes next; with `kept` it is remembered in kk where it lies.
    fn await_piece(self, o: &mut String, base: &str, tag: &str, piece: u32, kept: bool) {
        if kept {
            put(o, format_args!("mul.lo.u32 kk{piece},slot,{};", self.piece() >> 4));
        }
        text::await_piece(o, base, &format!("{tag}{piece}"), self.piece(), self.stages());
    }

    /// Waits for the next pieces and remembers in kk where they lie.
    pub fn keep(self, o: &mut String, tag: &str) {
        (0..self.pieces()).for_each(|piece| self.await_piece(o, "lok", tag, piece, true));
    }

    /// Begins products of rows in `held` with the next pieces; with `kept` it is remembered in kk where these lie.
    pub fn products(self, o: &mut String, held: &str, to: &str, tag: &str, kept: bool) {
        let kind = self.kind;
        let sums = (0..self.meet / 2).map(|i| format!("{to}{i}")).collect::<Vec<_>>().join(",");
        for piece in 0..self.pieces() {
            self.await_piece(o, "lok", tag, piece, kept);
            if piece == 0 {
                put(o, format_args!("wgmma.fence.sync.aligned;"));
            }
            for step in 0..4 {
                let f = (4 * piece + step) / 2 * 8 + (step % 2) * 2;
                put(
                    o,
                    format_args!(
                        "mov.b64 desc,{{lo,hik}};
wgmma.mma_async.sync.aligned.m64n{}k16.f32.{kind}.{kind} {{{sums}}},{{{held}{f},{held}{},{held}{},{held}{}}},desc,{},1,1,0;
add.u32 lo,lo,{};",
                        self.meet,
                        f + 4,
                        f + 1,
                        f + 5,
                        u32::from(piece + step > 0),
                        (self.meet * 32) >> 4
                    ),
                );
            }
        }
        put(o, format_args!("wgmma.commit_group.sync.aligned;"));
    }

    /// Begins the sum o of the weights c times the rows at kk.
    pub fn sum(self, o: &mut String) {
        put(o, format_args!("wgmma.fence.sync.aligned;"));
        for piece in 0..self.pieces() {
            put(o, format_args!("add.u32 lo,kk{piece},lot;"));
            self.sum_piece(o, piece);
        }
        put(o, format_args!("wgmma.commit_group.sync.aligned;"));
    }

    /// Likewise with the pieces that come next.
    pub fn sum_next(self, o: &mut String, tag: &str) {
        for piece in 0..self.pieces() {
            self.await_piece(o, "lot", tag, piece, false);
            if piece == 0 {
                put(o, format_args!("wgmma.fence.sync.aligned;"));
            }
            self.sum_piece(o, piece);
        }
        put(o, format_args!("wgmma.commit_group.sync.aligned;"));
    }

    /// Adds the weights c times the rows in the piece at `lo`, across them: its 64 features are columns.
    fn sum_piece(self, o: &mut String, piece: u32) {
        let kind = self.kind;
        let sums = (32 * piece..32 * piece + 32).map(|i| format!("o{i}")).collect::<Vec<_>>().join(",");
        for c in (0..self.meet / 4).step_by(4) {
            put(
                o,
                format_args!(
                    "add.u32 tmp,lo,{}; mov.b64 desc,{{tmp,hit}};
wgmma.mma_async.sync.aligned.m64n64k16.f32.{kind}.{kind} {{{sums}}},{{c{c},c{},c{},c{}}},desc,1,1,1,1;",
                    4 * c,
                    c + 1,
                    c + 2,
                    c + 3
                ),
            );
        }
    }

    /// Scores e of keys from `key` on that a row does not see are none.
    pub fn masked(self, o: &mut String, tag: &str) {
        put(
            o,
            format_args!(
                "add.u32 tmp,key,{}; setp.le.u32 p,tmp,whole;\n@p bra SEEN{tag};\nmad.lo.u32 tmp,t,2,key;",
                self.meet
            ),
        );
        for (i, e) in (0..self.meet / 2).step_by(4).flat_map(|i| [(i, 0), (i, 1)]) {
            put(
                o,
                format_args!(
                    "add.u32 tmp2,tmp,{}; setp.lt.u32 p,tmp2,lim0; setp.lt.u32 q,tmp2,lim1;
selp.f32 e{},e{},0fff800000,p; selp.f32 e{},e{},0fff800000,q;",
                    2 * i + e,
                    i + e,
                    i + e,
                    i + 2 + e,
                    i + 2 + e
                ),
            );
        }
        put(o, format_args!("SEEN{tag}:"));
    }

    /// Nothing is summed yet, and the constant parts of descriptors: rows along their features, and across them.
    pub fn begin(self, o: &mut String) {
        for i in 0..self.features / 2 {
            put(o, format_args!("mov.f32 o{i},0f00000000;"));
        }
        put(
            o,
            format_args!(
                "setp.eq.u32 lane0,lane,0; mov.u32 phase,0;
shr.u32 tmp,sm,4; mov.u32 hik,8; add.u32 lok,tmp,{}; mov.u32 hit,{}; add.u32 lot,tmp,{};",
                self.meet << 16,
                self.meet,
                8 << 16
            ),
        );
    }

    /// Lets go of the pieces of one of two images that take turns; `gone` is the first.
    pub fn let_go(self, o: &mut String, gone: &str) {
        text::let_go(o, gone, self.pieces(), self.stages());
        put(
            o,
            format_args!(
                "add.u32 {gone},{gone},{}; setp.ge.u32 q,{gone},{1};
@q sub.u32 {gone},{gone},{1};",
                self.pieces(),
                self.stages()
            ),
        );
    }

    /// Rows at two addresses as the left side of products, zeros behind `count` features.
    pub fn load(self, o: &mut String, from: [&str; 2], to: &str, count: &str) {
        for i in 0..self.features / 4 {
            put(o, format_args!("mov.b32 {to}{i},0;"));
        }
        for block in 0..self.features / 32 {
            put(o, format_args!("add.u32 tmp,pos,{}; setp.lt.u32 q,tmp,{count};", 32 * block));
            for (from, f) in from.iter().zip([8 * block, 8 * block + 4]) {
                put(
                    o,
                    format_args!(
                        "@q ld.global.nc.v4.b32 {{{to}{f},{to}{},{to}{},{to}{}}},[{from}+{}];",
                        f + 1,
                        f + 2,
                        f + 3,
                        64 * block
                    ),
                );
            }
        }
    }

    /// s0 and s1 become the products of rows at two addresses and those that were loaded, each with its own.
    pub fn dots(self, o: &mut String, from: [&str; 2], held: &str, count: &str) {
        for block in 0..self.features / 32 {
            for row in 0..2 {
                put(
                    o,
                    format_args!(
                        "add.u32 tmp,pos,{}; setp.lt.u32 q,tmp,{count}; mov.b32 v0,0; mov.b32 v1,0; mov.b32 v2,0; mov.b32 v3,0;
@q ld.global.nc.v4.b32 {{v0,v1,v2,v3}},[{}+{}];",
                        32 * block,
                        from[row],
                        64 * block
                    ),
                );
                for i in 0..4 {
                    self.dot(
                        o,
                        &format!("v{i}"),
                        &format!("{held}{}", 8 * block as usize + 4 * row + i),
                        row,
                    );
                }
            }
        }
        text::over_four(o, "add", ["s0", "s1"]);
    }

    /// Adds the products of two pairs to the sum of a row.
    fn dot(self, o: &mut String, a: &str, b: &str, row: usize) {
        for high in [false, true] {
            for (to, from) in [("x0", a), ("x1", b)] {
                match (self.kind, high) {
                    ("bf16", false) => put(o, format_args!("shl.b32 tmp2,{from},16; mov.b32 {to},tmp2;")),
                    ("bf16", true) => {
                        put(o, format_args!("and.b32 tmp2,{from},0xffff0000; mov.b32 {to},tmp2;"));
                    }
                    (_, high) => put(
                        o,
                        format_args!("mov.b32 {{h0,h1}},{from}; cvt.f32.f16 {to},h{};", u32::from(high)),
                    ),
                }
            }
            put(o, format_args!("fma.rn.f32 s{row},x0,x1,s{row};"));
        }
    }

    /// Writes the sums o times a factor of each row to those at a0 and a1, where there are any: eight neighbours at once.
    pub fn store(self, o: &mut String, factors: [&str; 2], count: &str) {
        for (block, row) in (0..self.features / 32).flat_map(|b| [(b, 0), (b, 1)]) {
            for i in 0..4 {
                let s = 4 * (4 * block + i) + 2 * row;
                put(
                    o,
                    format_args!(
                        "mul.f32 t0,o{s},{factor}; mul.f32 t1,o{},{factor}; cvt.rn.{}x2.f32 v{i},t1,t0;",
                        s + 1,
                        self.kind,
                        factor = factors[row as usize],
                    ),
                );
            }
            put(
                o,
                format_args!(
                    "add.u32 tmp,pos,{}; setp.lt.u32 q,tmp,{count}; and.pred q,q,ok{row};
@q st.global.v4.b32 [a{row}+{}],{{v0,v1,v2,v3}};",
                    32 * block,
                    64 * block
                ),
            );
        }
    }
}
