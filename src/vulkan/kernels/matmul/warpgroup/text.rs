//! What the texts of all kernels on warpgroups have: lines, pieces that one thread fetches, four lanes' words turned.

use std::fmt::{Arguments, Write};

/// Adds a line.
pub(in crate::vulkan) fn put(o: &mut String, line: Arguments<'_>) {
    // INVARIANT: strings can be written to.
    let _ = o.write_fmt(line);
    o.push('\n');
}

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

/// Lets go of the oldest `count` pieces.
pub(in crate::vulkan) fn let_go(o: &mut String, count: u32, stages: u32) {
    for _ in 0..count {
        put(
            o,
            format_args!(
                "shl.b32 tmp,gone,3; add.u32 tmp,tmp,emptyb;
@lane0 mbarrier.arrive.shared::cta.b64 _,[tmp];
add.u32 gone,gone,1; setp.eq.u32 q,gone,{stages};
@q mov.u32 gone,0;"
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
