//! What the texts of all kernels on warpgroups have: lines, pieces that one thread fetches, four lanes' words turned.

use std::fmt::{Arguments, Write};

use crate::core::Dtype;
use crate::vulkan::shader::native::ENTRY_NAME;

/// What a program is told: its only parameter, as it lies in memory.
///
/// # Safety
/// It is repr(C), without padding.
pub(in crate::vulkan) unsafe trait Told: Sized {
    fn bytes(&self) -> &[u8] {
        // SAFETY: by whoever implements it.
        unsafe { std::slice::from_raw_parts((self as *const Self).cast(), size_of::<Self>()) }
    }
}

/// Adds a line.
pub(in crate::vulkan) fn put(o: &mut String, line: Arguments<'_>) {
    // INVARIANT: strings can be written to.
    let _ = o.write_fmt(line);
    o.push('\n');
}

/// Four registers, as an operand between braces names them.
pub(in crate::vulkan) fn four(name: &str, first: u32) -> String {
    [0, 1, 2, 3].map(|e| format!("{name}{}", first + e)).join(",")
}

/// How the text of any program begins: the architecture, the bytes that it is told, threads of a workgroup and workgroups that a
/// multiprocessor has registers for.
pub(in crate::vulkan) fn head(target: &str, told: usize, [threads, together]: [u32; 2]) -> String {
    format!(
        ".version 8.0
.target {target}
.address_size 64
.visible .entry {ENTRY_NAME}(.param .align 8 .b8 args[{told}])
.maxntid {threads},1,1
.minnctapersm {together}
{{
"
    )
}

/// How elements of 16 bits are called.
pub(in crate::vulkan) fn kind(dtype: Dtype) -> &'static str {
    if dtype == Dtype::BF16 { "bf16" } else { "f16" }
}

/// The element of 16 bits in register `from` as float32; register `free` of 32 is written for bfloat16.
pub(in crate::vulkan) fn element(o: &mut String, dtype: Dtype, to: &str, from: &str, free: &str) {
    match dtype {
        Dtype::BF16 => {
            put(o, format_args!("cvt.u32.u16 {free},{from}; shl.b32 {free},{free},16; mov.b32 {to},{free};"))
        }
        _ => put(o, format_args!("cvt.f32.f16 {to},{from};")),
    }
}

/// One over the square root of `from`, as what shaders call `1.0 / sqrt(x)` is on NVIDIA: of 600 numbers none differs (H200).
pub(in crate::vulkan) fn inverse_root(o: &mut String, to: &str, from: &str) {
    put(o, format_args!("sqrt.approx.f32 {to},{from}; rcp.rn.f32 {to},{to};"));
}

/// The pair of elements in register `from` as float32; register `free` is written for bfloat16, h0 and h1 for float16.
pub(in crate::vulkan) fn pair(o: &mut String, dtype: Dtype, to: [&str; 2], from: &str, free: &str) {
    pair_by(o, dtype, to, from, free, ["h0", "h1"]);
}

/// The same with such halves.
pub(in crate::vulkan) fn pair_by(
    o: &mut String,
    dtype: Dtype,
    [low, high]: [&str; 2],
    from: &str,
    free: &str,
    [a, b]: [&str; 2],
) {
    if dtype == Dtype::BF16 {
        put(
            o,
            format_args!(
                "shl.b32 {free},{from},16; mov.b32 {low},{free}; and.b32 {free},{from},0xffff0000; mov.b32 {high},{free};"
            ),
        );
    } else {
        put(o, format_args!("mov.b32 {{{a},{b}}},{from}; cvt.f32.f16 {low},{a}; cvt.f32.f16 {high},{b};"));
    }
}

/// How the text begins of a program that is told so many bytes, with so many threads a workgroup and workgroups a multiprocessor,
/// and room for the bytes of so many pieces. Registers follow, and [`FIRST_THREAD`].
pub(in crate::vulkan) fn opening(told: usize, size: [u32; 2], [bytes, stages]: [u32; 2]) -> String {
    let head = head("sm_90a", told, size);
    format!(
        "{head}.shared .align 1024 .b8 pieces[{bytes}];
.shared .align 8 .b64 full[{stages}];
.shared .align 8 .b64 empty[{stages}];"
    )
}

/// Which thread it is, and where pieces and their barriers lie; the first thread goes on to [`ready`] them.
pub(in crate::vulkan) const FIRST_THREAD: &str =
    "mov.u32 tid,%tid.x; shr.u32 warp,tid,5; and.b32 lane,tid,31;
mov.u32 sm,pieces; mov.u32 fullb,full; mov.u32 emptyb,empty;
setp.ne.u32 p,tid,0;
@p bra READY;";

/// Readies the barriers of `stages` pieces: `full` awaits so many arrivals, `empty` one of each warp that multiplies.
pub(in crate::vulkan) fn ready(o: &mut String, stages: u32, arrivals: u32) {
    for at in (0..stages).map(|s| 8 * s) {
        put(
            o,
            format_args!(
                "mbarrier.init.shared::cta.b64 [fullb+{at}],{arrivals}; mbarrier.init.shared::cta.b64 [emptyb+{at}],8;"
            ),
        );
    }
}

/// Of the warpgroup that fetches one thread goes on.
pub(in crate::vulkan) const ONE_THREAD: &str = "setp.ne.u32 p,warp,8;
@p bra DONE;
setp.ne.u32 p,lane,0;
@p bra DONE;";

/// Asks the copy engine for the next piece of `bytes`, at `from`, when there is room for it; `label` is this place's alone.
pub(in crate::vulkan) fn fetch(o: &mut String, label: &str, from: &str, bytes: u32, stages: u32) {
    put(
        o,
        format_args!(
            "shl.b32 tmp,slot,3; add.u32 tmp2,emptyb,tmp;
{label}:
mbarrier.try_wait.parity.shared::cta.b64 q,[tmp2],phase;
@!q bra {label};
add.u32 tmp2,fullb,tmp;
mbarrier.arrive.expect_tx.shared::cta.b64 _,[tmp2],{bytes};
mad.lo.u32 lo,slot,{bytes},sm;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [lo],[{from}],{bytes},[tmp2];
add.u64 {from},{from},{bytes};
add.u32 slot,slot,1; setp.eq.u32 q,slot,{stages};
@q mov.u32 slot,0;
@q xor.b32 phase,phase,1;"
        ),
    );
}

/// Waits for the next piece of `bytes`; `lo` becomes the low word of its descriptor, behind the one in `base`.
pub(in crate::vulkan) fn await_piece(o: &mut String, base: &str, label: &str, bytes: u32, stages: u32) {
    put(
        o,
        format_args!(
            "shl.b32 tmp,slot,3; add.u32 tmp2,fullb,tmp;
W{label}:
mbarrier.try_wait.parity.shared::cta.b64 q,[tmp2],phase;
@!q bra W{label};
mad.lo.u32 lo,slot,{},{base};
add.u32 slot,slot,1; setp.eq.u32 q,slot,{stages};
@q mov.u32 slot,0;
@q xor.b32 phase,phase,1;",
            bytes >> 4
        ),
    );
}

/// Lets go of `count` pieces from `gone` on.
pub(in crate::vulkan) fn let_go(o: &mut String, gone: &str, count: u32, stages: u32) {
    for _ in 0..count {
        put(
            o,
            format_args!(
                "shl.b32 tmp,{gone},3; add.u32 tmp,tmp,emptyb;
@lane0 mbarrier.arrive.shared::cta.b64 _,[tmp];
add.u32 {gone},{gone},1; setp.eq.u32 q,{gone},{stages};
@q mov.u32 {gone},0;"
            ),
        );
    }
}

/// Joins two numbers of four lanes beside each other by `op`: all four have the result.
pub(in crate::vulkan) fn over_four(o: &mut String, op: &str, [a, b]: [&str; 2]) {
    for bit in [1, 2] {
        put(
            o,
            format_args!(
                "shfl.sync.bfly.b32 t0,{a},{bit},31,-1; shfl.sync.bfly.b32 t1,{b},{bit},31,-1; {op}.f32 {a},{a},t0; {op}.f32 {b},{b},t1;"
            ),
        );
    }
}

/// v0 to v3 of four lanes beside each other, turned: lane t has the t-th of each. `bits`: predicates of the bits of t.
pub(in crate::vulkan) fn turn(o: &mut String, [low, high]: [&str; 2]) {
    for (i, j, bit, odd) in [(0, 1, 1, low), (2, 3, 1, low), (0, 2, 2, high), (1, 3, 2, high)] {
        put(
            o,
            format_args!(
                "selp.b32 v4,v{i},v{j},{odd}; shfl.sync.bfly.b32 v4,v4,{bit},31,-1;
@{odd} mov.b32 v{i},v4;
@!{odd} mov.b32 v{j},v4;"
            ),
        );
    }
}
