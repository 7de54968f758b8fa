#version 460
// Scans along the middle axis of contiguous (outer, n, inner) memory, one kernel per layout (MODE):
//   0 row      inner is 1; TPR lanes a row, NV vectors a lane and tile
//   1 column   LX lanes across columns, a vector each, WG / LX down the axis, NV steps a lane and tile
// A workgroup walks the tiles of its chunk and carries the running result. A long axis is cut into `chunks`:
// REDUCE writes the total of each chunk to scratch, PARTIAL scans those in place (exclusively), and CARRY starts
// each chunk from its entry. RECUR computes y[i] = a[i] y[i-1] + b[i]: composed affine maps are a scan too.
#if OP == 4 && A_KIND == 3
#include "lib/float_controls.glsl"
#endif
#include "lib/codecs.glsl"
#if OP == 4 && A_KIND == 3
#include "lib/math.glsl"
#include "lib/complex.glsl"
#elif OP == 4
#include "lib/expf.glsl"
#endif
#ifdef SG
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 256u;
layout(constant_id = 1) const uint TPR = 256u;  // LX in column mode

layout(push_constant, scalar) uniform Push {
    uint64_t src, second, dst, partial;  // second: b of a recurrence, whose a is src
    uint64_t units;                      // rows, or groups of columns over all outer parts
    uint64_t inner;
    uint n, chunk, chunks;               // chunk: steps (row: vectors) of a chunk
};

#define SUM 0
#define PROD 1
#define MIN 2
#define MAX 3
#define LSE 4
#define RECUR 5

