#version 460
// Tiles of rows that meet one right matrix, for products on warpgroups: from the table of RUNS (gather_mm_table.comp), which has the
// address of each row's matrix. A tile begins where the matrix changes and TILE rows behind the beginning of another of the run.
// Writes their number, 16 bytes on for each the matrix's address, the first row and how many there are.
// Grid: one workgroup; each invocation has a stretch of rows.
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
    uvec2 rows, tiles; // the table, and what is written
    uint count, tile;
} p;

shared uint last[256];  // beginning of the last run that begins in a stretch, plus one; 0 if none does
shared uint found[256]; // tiles that begin in a stretch

bool begins(uint row) {
    return row == 0 || any(notEqual(Chunks(p.rows).v[row].xy, Chunks(p.rows).v[row - 1].xy));
}

void main() {
    uint self = gl_LocalInvocationIndex;
    uint stretch = (p.count + 255) / 256;
    uint first = min(self * stretch, p.count), end = min(first + stretch, p.count);
    uint run = 0;
    for (uint row = end; row > first; row--)
        if (begins(row - 1)) { run = row; break; }
    last[self] = run;
    barrier();
    // The run that goes on where the stretch begins.
    uint before = 0;
    for (uint s = self; s > 0 && before == 0; s--) before = last[s - 1];
    uint count = 0, start = before;
    for (uint row = first; row < end; row++) {
        if (begins(row)) start = row + 1;
        count += uint((row + 1 - start) % p.tile == 0);
    }
    found[self] = count;
    barrier();
    uint at = 0;
    for (uint s = 0; s < self; s++) at += found[s];
    start = before;
    for (uint row = first; row < end; row++) {
        if (begins(row)) start = row + 1;
        if ((row + 1 - start) % p.tile == 0) Chunks(p.tiles).v[1 + at++] = uvec4(Chunks(p.rows).v[row].xy, row, 0);
    }
    uint all = 0;
    for (uint s = 0; s < 256; s++) all += found[s];
    if (self == 0) Chunks(p.tiles).v[0] = uvec4(all, 0, 0, 0);
    memoryBarrierBuffer();
    barrier();
    for (uint t = self; t < all; t += 256) {
        uint next = t + 1 < all ? Chunks(p.tiles).v[2 + t].z : p.count;
        Chunks(p.tiles).v[1 + t].w = next - Chunks(p.tiles).v[1 + t].z;
    }
}
