#version 460
// Tiles of rows that pick one right matrix, for products on warpgroups. A tile begins where the pick changes and TILE rows behind
// the beginning of another of the run. Writes their number, 16 bytes on for each the pick, the first row and how many there are.
// Defines: SIGNED where negative picks count from the end. Picks are held inside the matrices.
// Grid: one workgroup, which goes over 4096 rows at a time.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#define DTYPE 1
#include "lib/element.glsl"

layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
    uvec2 picks, tiles;
    uint count, tile, matrices;
} p;

#define EACH 16
shared uint among[256];

uint pick(uint row) {
    uint i = Words(p.picks).v[row];
#ifdef SIGNED
    if (int(i) < 0) i = uint(max(int(i) + int(p.matrices), 0));
#endif
    return min(i, p.matrices - 1);
}

// The largest number of all invocations up to this one, or their sum; both are found in the last place.
uint up_to(uint x, bool largest) {
    uint self = gl_LocalInvocationIndex;
    barrier();
    among[self] = x;
    barrier();
    for (uint step = 1; step < 256; step *= 2) {
        uint other = self >= step ? among[self - step] : 0;
        barrier();
        x = largest ? max(x, other) : x + other;
        among[self] = x;
        barrier();
    }
    return x;
}

void main() {
    uint self = gl_LocalInvocationIndex;
    uint found = 0, carried = 0; // tiles so far, beginning of the run that goes on, plus one
    for (uint chunk = 0; chunk < p.count; chunk += 256 * EACH) {
        uint first = chunk + self * EACH;
        uint a[EACH + 1];
        a[0] = first > 0 && first <= p.count ? pick(first - 1) : 0;
        [[unroll]] for (uint i = 0; i < EACH; i++) a[i + 1] = first + i < p.count ? pick(first + i) : a[i];
        bool begins[EACH];
        uint run = 0;
        [[unroll]] for (uint i = 0; i < EACH; i++) {
            begins[i] = first + i < p.count && (first + i == 0 || a[i + 1] != a[i]);
            if (begins[i]) run = first + i + 1;
        }
        up_to(run, true);
        uint start = max(carried, self > 0 ? among[self - 1] : 0);
        carried = max(carried, among[255]);
        bool tiles[EACH];
        uint count = 0;
        [[unroll]] for (uint i = 0; i < EACH; i++) {
            if (begins[i]) start = first + i + 1;
            tiles[i] = first + i < p.count && (first + i + 1 - start) % p.tile == 0;
            count += uint(tiles[i]);
        }
        uint at = found + up_to(count, false) - count;
        found += among[255];
        [[unroll]] for (uint i = 0; i < EACH; i++)
            if (tiles[i]) Chunks(p.tiles).v[1 + at++] = uvec4(a[i + 1], first + i, 0, 0);
    }
    if (self == 0) Chunks(p.tiles).v[0] = uvec4(found, 0, 0, 0);
    memoryBarrierBuffer();
    barrier();
    for (uint t = self; t < found; t += 256) {
        uint next = t + 1 < found ? Chunks(p.tiles).v[2 + t].y : p.count;
        Chunks(p.tiles).v[1 + t].z = next - Chunks(p.tiles).v[1 + t].y;
    }
}
