// What kernels do that begin while the commands before them end (src/vulkan/hal/progress.rs; PROGRESS): they wait for a number that each
// workgroup of those adds one to, before they read what others wrote, and add one when they have ended. PROGRESS_WORDS stand last in the
// push block. Blocks are OTHERS_WROTE (lib/element.glsl, lib/codecs.glsl): read past the first-level cache, since others may just have written.
#ifdef PROGRESS
#define PROGRESS_WORDS uvec2 progress_number; uint progress_awaited, progress_waits;
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent volatile buffer Number { uint v; };

void await_others(uvec2 number, uint awaited, uint waits) {
    if (waits == 0u) return;
    if (gl_LocalInvocationIndex == 0u)
        while (int(Number(number).v - awaited) < 0) {}
    memoryBarrierBuffer();
    barrier();
}

void tell_others(uvec2 number) {
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0u && (number.x | number.y) != 0u) atomicAdd(Number(number).v, 1u);
}
#else
#define PROGRESS_WORDS
#endif
