//! Every other turn of `program` with its codes and factors in registers, as a thread reads them of shared memory: what is on its way there is
//! counted apart from copies, so that two turns' codes are on their way at a time.

use super::program::{DIGITS, Program};
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::tune::quantized::few_rows::{GROUPS, UNIT};

impl Program {
    /// Asks for the second turn: the other side of the first unit, or the next unit.
    pub(super) fn first_held(&self, o: &mut String) {
        let [codes, factors] = self.row_bytes();
        put(
            o,
            format_args!(
                ".shared .align 16 .b8 digits[16];
shr.u32 ho,k0,1; mad.lo.u32 ho,g,{codes},ho; mad.lo.u32 ho,t,8,ho; shr.u32 hf,k0,5; mad.lo.u32 hf,g,{factors},hf; and.b32 hb,t,1; shl.b32 hb,hb,2; add.u32 next,unit,lists;
setp.eq.u32 p,tid,0; mov.u32 keep0,{}; mov.u32 keep1,{}; mov.u32 keep2,-1; mov.u32 tmp,digits;
@p st.shared.v4.b32 [tmp],{{keep0,keep1,keep2,keep2}};",
                DIGITS[0], DIGITS[1]
            ),
        );
        self.fetch_held(o, if self.sides() > 1 { "unit" } else { "next" });
    }

    /// All turns but the way back: `p` is whether there is another one.
    pub(super) fn turns_held(&self, o: &mut String) {
        self.before(o);
        put(o, format_args!("mad.lo.u32 next,lists,{},unit;", 3 - self.sides()));
        self.seek(o, "next", 0);
        self.pieces(o, 0);
        self.sum_up(o, 0, "");
        if self.sides() == 1 {
            self.behind(o, "A");
            self.go_on(o);
            put(o, format_args!("@!p bra {};", self.ending()));
            self.before(o);
        }
        self.multiply_held(o);
        put(o, format_args!("mad.lo.u32 next,lists,{},unit;", 3 - self.sides()));
        self.fetch_held(o, "next");
        self.sum_up(o, self.sides() - 1, "H");
        self.behind(o, "H");
        self.go_on(o);
    }

    /// Asks for the lane's codes of rows g and g + 8 of a unit's last side, with their scales and biases.
    fn fetch_held(&self, o: &mut String, unit: &str) {
        let [codes, factors] = self.row_bytes();
        self.parts_of(o, unit, self.sides() - 1);
        put(
            o,
            format_args!(
                "mul.wide.u32 l,local,{}; add.u64 wp,wp,l; cvt.u64.u32 l,ho; add.u64 wp,wp,l;
mul.wide.u32 l,local,{}; add.u64 fp,fp,l; add.u64 m,m,l; cvt.u64.u32 l,hf; add.u64 fp,fp,l; add.u64 m,m,l; cvt.u64.u32 l,hb; add.u64 m,m,l;",
                UNIT * codes,
                UNIT * factors
            ),
        );
        if !self.exact() {
            // Codes that are not there have no factors.
            put(o, format_args!("setp.ne.u32 p,size0,0; and.pred have,have,p;"));
            let all = (0..16).map(|i| format!("hc{i}")).chain((0..4).map(|i| format!("hs{i}")));
            all.chain((0..2).map(|i| format!("hz{i}"))).for_each(|r| put(o, format_args!("mov.b32 {r},0;")));
        }
        for (i, row) in (0..GROUPS).flat_map(|i| [(i, 0), (i, 1)]) {
            let c = 4 * i + 2 * row;
            put(
                o,
                format_args!(
                    "@have ld.global.nc.L1::no_allocate.v2.b32 {{hc{c},hc{}}},[wp+{}];",
                    c + 1,
                    8 * row * codes + 32 * i
                ),
            );
        }
        for row in 0..2 {
            put(
                o,
                format_args!(
                    "@have ld.global.nc.v2.b32 {{hs{},hs{}}},[fp+{at}];\n@have ld.global.nc.b32 hz{row},[m+{at}];",
                    2 * row,
                    2 * row + 1,
                    at = 8 * row * factors
                ),
            );
        }
    }

    /// Multiplies what came into registers.
    fn multiply_held(&self, o: &mut String) {
        (0..4 * self.form.tiles).for_each(|i| put(o, format_args!("mov.f32 tot{i},0f00000000;")));
        // Bits to keep come from memory, so that nothing of it stands in front of the barrier, where it would wait for these loads.
        put(o, format_args!("mov.u32 tmp,digits; ld.shared.v4.b32 {{keep0,keep1,keep2,keep3}},[tmp];"));
        (0..2).for_each(|i| put(o, format_args!("and.b32 bi{i},hz{i},keep2;")));
        (0..4).for_each(|i| put(o, format_args!("and.b32 sc{i},hs{i},keep2;")));
        self.add_biases(o, 0);
        for i in 0..GROUPS {
            (0..4).for_each(|c| put(o, format_args!("mov.b32 c{c},hc{};", 4 * i + c)));
            (0..4).for_each(|h| self.multiply_group(o, [0, i, h], ["keep0", "keep1"]));
            self.scale_group(o, i);
        }
    }
}
