#version 460
// The elements of each row whose ranks are FROM to FROM + COUNT, as sorting has them: their places, and numbers at those
// places. A workgroup has a row, in which every element counts those before it; rows are short.
//   SOFT       the row is its softmax, rounded as if it had been stored
//   APART      numbers come from another row than the keys (dtype N)
//   NEGATED    ranks are those of the negative elements
//   BEFORE     steps that make key and number, of dtypes A and N, of an element `a0` of dtype R in column `col`
//   AFTER      what becomes of the chosen numbers: 1 divided by their sum, 2 their softmax, 3 what BEHIND returns: steps
//              over such a number `a0`, and, with SUMS, the sum `a1` of all of them
//   OTHERS     how many further arrays such steps (AROUND) read
// Numbers are rounded to dtype N where single kernels would round them; what is stored has dtype B.
#include "lib/float_controls.glsl"
#include "lib/codecs.glsl"
#ifdef AROUND
#include "lib/types.glsl"
#endif
#include "lib/math.glsl"
#include "lib/expf.glsl"
#include "sort/order.glsl"
#ifdef SG
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef PROGRESS
#extension GL_EXT_buffer_reference_uvec2 : require
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WG = 128u;
layout(constant_id = 1) const uint FROM = 0u;
layout(constant_id = 2) const uint COUNT = 1u;

#include "lib/progress.glsl"
layout(push_constant, scalar) uniform Push {
    uint64_t keys, numbers, places, chosen;
#ifdef OTHERS
    uint64_t others[OTHERS];
#endif
    uint rows, n;
    PROGRESS_WORDS
};

#ifdef SOFT
#define TPR WG
#define ACC float
bool summing;
float comb(float a, float b) { return summing ? a + b : max(a, b); }
#ifdef SG
float sg_xor(float v, uint m) { return subgroupShuffleXor(v, m); }
#endif
#include "lib/group.glsl"
#endif

#define NEG_INF uintBitsToFloat(0xff800000u)
#define AHEAD 16u  // divides what workgroups hold
shared uint ranked[WG * ITEMS];
#if AFTER
shared float taken[COUNT];
#endif

#if N_SIZE == 2
uint n_bits(uint64_t p) { return uint(Raw2(p).v); }
#else
uint n_bits(uint64_t p) { return Raw4(p).v; }
#endif
float n_rounded(float x) { return N_DEC(N_ENC(x)); }

#ifdef BEFORE
#if R_SIZE == 2
float element(uint64_t p) { return R_DEC(uint(Raw2(p).v)); }
#else
float element(uint64_t p) { return R_DEC(Raw4(p).v); }
#endif
void before(float a0, uint col, out float key, out float number) { BEFORE }
#endif
#ifdef BEHIND
float behind(float a0, float a1) { BEHIND }
#endif

#if AFTER
// The numbers of the row after all are chosen.
float followed(uint i) {
    float x = taken[i], sum = 0.0;
#if AFTER == 1
    [[dont_unroll]] for (uint k = 0u; k < COUNT; ++k) sum += taken[k];
    return m_div(x, n_rounded(sum));
#elif AFTER == 3
#ifdef SUMS
    [[dont_unroll]] for (uint k = 0u; k < COUNT; ++k) sum += taken[k];
    sum = n_rounded(sum);
#endif
    return behind(x, sum);
#else
    float top = taken[0];
    [[dont_unroll]] for (uint k = 1u; k < COUNT; ++k) top = max(top, taken[k]);
    [[dont_unroll]] for (uint k = 0u; k < COUNT; ++k) sum += exp_f32(taken[k] - top);
    return exp_f32(x - top) * (1.0 / sum);
#endif
}
#endif

void choose() {
    uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (row >= rows) return;
#ifdef SOFT
    uint lane = lane_id();
#else
    uint lane = gl_LocalInvocationIndex;
#endif
    uint64_t first = uint64_t(row) * n, out_ = uint64_t(row) * COUNT;
    uint bits[ITEMS], key[ITEMS], rank[ITEMS];
#ifdef BEFORE
    float made[ITEMS];
#endif
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j) {
        uint i = lane + j * WG;
#ifdef BEFORE
        float by = 0.0;
        made[j] = 0.0;
        if (i < n) before(element(keys + (first + i) * R_SIZE), i, by, made[j]);
        bits[j] = A_ENC(by);
#else
        bits[j] = i < n ? a_bits(keys + (first + i) * A_SIZE) : 0u;
#endif
        rank[j] = 0u;
    }
#ifdef SOFT
    float x[ITEMS], m = NEG_INF, s = 0.0;
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j) {
        x[j] = lane + j * WG < n ? A_DEC(bits[j]) : NEG_INF;
        m = max(m, x[j]);
    }
    summing = false;
    m = group_reduce(m, lane);
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j) {
        x[j] = exp_f32(x[j] - m);
        s += x[j];
    }
    summing = true;
    float f = 1.0 / group_reduce(s, lane);
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j) bits[j] = A_ENC(x[j] * f);
#endif
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j) {
        uint i = lane + j * WG;
#ifdef NEGATED
        key[j] = key_of(bits[j] ^ SIGN);
#else
        key[j] = key_of(bits[j]);
#endif
        // What lies behind the row comes before none of it.
        if (i >= n) key[j] = KEY_TOP;
        ranked[i] = key[j];
    }
    barrier();
    // Some loads at once: nobody else on the processor hides how long one takes.
    [[dont_unroll]] for (uint k = 0u; k < n; k += AHEAD) {
        uint other[AHEAD];
        [[unroll]] for (uint a = 0u; a < AHEAD; ++a) other[a] = ranked[k + a];
        [[unroll]] for (uint a = 0u; a < AHEAD; ++a)
            [[unroll]] for (uint j = 0u; j < ITEMS; ++j)
                rank[j] += uint(other[a] < key[j] || (other[a] == key[j] && k + a < lane + j * WG));
    }
    [[unroll]] for (uint j = 0u; j < ITEMS; ++j) {
        uint i = lane + j * WG, place = rank[j] - FROM;
        if (i >= n || place >= COUNT) continue;
        Raw4(places + (out_ + place) * 4ul).v = i;
#ifdef APART
        float number = N_DEC(n_bits(numbers + (first + i) * N_SIZE));
#elif defined(BEFORE)
        float number = made[j];
#else
        float number = A_DEC(bits[j]);
#endif
#if AFTER
        taken[place] = number;
#else
        b_store(chosen + (out_ + place) * B_SIZE, number);
#endif
    }
#if AFTER
    barrier();
    [[dont_unroll]] for (uint i = lane; i < COUNT; i += WG) b_store(chosen + (out_ + i) * B_SIZE, followed(i));
#endif
}

void main() {
#ifdef PROGRESS
    await_others(progress_number, progress_awaited, progress_waits);
    choose();
    tell_others(progress_number);
#else
    choose();
#endif
}
