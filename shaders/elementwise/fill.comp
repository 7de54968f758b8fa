#version 460
// Fills a byte range with a 32-bit pattern, 16 bytes at a time where it is aligned to as many; the last bytes that make no whole word
// are written singly.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 256) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Vectors { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer Words { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) writeonly buffer Bytes { uint8_t v[]; };
layout(push_constant, scalar) uniform Push { Words dst; uvec2 bytes; uint value; };

// Element `i` of an array as an address of its own: sizes pass 2^32 bytes.
uvec2 advance(uvec2 base, uint words, uint shift) {
    uint lo = words << shift;
    uint hi = shift == 0u ? 0u : words >> (32u - shift);
    uint carry;
    lo = uaddCarry(base.x, lo, carry);
    return uvec2(lo, base.y + hi + carry);
}

void main() {
    uint words = (bytes.x >> 2) | (bytes.y << 30);
    uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    uint i = gl_GlobalInvocationID.x;
    uint tail = bytes.x & 3u;
    if (i < tail) {
        Bytes end = Bytes(advance(uvec2(Words(dst)), words, 2u));
        end.v[i] = uint8_t((value >> (8u * i)) & 255u);
    }
    uint vectors = (uvec2(dst).x & 15u) == 0u ? words >> 2 : 0u;
    for (uint n = i; n < vectors; n += step) Vectors(advance(uvec2(dst), n, 4u)).v = uvec4(value);
    for (uint n = 4u * vectors + i; n < words; n += step) Words(advance(uvec2(dst), n, 2u)).v[0] = value;
}
