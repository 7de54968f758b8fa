//! What texts have that begin while the commands before them end (`hal::progress`): their wait for those, behind which they read what others
//! wrote, past the first-level cache, and write; and their word that they have ended.

use super::matmul::warpgroup::text::put;
use crate::vulkan::hal::progress::BYTES;
use crate::vulkan::tune::Profile;
use crate::vulkan::tune::warpgroup::waits_beside;

/// Whether so many workgroups of a shader begin early too (lib/progress.glsl), which is told so many bytes: on GPUs whose workgroups begin
/// in the order of their commands, as those that take PTX do.
pub(super) fn shaders(p: &Profile, groups: u64, told: usize) -> bool {
    let fits = told + BYTES <= p.features.push_constants as usize;
    p.features.ptx && fits && waits_beside(p, groups)
}

/// Bytes that a text is told, with what follows a block `T`.
pub(super) const fn told<T>() -> usize {
    size_of::<T>() + BYTES
}

/// The warp waits, or each that has this text does; `at` is where the words begin.
pub(super) fn warp_waits(o: &mut String, at: usize) {
    waits(o, at, "", "");
}

/// All threads of the workgroup wait.
pub(super) fn workgroup_waits(o: &mut String, at: usize) {
    workgroup_waits_there(o, at, "");
}

/// The same at one of several places of a text, each of which some threads come to; labels end in `place`.
pub(super) fn workgroup_waits_there(o: &mut String, at: usize, place: &str) {
    waits(o, at, &format!("mov.u32 lt,%tid.x; setp.ge.u32 lp,lt,32;\n@lp bra AWAITED{place};\n"), place);
    put(o, format_args!("bar.sync 0;"));
}

fn waits(o: &mut String, at: usize, who: &str, place: &str) {
    put(
        o,
        format_args!(
            "{{
.reg .pred lp;
.reg .b32 lt,lv;
.reg .b64 la;
{who}ld.param.u32 lt,[args+{}]; setp.eq.u32 lp,lt,0;
@lp bra AWAITED{place};
ld.param.u64 la,[args+{at}]; ld.param.u32 lv,[args+{}];
AWAITING{place}:
ld.relaxed.gpu.global.b32 lt,[la]; sub.u32 lt,lt,lv; shr.u32 lt,lt,31; setp.ne.u32 lp,lt,0;
@lp bra AWAITING{place};
AWAITED{place}:
}}",
            at + 12,
            at + 8
        ),
    );
}

/// The workgroup has ended: all of its threads come here.
pub(super) fn ends(o: &mut String, at: usize) {
    put(
        o,
        format_args!(
            "bar.warp.sync -1;
bar.sync 0;
{{
.reg .pred lp;
.reg .b32 lt;
.reg .b64 la;
mov.u32 lt,%tid.x; setp.ne.u32 lp,lt,0; ld.param.u64 la,[args+{at}];
@lp bra COUNTED_IN;
setp.eq.u64 lp,la,0;
@lp bra COUNTED_IN;
atom.acq_rel.gpu.global.add.u32 lt,[la],1;
COUNTED_IN:
}}"
        ),
    );
}
