#version 460
// A float32 operand as matmul_parts.comp reads it (parts/parts.glsl). A row is left to plain arithmetic where its numbers are
// too far from one, or too far from each other for both parts to hold enough of the smallest, and where one is no number.
// Push: c is the operand (strides c_rs of rows, c_cs along K, one of which is 1 or meets an axis of one), m rows of k; a what
// matmul_parts_extent.comp found in `flags` stretches of K, d the block of lda groups a row.
// Defines: ALONG where K is contiguous. Grid: blocks of 32 rows, blocks of 64 along K.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#define DTYPE 0
#include "matmul/matmul.glsl"
#include "parts/parts.glsl"

layout(local_size_x = 256) in;

// The exponent that the largest number of a row gets, and the largest exponent that a row may have before.
#define TOP 14
#define FAR 60
// How far exponents of a row may lie apart. The rest of a number ends at 2^-24, so that 23 digits are held of those within 27;
// sums of many numbers are that much less exact themselves.
#define APART(k) (25 + findMSB(k) / 2)

shared float factors[32];
#ifndef ALONG
shared float elements[64][33];
#endif

int exponent(uint bits) { return int(bits >> 23) - 127; }

void main() {
    uint self = gl_LocalInvocationIndex;
    uint row0 = (gl_WorkGroupID.x + p.tile0) * 32, k0 = gl_WorkGroupID.y * 64;
    if (self < 32) {
        uint row = min(row0 + self, p.m - 1);
        uvec2 extent = uvec2(0, 0xffffffffu);
        [[dont_unroll]] for (uint s = 0; s < p.flags; s++) {
            uvec2 e = Pairs(p.a).v[s * p.m + row];
            extent = uvec2(max(extent.x, e.x), min(extent.y, e.y));
        }
        int top = exponent(extent.x);
        bool zero = extent.x == 0;
        bool plain = !zero && (abs(top) > FAR || exponent(extent.y + 1) < top - APART(p.k));
        int by = zero || plain ? 0 : TOP - top;
        factors[self] = uintBitsToFloat(uint(by + 127) << 23);
        if (k0 == 0 && row0 + self < p.m) {
            ROW_FACTOR(p.d, row) = uintBitsToFloat(uint(127 - by) << 23);
            ROW_LEFT(p.d, row) = uint(plain);
            if (plain) atomicOr(ANY_LEFT(p.d), 1);
            if (row == 0) Pairs(p.d).v[0] = p.c;
        }
    }
    uint r = self / 8, part = self % 8;
    uint row = row0 + r, k = k0 + part * 8;
    float x[8];
#ifdef ALONG
    [[unroll]] for (uint i = 0; i < 8; i++)
        x[i] = row < p.m && k + i < p.k ? Floats(p.c).v[row * p.c_rs + k + i] : 0.0;
    barrier();
#else
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint at = row0 + self % 32, along = self / 32 + i * 8;
        elements[along][self % 32] =
            at < p.m && k0 + along < p.k ? Floats(p.c).v[at * p.c_rs + (k0 + along) * p.c_cs] : 0.0;
    }
    barrier();
    [[unroll]] for (uint i = 0; i < 8; i++) x[i] = elements[part * 8 + i][r];
#endif
    if (row >= p.m || k >= p.lda * 16) return;
    float by = factors[r];
    uvec4 near, rest;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        vec2 scaled = vec2(x[2 * i], x[2 * i + 1]) * by;
        uint word = f16_encode(scaled.x) | f16_encode(scaled.y) << 16;
        vec2 lacks = (scaled - unpackHalf2x16(word)) * 2048.0;
        near[i] = word;
        rest[i] = f16_encode(lacks.x) | f16_encode(lacks.y) << 16;
    }
    uint at = GROUPS_AT(p.m) + (row * p.lda + k / 16) * GROUP + part % 2;
    Chunks(p.d).v[at] = near;
    Chunks(p.d).v[at + 2] = rest;
}
