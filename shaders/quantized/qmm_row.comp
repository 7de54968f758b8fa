#version 460
// One row of x times the transpose of a quantised matrix. TPR threads walk a row of codes in units of UNIT, each on R
// rows of codes at once, so that x is read once for R results; codes, scales and biases of DEPTH units lie in registers
// as they came before the first of them is used, so that as many bytes are on their way. x is staged in shared memory,
// as a whole or STEPS units a thread at a time, with the sums of its chunks, which biases multiply. Sums are added up by
// subgroups (SUBGROUP, its size is then fixed) and through shared memory. x is 16-byte aligned, K contiguous.
// Defines: DTYPE, MODE, BITS, GROUP, TRANSPOSE 1, UNIT, TPR, R, DEPTH, STEPS (a multiple of DEPTH), optionally WHOLE
// (all of x fits), ALIGNED (codes of a unit are read 16 or 8 bytes at a time), SUBGROUP. Grid: rows of codes, 1, batch.
// JOINED (src/vulkan/kernels/quantized/qmm_joined.rs): several matrices, whose workgroups follow each other. With NORM
// the row is normalised by the root of its mean square first, by each workgroup on its own. AFTER is a function of
// GLSL of a result (PAIR: of the results of both matrices, which a team then computes side by side) and its place.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif

#include "quantized/qmm.glsl"
#ifdef AFTER
#include "lib/float_controls.glsl"
#include "lib/types.glsl"
#ifdef AFTER_MATH
#include "lib/math.glsl"
#endif
AFTER
#endif

#define THREADS 256
layout(local_size_x = THREADS) in;
#include "quantized/units.glsl"

#ifdef SUBGROUP
#define WAYS (TPR > SUBGROUP ? TPR / SUBGROUP : 1)
#else
#define WAYS TPR
#endif
#define TEAMS (THREADS / TPR)
shared float sums[TEAMS * WAYS * R];
// Matrices that a team reads, and its rows of each.
#ifdef PAIR
#define SIDES 2
#else
#define SIDES 1
#endif
#define EACH (R / SIDES)

#define CHUNKS (UNIT / V)
// Units of x that are staged, with one of padding, which keeps the writes apart.
#define TILE (TPR * STEPS)
#define STRIDE (TILE + 1)
shared uvec4 staged[CHUNKS * STRIDE];
#if MODE == 0
shared float chunk_sums[CHUNKS * STRIDE];
#endif
// Chunks of x that a thread stages.
#define HELD ((CHUNKS * TILE + THREADS - 1) / THREADS)

// What a thread has of R rows: as it came, since whoever converts it waits for it.
struct Unit {
    uint words[R][UNIT_WORDS];
    uint scale[R][RUNS];
#if MODE == 0
    uint bias[R][RUNS];
#endif
};

uvec2 x, w[SIDES], s[SIDES], b[SIDES];
uint n, row0, lane;

// Unit u; beyond the last one, whose codes stand in for it, with factors of zero.
Unit load_unit(uint u, uint units) {
    Unit q;
    uint last = min(u, units - 1);
    [[unroll]] for (uint r = 0; r < R; r++) {
        uint row = min(row0 + r % EACH, n - 1);
        load_words(w[r / EACH], row * ROW_WORDS + last * UNIT_WORDS, q.words[r]);
        [[unroll]] for (uint h = 0; h < RUNS; h++) {
            uint g = row * ROW_GROUPS + (last * UNIT + h * RUN * 8) / GROUP;
            uint scale = factor_bits(s[r / EACH], g);
            q.scale[r][h] = u < units ? scale : 0;
#if MODE == 0
            uint bias = factor_bits(b[r / EACH], g);
            q.bias[r][h] = u < units ? bias : 0;
#endif
        }
    }
    return q;
}

