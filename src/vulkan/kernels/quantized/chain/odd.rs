//! Codes of two, three, five and six bits in the text of `text`, as pairs of `eights`: x makes up for digits that are some places up in pairs of
//! bfloat16, a multiplication for those of float16.

use super::codes::UP;
use super::text::Chain;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::eights::{self, Pair, halves};

impl Chain {
    /// Whether codes are of two, three, five or six bits.
    pub(super) fn odd(self) -> bool {
        eights::has(self.holds.bits)
    }

    /// Whether lanes' codes begin inside words.
    pub(super) fn slips(self) -> bool {
        !self.lane_bytes().is_multiple_of(4)
    }

    fn pairs(self) -> &'static [Pair; 4] {
        eights::pairs(self.holds.bits)
    }

    /// The bytes that pairs of a lane's codes take, each once.
    fn taken(self) -> Vec<u32> {
        let mut all = Vec::new();
        for eight in 0..self.eights() {
            for pair in self.pairs() {
                let bytes = pair.bytes + 0x1111 * self.holds.bits * eight;
                if !all.contains(&bytes) {
                    all.push(bytes);
                }
            }
        }
        all
    }

    /// Where the lane's codes of a batch begin, in whole words, as `t0`, amid spans of so many bytes.
    pub(super) fn lane_place(self, span: u32) -> String {
        let bytes = self.lane_bytes();
        if !self.slips() {
            return format!("mul.lo.u32 t0,cquad,{span}; mad.lo.u32 t0,lane,{bytes},t0;");
        }
        format!(
            "mul.lo.u32 t0,cquad,{span}; mad.lo.u32 t0,g,{},t0; mul.lo.u32 t1,t,{bytes}; {} add.u32 t0,t0,t1;",
            4 * bytes,
            self.whole_words("t1")
        )
    }

    /// The word of a part that is read first, of the byte `at` of it.
    fn whole_words(self, at: &str) -> String {
        format!("and.b32 {at},{at},-4; min.u32 {at},{at},{};", 4 * (self.lane_bytes() - self.words()))
    }

    /// Bytes of a row less those by which the lane's codes begin inside a word.
    pub(super) fn without_slip(self, [at, a, b]: [&str; 3]) -> String {
        if !self.slips() {
            return String::new();
        }
        format!(
            "mul.lo.u32 {a},t,{}; mov.u32 {b},{a}; {} sub.u32 {a},{a},{b}; sub.u32 {at},{at},{a};",
            self.lane_bytes(),
            self.whole_words(b)
        )
    }

    /// Finds which bytes of its words the lane takes.
    pub(super) fn selectors(self, o: &mut String) {
        if !self.slips() {
            return;
        }
        put(
            o,
            format_args!(
                "mul.lo.u32 slip,t,{}; mov.u32 t0,slip; {} sub.u32 slip,slip,t0; mul.lo.u32 slip,slip,0x1111;",
                self.lane_bytes(),
                self.whole_words("t0")
            ),
        );
        for (i, bytes) in self.taken().into_iter().enumerate() {
            put(o, format_args!("add.u32 e{i},slip,{bytes:#x};"));
        }
    }

    /// The codes of an eight of registers c and the next one as elements, of the rows of one side.
    pub(super) fn odd_codes(self, o: &mut String, c: u32, eight: u32, side: u32) {
        let (taken, next) = (self.taken(), c + self.words() - 1);
        let mut last = 0;
        for (pair, f) in self.pairs().iter().zip([0, 2, 4, 6].map(|f| side + f)) {
            let bytes = pair.bytes + 0x1111 * self.holds.bits * eight;
            if last != bytes {
                let at = taken.iter().position(|&t| t == bytes).unwrap_or(0);
                let selector = if self.slips() { format!("e{at}") } else { format!("{bytes:#x}") };
                put(o, format_args!("prmt.b32 t0,c{c},c{next},{selector};"));
                last = bytes;
            }
            match pair.down {
                0 => put(o, format_args!("and.b32 f{f},t0,{:#x};", pair.mask)),
                down => put(o, format_args!("shr.u32 t1,t0,{down}; and.b32 f{f},t1,{:#x};", pair.mask)),
            }
            if self.half() && pair.up != [0, 0] {
                let down = halves(pair.up.map(|up| 0x3c00 - (up << 10)));
                put(o, format_args!("mov.b32 t1,{down:#x}; mul.rn.f16x2 f{f},f{f},t1;"));
            }
        }
    }

    /// Pairs of an eight of the row from register x on, as those of codes.
    pub(super) fn odd_pairs(self, x: u32) -> String {
        let mut all = String::new();
        for (i, pair) in self.pairs().iter().enumerate() {
            let ([a, b], selector) = pair.elements();
            all += &format!("prmt.b32 fa{i},x{},x{},{selector:#06x};", x + a, x + b);
            if !self.half() {
                let up = halves(pair.up.map(|up| (UP[0] & 0xffff) - (up << 7)));
                all += &format!("mov.b32 t0,{up:#x}; mul.rn.bf16x2 fa{i},fa{i},t0;");
            }
        }
        all
    }

    /// How many codes are looked at together where they are one by one.
    pub(super) fn at_once(self) -> u32 {
        if self.odd() { 8 } else { 32 / self.holds.bits }
    }

    /// Reads so many of them at an address.
    pub(super) fn some_codes(self, at: &str) -> String {
        if !self.odd() {
            return format!("ld.global.b32 x0,[{at}];");
        }
        let byte = |i: u32| {
            let to = if i < 4 { "x0" } else { "x8" };
            format!(
                "ld.global.u8 h0,[{at}+{i}]; cvt.u32.u16 t0,h0; shl.b32 t0,t0,{}; or.b32 {to},{to},t0;",
                8 * (i % 4)
            )
        };
        "mov.u32 x0,0; mov.u32 x8,0;".to_string() + &(0..self.holds.bits).map(byte).collect::<String>()
    }

    /// The code e of those as `t0`.
    pub(super) fn code(self, o: &mut String, e: u32) {
        let bits = self.holds.bits;
        let at = bits * e;
        match at {
            32.. => put(o, format_args!("shr.u32 t0,x8,{};", at - 32)),
            _ => put(o, format_args!("shr.u32 t0,x0,{at};")),
        }
        if at < 32 && at + bits > 32 {
            put(o, format_args!("shl.b32 t1,x8,{}; or.b32 t0,t0,t1;", 32 - at));
        }
        put(o, format_args!("and.b32 t0,t0,{};", (1 << bits) - 1));
    }
}
