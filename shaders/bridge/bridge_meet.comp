#version 460
// Between GPUs whose copy engines write into each other's memory (src/vulkan/kernels/bridge.rs): says that what lies in the outbox is
// whole, and waits until what the others send has come and what was sent has left. Flags are 64 bytes apart: the first says up
// to which piece the outbox was filled; then, for each process, up to which its pieces came, and up to which it has been sent.
// Numbers of pieces go round; others than invocations of this device change the flags meanwhile, and the host lets all waits
// end by numbers far ahead. What was seen is stored: without any effect a compiler may leave the wait out, and where ONCE
// is defined, for drivers that end loops after some iterations, the host looks at it and asks again.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
layout(local_size_x = 32) in;
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent volatile buffer Flags { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer Seen { uint v[]; };
layout(push_constant, scalar) uniform Push { Flags flags; Seen seen; uint number; uint members; uint me; uint what; };

// What there is to do.
const uint POST = 1u, AWAIT = 2u;

uint until(uint flag) {
    uint found;
    do {
        found = flags.v[flag * 16u];
#ifdef ONCE
        break;
#endif
    } while (int(found - number) < 0);
    return found;
}

void main() {
    uint other = gl_LocalInvocationID.x;
    if ((what & POST) != 0u && other == 0u) {
        flags.v[0] = number;
    }
    if ((what & AWAIT) != 0u && other < members && other != me) {
        seen.v[2u * other] = until(1u + other);
        seen.v[2u * other + 1u] = until(1u + members + other);
    }
}