// Adds the products of a unit of codes with the unit of x that is staged at `unit`.
void add(Unit q, uint unit, inout float acc[R]) {
    [[unroll]] for (uint h = 0; h < RUNS; h++) {
        float dots[R], sum = 0;
        [[unroll]] for (uint r = 0; r < R; r++) dots[r] = 0;
        [[unroll]] for (uint j = h * RUN; j < (h + 1) * RUN; j++) {
            float y[8];
            [[unroll]] for (uint i = 0; i < 8 / V; i++) {
                uint at = (j * (8 / V) + i) * STRIDE + unit;
                uvec4 chunk = staged[at];
                [[unroll]] for (uint e = 0; e < V; e++) y[i * V + e] = chunk_element(chunk, e);
#if MODE == 0
                sum += chunk_sums[at];
#endif
            }
            [[unroll]] for (uint r = 0; r < R; r++) {
                uvec2 pack = uvec2(PACK_LOW(q.words[r], j), PACK_HIGH(q.words[r], j));
                float values[8];
                codes(pack, values);
                [[unroll]] for (uint e = 0; e < 8; e++) dots[r] = fma(values[e], y[e], dots[r]);
            }
        }
        [[unroll]] for (uint r = 0; r < R; r++) {
            acc[r] = fma(factor_of(q.scale[r][h]), CODE_WHOLE * dots[r], acc[r]);
#if MODE == 0
            acc[r] = fma(factor_of(q.bias[r][h]), sum, acc[r]);
#endif
        }
    }
}

#ifdef JOINED
// As it would have been stored.
float rounded(float x) { return bits_to_float(float_to_bits(x)); }
#endif

#ifdef NORM
shared float squares[THREADS];

float square_sum(uvec4 chunk, float sum) {
    [[unroll]] for (uint e = 0; e < V; e++) {
        float y = chunk_element(chunk, e);
        sum = fma(y, y, sum);
    }
    return sum;
}

// One over the root of the mean square of x, of which each thread has summed up a part.
float inverse_root(float sum) {
    uint i = gl_LocalInvocationIndex;
#ifdef SUBGROUP
    sum = subgroupAdd(sum);
    if (subgroupElect()) squares[i / SUBGROUP] = sum;
    barrier();
    sum = 0;
    [[unroll]] for (uint g = 0; g < THREADS / SUBGROUP; g++) sum += squares[g];
#else
    squares[i] = sum;
    [[unroll]] for (uint half_ = THREADS / 2; half_ > 0; half_ /= 2) {
        barrier();
        if (i < half_) squares[i] += squares[i + half_];
    }
    barrier();
    sum = squares[0];
#endif
    return 1.0 / sqrt(sum / float(K) + uintBitsToFloat(EPS));
}

// Elements of x, normalised and rounded.
uvec4 normalised(uvec4 x, uvec4 weight, float root) {
    uint bits[V];
    [[unroll]] for (uint e = 0; e < V; e++)
        bits[e] = float_to_bits(chunk_element(x, e) * root * chunk_element(weight, e));
#if V == 4
    return uvec4(bits[0], bits[1], bits[2], bits[3]);
#else
    return uvec4(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16, bits[4] | bits[5] << 16, bits[6] | bits[7] << 16);
#endif
}
float root = 0;
#endif

// Stages units of x from `first` on; zeros behind the last one.
void stage(uint first, uint units) {
    uvec4 held[HELD];
    uint end = (units - first) * CHUNKS, from = first * CHUNKS;
    [[unroll]] for (uint i = 0; i < HELD; i++) {
        uint e = i * THREADS + gl_LocalInvocationIndex;
        held[i] = uvec4(0);
        if (e < end) held[i] = Chunks(x).v[from + e];
    }
#ifdef NORM
    uvec4 weight[HELD];
    [[unroll]] for (uint i = 0; i < HELD; i++) {
        uint e = i * THREADS + gl_LocalInvocationIndex;
        weight[i] = uvec4(0);
        if (e < end) weight[i] = Chunks(p.norm).v[from + e];
    }
#ifdef WHOLE
    float sum = 0;
    [[unroll]] for (uint i = 0; i < HELD; i++) sum = square_sum(held[i], sum);
    root = inverse_root(sum);
#endif
#endif
    [[unroll]] for (uint i = 0; i < HELD; i++) {
        uint e = i * THREADS + gl_LocalInvocationIndex;
        if (e < CHUNKS * TILE) {
            uint at = e % CHUNKS * STRIDE + e / CHUNKS;
#ifdef NORM
            if (e < end) held[i] = normalised(held[i], weight[i], root);
#endif
            staged[at] = held[i];
#if MODE == 0
            float sum = 0;
            [[unroll]] for (uint e = 0; e < V; e++) sum += chunk_element(held[i], e);
            chunk_sums[at] = sum;
#endif
        }
    }
}

