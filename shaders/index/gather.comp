#version 460
// Gather: each unit of UNIT bytes (1 to 16) of the dense array is read where the walk and the index arrays
// lead. Rows that lie together move in wide units, two in flight a lane; of single elements a lane takes FOUR
// neighbours along the last axis at once. Indices out of range are held inside their axis. Axis fields: length,
// step in the base in units.
#include "lib/codecs.glsl"
#define FIELDS 2
#define HOLD
#include "index/indexed.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

layout(push_constant, scalar) uniform Push {
    uint64_t src, dst, params, total;  // total: units, or fours of them, to write
    uint inner, shift;                 // units of a row, and its log2 or 32
};

#define FIRST (AXES * AXIS_WORDS)

// Where unit u of the walk starts: its place in the base without the indices, and those in the index arrays.
int64_t places(UINT u, out int64_t pos[NPICK]) {
#ifdef FOUR
    UINT r = u * 4u;
    int64_t off = 0l;
#else
    UINT r = shift < 32u ? u >> shift : u / inner;
    int64_t off = int64_t(u - r * inner);
#endif
    [[unroll]] for (uint k = 0u; k < NPICK; ++k) pos[k] = 0l;
    [[unroll]] for (uint d = AXES; d > 0u; --d) {
        uint w = (d - 1u) * AXIS_WORDS;
        UINT c = r;
        if (d > 1u) {
            UINT size = UINT(Words(params).v[w]);
            r = c / size;
            c -= r * size;
        }
        off += int64_t(c) * Words(params).v[w + 1u];
        [[unroll]] for (uint k = 0u; k < NPICK; ++k) pos[k] += int64_t(c) * Words(params).v[w + 2u + k];
    }
    return off;
}

int64_t indexed(int64_t off, int64_t pos[NPICK]) {
    [[unroll]] for (uint k = 0u; k < NPICK; ++k)
        off += int64_t(picked(params, FIRST, k, pos[k])) * Words(params).v[FIRST + 4u * k + 1u];
    return off;
}

#ifdef FOUR
#define LAST_AXIS ((AXES - 1u) * AXIS_WORDS)

void read(UINT u, out BITS v[4]) {
    int64_t pos[NPICK], off = places(u, pos);
    [[unroll]] for (uint e = 0u; e < 4u; ++e) {
        v[e] = BITS(REF(at(src, indexed(off, pos), UNIT)).v);
        off += Words(params).v[LAST_AXIS + 1u];
        [[unroll]] for (uint k = 0u; k < NPICK; ++k) pos[k] += Words(params).v[LAST_AXIS + 2u + k];
    }
}

void write(UINT u, BITS v[4]) {
    uint64_t p = dst + uint64_t(u) * (4u * UNIT);
#if UNIT == 1
    Raw4(p).v = v[0] | v[1] << 8 | v[2] << 16 | v[3] << 24;
#elif UNIT == 2
    Raw8(p).v = uvec2(v[0] | v[1] << 16, v[2] | v[3] << 16);
#elif UNIT == 4
    Vec16(p).v = uvec4(v[0], v[1], v[2], v[3]);
#else
    Vec16(p).v = uvec4(v[0], v[1]);
    Vec16(p + 16ul).v = uvec4(v[2], v[3]);
#endif
}
#else
void read(UINT u, out BITS v) {
    int64_t pos[NPICK], off = places(u, pos);
    v = BITS(REF(at(src, indexed(off, pos), UNIT)).v);
}

void write(UINT u, BITS v) { REF(dst + uint64_t(u) * UNIT).v = STORED(v); }
#endif

#ifdef FOUR
#define BLOCK WG
#else
#define BLOCK (2u * WG)
#endif

void main() {
    UINT first = UINT(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * BLOCK + gl_LocalInvocationIndex;
#ifdef FOUR
    BITS v[4];
    if (first >= total) return;
    read(first, v);
    write(first, v);
#else
    BITS v[2];
    [[unroll]] for (uint j = 0u; j < 2u; ++j)
        if (first + j * WG < total) read(first + j * WG, v[j]);
    [[unroll]] for (uint j = 0u; j < 2u; ++j)
        if (first + j * WG < total) write(first + j * WG, v[j]);
#endif
}
