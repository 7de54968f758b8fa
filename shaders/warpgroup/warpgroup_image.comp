#version 460
// An operand of 16-bit elements, `rows` of K, in the order in which warpgroup products read it: tiles of TILE rows; within one,
// steps of 16 along K; within one, two halves of 8; within one, 16 bytes of each row. Of 32 elements of K the pairs are dealt
// to the halves of two steps in turn, since that is how a thread of the other side has them (kernels/matmul/warpgroup).
// Rows and elements of K that are not there are zero. PLAIN: rows of K as they are, `out_ld` apart.
// Defines: ALONG where K is contiguous (else rows are), WIDE where 16-byte loads may be used, PLAIN (not with ALONG), CODES (with ALONG) where the other side is codes: of 128
// elements a thread has 32 neighbours, of eight the first four are paired with the last, RUNS (with ALONG) where `nb0` and `b0` are the address of tiles of rows that
// warpgroup_runs.comp found, of which `b1` at most have room.
// Grid: blocks of 64 rows (a tile without ALONG, 256 with PLAIN too), of 128 elements of K (16384 / TILE, 64 of TILE 192; 64), batch.
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
    uvec2 src, dst;
    uint rows, k, ld;   // elements from row to row (from K to K without ALONG)
    uint tile, steps;   // rows of a tile, steps of the image
    uint out_ld;        // of PLAIN
    uint nb0, b0, b1;   // length of the inner batch axis, elements from matrix to matrix
} p;

// Eight elements from `at` on, of which `have` are there.
uvec4 eight(uvec2 base, uint at, int have) {
    if (have <= 0) return uvec4(0);
#ifdef WIDE
    if (have >= 8) return Chunks(base).v[at / 8];
#endif
    uvec4 x = uvec4(0);
    [[unroll]] for (uint i = 0; i < 8; i++)
        if (int(i) < have) x[i / 2] |= uint(Halves(base).v[at + i]) << (16 * (i % 2));
    return x;
}

// Elements i of two chunks beside each other.
uint both(uvec4 a, uvec4 b, uint i) {
    return i % 2 == 0 ? (a[i / 2] & 0xffffu) | b[i / 2] << 16 : a[i / 2] >> 16 | (b[i / 2] & 0xffff0000u);
}

void main() {
    uint self = gl_LocalInvocationIndex, batch = gl_WorkGroupID.z;
#ifdef RUNS
    uvec2 src = p.src;
#else
    uvec2 src = advance(advance(p.src, batch % p.nb0, p.b0, 1), batch / p.nb0, p.b1, 1);
#endif
#ifdef ALONG
    uint row = gl_WorkGroupID.x * 64 + self / 32 * 8 + self % 8;
    uint block = gl_WorkGroupID.y * 4 + self / 8 % 4;
    if (2 * block >= p.steps) return;
#ifdef RUNS
    uvec2 runs = uvec2(p.nb0, p.b0);
    uint count = min(Chunks(runs).v[0].x, p.b1);
    for (; row / p.tile < count; row += gl_NumWorkGroups.x * 64) {
    uvec4 run = Chunks(runs).v[1 + row / p.tile];
    uint from = run.y + row % p.tile, rows = run.y + run.z;
    uvec2 dst = advance(p.dst, row / p.tile, p.steps * p.tile * 2, 4);
#else
    uint tiles = (p.rows + p.tile - 1) / p.tile;
    if (row >= tiles * p.tile) return;
    uint from = row, rows = p.rows;
    uvec2 dst = advance(p.dst, batch * tiles + row / p.tile, p.steps * p.tile * 2, 4);
    {
#endif
    uvec4 x[4];
    [[unroll]] for (uint i = 0; i < 4; i++) {
#ifdef CODES
        uint k = 128 * (block / 4) + 32 * i + 8 * (block % 4);
#else
        uint k = 32 * block + 8 * i;
#endif
        x[i] = eight(src, from * p.ld + k, from < rows ? int(p.k) - int(k) : 0);
    }
    [[unroll]] for (uint c = 0; c < 4; c++) {
        uint at = (2 * block + c / 2) * 2 * p.tile + c % 2 * p.tile + row % p.tile;
#ifdef CODES
        uvec4 w;
        [[unroll]] for (uint i = 0; i < 4; i++)
            w[i] = c % 2 == 0 ? (x[i][c / 2] & 0xffffu) | x[i][2 + c / 2] << 16
                              : x[i][c / 2] >> 16 | (x[i][2 + c / 2] & 0xffff0000u);
        Chunks(dst).v[at] = w;
#else
        Chunks(dst).v[at] = uvec4(x[0][c], x[1][c], x[2][c], x[3][c]);
#endif
    }
    }
#else
#ifdef PLAIN
    uint rows8 = gl_WorkGroupID.x * 32 + self / 32 * 4 + self % 4;
    uint first = (gl_WorkGroupID.y * 8 + self / 4 % 8) * 8;
    if (rows8 * 8 >= p.rows || first >= p.out_ld) return;
#else
    // A tile has one to four groups of 64 rows; of three the last two of eight subgroups do what the next workgroup does too.
    uint groups = p.tile / 64, c = self / 8 % 4;
    uint rows8 = (gl_WorkGroupID.x * groups + self / 32 % groups) * 8 + self % 8;
    uint block = gl_WorkGroupID.y * (8 / groups) + self / 32 / groups;
    uint tiles = (p.rows + p.tile - 1) / p.tile;
    if (2 * block >= p.steps) return;
#endif
    uvec4 x[8];
    [[unroll]] for (uint i = 0; i < 8; i++) {
#ifdef PLAIN
        uint k = first + i;
#else
        uint k = 32 * block + 8 * (i / 2) + 2 * c + i % 2;
#endif
        x[i] = eight(src, k * p.ld + rows8 * 8, k < p.k ? int(p.rows) - int(rows8 * 8) : 0);
    }
#ifdef PLAIN
    uvec2 dst = advance(p.dst, batch, p.rows * p.out_ld, 1);
#else
    uvec2 dst = advance(p.dst, batch * tiles + rows8 * 8 / p.tile, p.steps * p.tile * 2, 4);
#endif
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uvec4 w = uvec4(both(x[0], x[1], i), both(x[2], x[3], i), both(x[4], x[5], i), both(x[6], x[7], i));
#ifdef PLAIN
        if (rows8 * 8 + i < p.rows) Chunks(dst).v[((rows8 * 8 + i) * p.out_ld + first) / 8] = w;
#else
        Chunks(dst).v[(2 * block + c / 2) * 2 * p.tile + c % 2 * p.tile + rows8 * 8 % p.tile + i] = w;
#endif
    }
#endif
}