void main() {
    uint team = gl_LocalInvocationIndex / TPR;
    lane = gl_LocalInvocationIndex % TPR;
#ifdef JOINED
    uint group = gl_WorkGroupID.x, matrix = 0;
    n = N0;
#if JOINED > 1 && !defined(PAIR)
    const uint span = TEAMS * R;
    if (group >= (N0 + span - 1) / span) {
        group -= (N0 + span - 1) / span;
        matrix = 1;
        n = N1;
    }
#endif
#if JOINED > 2
    if (matrix == 1 && group >= (N1 + span - 1) / span) {
        group -= (N1 + span - 1) / span;
        matrix = 2;
        n = N2;
    }
#endif
    row0 = (group * TEAMS + team) * EACH;
    x = p.x;
    [[unroll]] for (uint i = 0; i < SIDES; i++) {
        w[i] = p.w[matrix + i];
        s[i] = p.s[matrix + i];
        b[i] = p.b[matrix + i];
    }
#else
    n = p.n;
    row0 = ((gl_WorkGroupID.x + p.tile0) * TEAMS + team) * R;
    uint batch = gl_WorkGroupID.z + p.batch0, wi = pick_w(batch);
    x = matrix_x(pick_x(batch));
    w[0] = matrix_w(wi);
    s[0] = matrix_s(wi);
    b[0] = matrix_b(wi);
#endif
    uint units = CODE_COLS / UNIT, steps = (units + TPR - 1) / TPR;

    float acc[R];
    [[unroll]] for (uint r = 0; r < R; r++) acc[r] = 0;
    Unit ahead[DEPTH];
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
        if (d == 0 || d < steps) ahead[d] = load_unit(d * TPR + lane, units);
#if defined(NORM) && !defined(WHOLE)
    float sum = 0;
    [[dont_unroll]] for (uint c = gl_LocalInvocationIndex; c < K / V; c += THREADS)
        sum = square_sum(Chunks(x).v[c], sum);
    root = inverse_root(sum);
#endif
#ifdef WHOLE
    const uint tile = 0;
#else
    [[dont_unroll]] for (uint tile = 0; tile < steps; tile += STEPS)
#endif
    {
        if (tile > 0) barrier();
        stage(tile * TPR, units);
        barrier();
        uint most = min(STEPS, steps - tile);
        [[dont_unroll]] for (uint first = 0; first < most; first += DEPTH) {
            [[unroll]] for (uint d = 0; d < DEPTH; d++) {
                uint step = first + d, next = tile + step + DEPTH;
                if (d == 0 || step < most) {
                    add(ahead[d], step * TPR + lane, acc);
                    if (next < steps) ahead[d] = load_unit(next * TPR + lane, units);
                }
            }
        }
    }

    // A lane for each row of the team; its sums are there for all of them.
    float found[R];
#ifdef SUBGROUP
    [[unroll]] for (uint r = 0; r < R; r++) found[r] = subgroupAdd(acc[r]);
#else
    [[unroll]] for (uint r = 0; r < R; r++) found[r] = acc[r];
#endif
    if (WAYS > 1) {
        uint way = team * WAYS + lane / (TPR / WAYS);
        if (lane % (TPR / WAYS) == 0) {
            [[unroll]] for (uint r = 0; r < R; r++) sums[way * R + r] = found[r];
        }
        barrier();
        [[unroll]] for (uint r = 0; r < R; r++) {
            found[r] = 0;
            for (uint i = 0; i < WAYS; i++) found[r] += sums[(team * WAYS + i) * R + r];
        }
    }
    float own = found[0];
    [[unroll]] for (uint r = 1; r < EACH; r++) own = lane == r ? found[r] : own;
#ifdef PAIR
    float other = found[EACH];
    [[unroll]] for (uint r = 1; r < EACH; r++) other = lane == r ? found[r + EACH] : other;
#endif
    uint row = row0 + lane;
    if (lane >= EACH || row >= n) return;
#ifndef JOINED
    store_element(matrix_d(batch), row, own);
#elif defined(PAIR)
    store_element(p.d[0], row, after(rounded(own), rounded(other), row));
#elif defined(AFTER)
    store_element(p.d[0], row, after(rounded(own), row));
#else
    store_element(p.d[matrix], row, own);
#endif
}
