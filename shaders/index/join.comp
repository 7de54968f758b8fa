#version 460
// Arrays side by side along an axis, or one inside of a filled array: the dense result is written once, 16 bytes an
// invocation, which run on from row to row. A row has `width` units of UNIT bytes; `parts` say which of them an array gives,
// in order, and those in between, and rows outside of `inside`, have the value. What lies in one array is read by
// vectors of memory and shifted, units beside a seam one by one.
#include "lib/codecs.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;

#define V (16u / UNIT)

// Axes before the row, the outermost first: the position of its first row that the arrays give, and how many they give.
struct Axis { uint size, before, inside, unused; };
struct Part { uint64_t src; uint start, end; int64_t strides[AXES]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Places { Axis axes[AXES]; Part parts[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Unit { STORED v; };

layout(push_constant, scalar) uniform Push {
    uint64_t dst, value, places;
    uint total, width, parts;  // units in all, units of a row
};

// 16 bytes of the value.
uvec4 filling() {
#if SIZE == 1
    return uvec4(uint(Raw1(value).v) * 0x01010101u);
#elif SIZE == 2
    return uvec4(uint(Raw2(value).v) * 0x00010001u);
#elif SIZE == 4
    return uvec4(Raw4(value).v);
#else
    return Raw8(value).v.xyxy;
#endif
}

// Where a column comes from: its part, and the column from which on that is another one.
Part part;
uint until;
bool find(uint col) {
    uint p = 0u, behind = parts;
    while (p < behind) {
        uint middle = (p + behind) / 2u;
        if (col < Places(places).parts[middle].end) behind = middle;
        else p = middle + 1u;
    }
    until = width;
    if (p == parts) return false;
    part = Places(places).parts[p];
    bool given = col >= part.start;
    until = given ? part.end : part.start;
    return given;
}

// Whether the arrays give row r, and its place along each axis.
bool places_of(uint r, out uint at_[AXES]) {
    bool given = true;
    [[unroll]] for (uint k = AXES; k > 0u; --k) {
        Axis axis = Places(places).axes[k - 1u];
        uint c = r;
        if (k > 1u) {
            r = c / axis.size;
            c -= r * axis.size;
        }
        at_[k - 1u] = c - axis.before;
        given = given && at_[k - 1u] < axis.inside;
    }
    return given;
}

// The address of a column of the part.
uint64_t address(uint at_[AXES], uint col) {
    int64_t off = int64_t(col - part.start);
    [[unroll]] for (uint k = 0u; k < AXES; ++k) off += int64_t(at_[k]) * part.strides[k];
    return at(part.src, off, UNIT);
}

// 16 bytes from any address that units may have. Both vectors of memory that are read have some of them.
uvec4 read(uint64_t p) {
    uint lead = uint(p & 15ul);
    uvec4 x = Vec16(p - uint64_t(lead)).v;
#if UNIT < 16
    if (lead != 0u) {
        uvec4 y = Vec16(p - uint64_t(lead) + 16ul).v;
        if ((lead & 8u) != 0u) {
            x = uvec4(x.zw, y.xy);
            y = y.zwzw;
        }
#if UNIT < 8
        if ((lead & 4u) != 0u) {
            x = uvec4(x.yzw, y.x);
            y = y.yzwx;
        }
#endif
#if UNIT < 4
        uint bits = (lead & 3u) * 8u;
        if (bits != 0u) x = (x >> bits) | (uvec4(x.yzw, y.x) << (32u - bits));
#endif
    }
#endif
    return x;
}

#include "index/units.glsl"

void main() {
    uint wg = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, i = wg * WG + gl_LocalInvocationID.x;
    uint first = i * V;
    if (i > (total - 1u) / V) return;
    uint row = first / width, col = first - row * width, at_[AXES];
    uvec4 v = value == 0ul ? uvec4(0u) : filling();
    bool given = places_of(row, at_);
    if (given) given = find(col);
    else until = width;
    if (V == 1u || col + V <= until) {
        if (given) v = read(address(at_, col));
    } else {
#if UNIT < 16
        [[dont_unroll]] for (uint k = 0u; k < V && first + k < total; ++k) {
            if (given) put(v, k, BITS(REF(address(at_, col)).v));
            if (++col == width) {
                col = 0u;
                given = places_of(++row, at_);
                until = 0u;
                if (!given) until = width;
            }
            if (col >= until) given = find(col);
        }
#endif
    }
    uint64_t q = dst + uint64_t(i) * 16ul;
#if UNIT < 16
    if (first + V > total) {
        [[dont_unroll]] for (uint k = 0u; first + k < total; ++k)
            Unit(q + uint64_t(k) * UNIT).v = STORED(taken(v, k));
        return;
    }
#endif
    Vec16(q).v = v;
}