vec2 c_times(vec2 a, vec2 b) { return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

// What is accumulated: ident, comb (of an earlier with a later part), pre (of an element) and post.
#if OP == RECUR && A_KIND == 3
#define ACC vec4  // y -> a y + b
ACC ident() { return vec4(1.0, 0.0, 0.0, 0.0); }
ACC comb(ACC f, ACC g) { return vec4(c_times(f.xy, g.xy), c_times(g.xy, f.zw) + g.zw); }
A_C post(ACC f) { return f.zw; }
#elif OP == RECUR
#define ACC vec2
ACC ident() { return vec2(1.0, 0.0); }
ACC comb(ACC f, ACC g) { return vec2(f.x * g.x, g.x * f.y + g.y); }
A_C post(ACC f) { return f.y; }
#elif OP == LSE && A_KIND == 3
#define ACC vec2
ACC ident() { return vec2(uintBitsToFloat(0xff800000u), 0.0); }
ACC comb(ACC a, ACC b) { return c_logaddexp(a, b); }
ACC pre(A_C x) { return x; }
A_C post(ACC x) { return x; }
#elif OP == LSE
#define ACC vec2  // the maximum, and the sum of exponentials relative to it
ACC ident() { return vec2(uintBitsToFloat(0xff800000u), 0.0); }
ACC pre(A_C x) { return is_nan(x) ? vec2(uintBitsToFloat(0xff800000u), x) : vec2(x, 1.0); }
ACC comb(ACC a, ACC b) {
    float e = a.x == b.x ? 1.0 : exp_f32(-abs(a.x - b.x));
    return a.x >= b.x ? vec2(a.x, a.y + b.y * e) : vec2(b.x, a.y * e + b.y);
}
A_C post(ACC a) { return a.y == 0.0 ? a.x : a.x + log_f32(a.y); }
#else
#define ACC A_C
ACC pre(A_C x) { return x; }
A_C post(ACC x) { return x; }
#if OP == SUM
ACC ident() { return ACC(0); }
ACC comb(ACC a, ACC b) { return a + b; }
#elif OP == PROD && A_KIND == 3
ACC ident() { return vec2(1.0, 0.0); }
ACC comb(ACC a, ACC b) { return c_times(a, b); }
#elif OP == PROD
ACC ident() { return ACC(1); }
ACC comb(ACC a, ACC b) { return a * b; }
#elif A_KIND == 3
ACC ident() { return vec2(uintBitsToFloat(OP == MAX ? 0xff800000u : 0x7f800000u)); }
bool c_nan(vec2 z) { return is_nan(z.x) || is_nan(z.y); }
bool c_before(vec2 a, vec2 b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }
ACC comb(ACC a, ACC b) { return !c_nan(a) && (c_nan(b) || (OP == MAX ? c_before(a, b) : c_before(b, a))) ? b : a; }
#elif A_KIND == 2
ACC ident() { return uintBitsToFloat(OP == MAX ? 0xff800000u : 0x7f800000u); }
ACC comb(ACC a, ACC b) { return !is_nan(a) && (is_nan(b) || (OP == MAX ? b > a : b < a)) ? b : a; }
#else
ACC ident() { return OP == MAX ? A_LOW : A_HIGH; }
ACC comb(ACC a, ACC b) { return OP == MAX ? max(a, b) : min(a, b); }
#endif
#endif

layout(buffer_reference, scalar, buffer_reference_align = ACC_ALIGN) buffer Partial { ACC v; };

#ifdef PARTIAL
#define ITEM_SIZE ACC_SIZE
const uint V = 1u;
#else
#define ITEM_SIZE A_SIZE
const uint V = VBYTES / A_SIZE;
#endif

#if VBYTES > A_SIZE && !defined(PARTIAL)
// A vector of VBYTES bytes at an address that is aligned to them, and its elements.
uvec4 load_bits(uint64_t p) {
#if VBYTES == 4
    return uvec4(Raw4(p).v, 0u, 0u, 0u);
#elif VBYTES == 8
    return uvec4(Raw8(p).v, 0u, 0u);
#else
    return Vec16(p).v;
#endif
}
void store_bits(uint64_t p, uvec4 v) {
#if VBYTES == 4
    Raw4(p).v = v.x;
#elif VBYTES == 8
    Raw8(p).v = v.xy;
#else
    Vec16(p).v = v;
#endif
}
#endif

// The V items from index i on, as many as lie below `end`; identities elsewhere. REVERSE turns them round when
// they follow each other along the scanned axis.
#if defined(REVERSE) && MODE == 0
#define PLACE(k) (V - 1u - (k))
#else
#define PLACE(k) (k)
#endif

ACC item(uint64_t i) {
#ifdef PARTIAL
    return Partial(src + i * ACC_SIZE).v;
#elif OP == RECUR
    return ACC(a_load(src + i * A_SIZE), a_load(second + i * A_SIZE));
#else
    return pre(a_load(src + i * A_SIZE));
#endif
}

void read(uint64_t i, uint64_t end, out ACC x[V]) {
#if VBYTES > A_SIZE && !defined(PARTIAL)
    if (i + V <= end) {
        uvec4 v = load_bits(src + i * A_SIZE);
#if OP == RECUR
        uvec4 w = load_bits(second + i * A_SIZE);
        [[unroll]] for (uint k = 0u; k < V; ++k) x[PLACE(k)] = ACC(a_elem(v, k), a_elem(w, k));
#else
        [[unroll]] for (uint k = 0u; k < V; ++k) x[PLACE(k)] = pre(a_elem(v, k));
#endif
        return;
    }
#endif
    [[unroll]] for (uint k = 0u; k < V; ++k) {
        x[PLACE(k)] = ident();
        if (i + k < end) x[PLACE(k)] = item(i + k);
    }
}

void write(uint64_t i, uint64_t end, ACC x[V]) {
#ifdef PARTIAL
    if (i < end) Partial(src + i * ACC_SIZE).v = x[0];
#else
#if VBYTES > A_SIZE
    if (i + V <= end) {
        uvec4 v = uvec4(0u);
        [[unroll]] for (uint k = 0u; k < V; ++k) b_put(v, k, post(x[PLACE(k)]));
        store_bits(dst + i * A_SIZE, v);
        return;
    }
#endif
    [[unroll]] for (uint k = 0u; k < V; ++k)
        if (i + k < end) b_store(dst + (i + k) * A_SIZE, post(x[PLACE(k)]));
#endif
}

#if MODE == 0
#ifdef SG
#if ACC_WIDE  // 64-bit integers travel as two words
ACC shuffle(ACC v, uint lane) {
    uvec2 w = unpackUint2x32(uint64_t(v));
    return ACC(packUint2x32(uvec2(subgroupShuffle(w.x, lane), subgroupShuffle(w.y, lane))));
}
#else
ACC shuffle(ACC v, uint lane) { return subgroupShuffle(v, lane); }
#endif
// A subgroup is always as large as the device's size, which the host knows.
const uint SUB = SG_SIZE < TPR ? SG_SIZE : TPR;
shared ACC parts[NV * (WG / SG_SIZE)];
#else
shared ACC line[WG];
#endif

// Turns v (one value a lane, for each of NV vectors that follow each other TPR lanes apart) into the
// combination of all before it in the tile, and returns that of the whole tile.
ACC tile_scan(inout ACC v[NV], uint lane) {
    ACC total = ident();
#ifdef SG
    uint s = lane % SUB, first = gl_SubgroupInvocationID - s;
    [[unroll]] for (uint j = 0u; j < NV; ++j)
        for (uint o = 1u; o < SUB; o <<= 1) {
            ACC y = shuffle(v[j], first + (s >= o ? s - o : s));
            if (s >= o) v[j] = comb(y, v[j]);
        }
    if (SUB < TPR) {
        const uint per = TPR / SUB;
        uint group = lane / SUB, mine = group % per, base = (group - mine) * NV;
        barrier();
        if (s == SUB - 1u)
            [[unroll]] for (uint j = 0u; j < NV; ++j) parts[base + j * per + mine] = v[j];
        barrier();
        [[unroll]] for (uint j = 0u; j < NV; ++j) {
            ACC before = ident();
            for (uint g = 0u; g < per; ++g) {
                if (g == mine) before = total;
                total = comb(total, parts[base + j * per + g]);
            }
            ACC y = shuffle(v[j], first + (s > 0u ? s - 1u : 0u));
            v[j] = s > 0u ? comb(before, y) : before;
        }
    } else {
        [[unroll]] for (uint j = 0u; j < NV; ++j) {
            ACC y = shuffle(v[j], first + (s > 0u ? s - 1u : 0u)), all = shuffle(v[j], first + SUB - 1u);
            v[j] = s > 0u ? comb(total, y) : total;
            total = comb(total, all);
        }
    }
#else
    uint t = lane % TPR, first = lane - t;
    [[unroll]] for (uint j = 0u; j < NV; ++j) {
        barrier();
        line[lane] = v[j];
        barrier();
        for (uint o = 1u; o < TPR; o <<= 1) {
            ACC y = line[t >= o ? lane - o : lane];
            barrier();
            if (t >= o) line[lane] = comb(y, line[lane]);
            barrier();
        }
        v[j] = t > 0u ? comb(total, line[lane - 1u]) : total;
        total = comb(total, line[first + TPR - 1u]);
    }
#endif
    return total;
}

void main() {
    uint64_t wg = uint64_t(gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
#ifdef SG
    uint lane = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
#else
    uint lane = gl_LocalInvocationIndex;
#endif
    uint t = lane % TPR, part = uint(wg % chunks);
    uint64_t row = wg / chunks * (WG / TPR) + lane / TPR;
    // Rows past the end go along, because every lane takes part in the exchanges.
    bool live = row < units;
    uint64_t base = min(row, units - 1ul) * n, end = base + n;
    uint vectors = (n + V - 1u) / V, last = min(vectors, (part + 1u) * chunk);
    ACC carry = ident();
#ifdef CARRY
    carry = Partial(partial + (min(row, units - 1ul) * chunks + part) * ACC_SIZE).v;
#endif
    for (uint q = part * chunk; q < last; q += NV * TPR) {
        ACC x[NV][V], v[NV];
        [[unroll]] for (uint j = 0u; j < NV; ++j) {
            uint i = q + j * TPR + t;
#ifdef REVERSE
            uint64_t at = base + uint64_t(i < last ? vectors - 1u - i : vectors) * V;
#else
            uint64_t at = base + uint64_t(i < last ? i : vectors) * V;
#endif
            read(at, end, x[j]);
        }
        [[unroll]] for (uint j = 0u; j < NV; ++j) {
            [[unroll]] for (uint k = 1u; k < V; ++k) x[j][k] = comb(x[j][k - 1u], x[j][k]);
            v[j] = x[j][V - 1u];
        }
        ACC total = tile_scan(v, lane);
#ifndef REDUCE
        [[unroll]] for (uint j = 0u; j < NV; ++j) {
            uint i = q + j * TPR + t;
            ACC before = comb(carry, v[j]);
#ifdef EXCLUSIVE
            [[unroll]] for (uint k = V - 1u; k > 0u; --k) x[j][k] = comb(before, x[j][k - 1u]);
            x[j][0] = before;
#else
            [[unroll]] for (uint k = 0u; k < V; ++k) x[j][k] = comb(before, x[j][k]);
#endif
#ifdef REVERSE
            uint64_t at = base + uint64_t(vectors - 1u - i) * V;
#else
            uint64_t at = base + uint64_t(i) * V;
#endif
            if (live && i < last) write(at, end, x[j]);
        }
#endif
        carry = comb(carry, total);
    }
#ifdef REDUCE
    if (live && t == 0u) Partial(partial + (row * chunks + part) * ACC_SIZE).v = carry;
#endif
}

#else  // columns
const uint LX = TPR, LY = WG / LX;
shared ACC parts[WG * V];

void main() {
    uint64_t wg = uint64_t(gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint lane = gl_LocalInvocationIndex, lx = lane % LX, ly = lane / LX;
    uint part = uint(wg % chunks);
    uint64_t unit = wg / chunks, groups = (inner + LX * V - 1ul) / (LX * V);
    uint64_t outer = unit / groups, col = (unit - outer * groups) * (LX * V) + lx * V;
    uint64_t base = outer * n * inner + col;
    bool live = col < inner;
    uint last = min(n, (part + 1u) * chunk);
    ACC carry[V];
    [[unroll]] for (uint k = 0u; k < V; ++k) {
        carry[k] = ident();
#ifdef CARRY
        if (live && col + k < inner)
            carry[k] = Partial(partial + ((outer * chunks + part) * inner + col + k) * ACC_SIZE).v;
#endif
    }
    for (uint q = part * chunk; q < last; q += NV * LY) {
        ACC x[NV][V], total[V];
        [[unroll]] for (uint j = 0u; j < NV; ++j) {
            uint i = q + ly * NV + j;
            bool inside = live && i < last;
#ifdef REVERSE
            uint64_t step = n - 1u - i;
#else
            uint64_t step = i;
#endif
            uint64_t at = inside ? base + step * inner : 0ul;
            read(at, inside ? at - col + inner : 0ul, x[j]);
        }
        [[unroll]] for (uint k = 0u; k < V; ++k) {
            [[unroll]] for (uint j = 1u; j < NV; ++j) x[j][k] = comb(x[j - 1u][k], x[j][k]);
            total[k] = x[NV - 1u][k];
        }
        barrier();
        [[unroll]] for (uint k = 0u; k < V; ++k) parts[k * WG + lane] = total[k];
        barrier();
        ACC before[V];
        if (LY <= 8u) {
            [[unroll]] for (uint k = 0u; k < V; ++k) {
                before[k] = carry[k];
                for (uint y = 0u; y < LY; ++y) {
                    if (y == ly) before[k] = carry[k];
                    carry[k] = comb(carry[k], parts[k * WG + y * LX + lx]);
                }
            }
        } else {
            for (uint o = LX; o < WG; o <<= 1) {
                ACC y[V];
                [[unroll]] for (uint k = 0u; k < V; ++k) y[k] = parts[k * WG + (lane >= o ? lane - o : lane)];
                barrier();
                if (lane >= o)
                    [[unroll]] for (uint k = 0u; k < V; ++k)
                        parts[k * WG + lane] = comb(y[k], parts[k * WG + lane]);
                barrier();
            }
            [[unroll]] for (uint k = 0u; k < V; ++k) {
                before[k] = ly > 0u ? comb(carry[k], parts[k * WG + lane - LX]) : carry[k];
                carry[k] = comb(carry[k], parts[k * WG + WG - LX + lx]);
            }
        }
#ifndef REDUCE
        [[unroll]] for (uint j = 0u; j < NV; ++j) {
            uint i = q + ly * NV + j;
            ACC y[V];
#ifdef EXCLUSIVE
            [[unroll]] for (uint k = 0u; k < V; ++k) y[k] = j > 0u ? comb(before[k], x[max(j, 1u) - 1u][k]) : before[k];
#else
            [[unroll]] for (uint k = 0u; k < V; ++k) y[k] = comb(before[k], x[j][k]);
#endif
#ifdef REVERSE
            uint64_t at = base + uint64_t(n - 1u - i) * inner;
#else
            uint64_t at = base + uint64_t(i) * inner;
#endif
            if (live && i < last) write(at, at - col + inner, y);
        }
#endif
    }
#ifdef REDUCE
    if (live && ly == 0u)
        [[unroll]] for (uint k = 0u; k < V; ++k)
            if (col + k < inner) Partial(partial + ((outer * chunks + part) * inner + col + k) * ACC_SIZE).v = carry[k];
#endif
}
#endif
