#version 460
// Up to eight rows of x times the transpose of a quantised matrix: TPR threads walk a row of codes in units of 32
// (16 with UNIT 16), each on R rows of codes at once, so that x is read once for R results, and add up by
// subgroups (SUBGROUP, its size is then fixed) or a shared tree. x is 16-byte aligned, K contiguous; parts of it
// that fit STAGE bytes go through shared memory, where the chunks that the lanes read at once lie side by side.
// One row of x is summed up per scale before the scale is applied; for more rows each value is scaled once.
// Defines: DTYPE, MODE, BITS, GROUP, TRANSPOSE 1, UNIT, TPR, R, VECTORS, STAGE, optionally ALIGNED (codes of a unit
// are read 16 or 8 bytes at a time), SUBGROUP, CLUSTERED. Grid: rows of codes, 1, batch.
// JOINED (src/vulkan/kernels/quantized/qmm_joined/mod.rs): one row of x times several matrices, whose workgroups follow each other. With NORM
// the row is normalised by the root of its mean square first, by each workgroup on its own. AFTER is a function of
// GLSL of a result (PAIR: of the results of both matrices, which a team then computes side by side) and its place.
// With PICKS each of the matrices is one of many by an index, and the same rows of all picks follow each other, so that
// those of a matrix that is picked twice are read while they are near.
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
#ifdef CLUSTERED
#extension GL_KHR_shader_subgroup_clustered : require
#endif
#endif

#include "quantized/qmm.glsl"
#define THREADS 256
layout(local_size_x = THREADS) in;
#ifdef JOINED
#include "quantized/joined.glsl"
#endif

#include "lib/team_sum.glsl"
#include "quantized/joined_results.glsl"

#include "quantized/units.glsl"
#if VECTORS == 1 && !defined(NORM)
#include "quantized/one_by_one.glsl"
#endif

#define PART_BYTES (VECTORS * TPR * CHUNKS * 16)
#if PART_BYTES * 4 <= STAGE
#define ITERS 4
#elif PART_BYTES * 2 <= STAGE
#define ITERS 2
#else
#define ITERS 1
#endif
// Units of a tile of K.
#define TILE (TPR * ITERS)
#if PART_BYTES <= STAGE
#define STAGED
// One word of padding keeps the writes apart.
shared uvec4 staged[VECTORS * CHUNKS * (TILE + 1)];
#define AT(v, c, unit) (((v) * CHUNKS + (c)) * (TILE + 1) + (unit))
#endif

#ifdef NORM
// One over the root of the mean square of x.
float inverse_root() {
    float sum = 0;
    [[dont_unroll]] for (uint c = gl_LocalInvocationIndex; c < K / V; c += THREADS)
        sum = square_sum(Chunks(p.x).v[c], sum);
    return root_of(sum);
}
#endif

void main() {
    uint team = gl_LocalInvocationIndex / TPR, lane = gl_LocalInvocationIndex % TPR;
#ifdef JOINED
#define LAST_ROW 0
#define ROW_STEP 0
    uint group = gl_WorkGroupID.x + p.tile0, n;
#ifdef PICKS
    uint batch = group % p.rows;
    group /= p.rows;
#endif
    uint matrix = matrix_of(group, TEAMS * R, n);
    uint row0 = (group * TEAMS + team) * EACH;
    uvec2 x = p.x, w[SIDES], s[SIDES], b[SIDES];
    [[unroll]] for (uint i = 0; i < SIDES; i++) {
        w[i] = p.w[matrix + i];
        s[i] = p.s[matrix + i];
        b[i] = p.b[matrix + i];
    }
    uint base = 0;
#ifdef PICKS
    uint pick = picked(p.w[2], batch, p.s[2].x, (p.s[2].y & 1u) != 0);
    x = advance(x, batch / (p.s[2].y >> 1), K, SHIFT);
    base = batch * n;
    [[unroll]] for (uint i = 0; i < SIDES; i++) {
        w[i] = advance(w[i], pick, n * ROW_WORDS, 2);
        s[i] = advance(s[i], pick, n * ROW_GROUPS, FACTOR_SHIFT);
        b[i] = advance(b[i], pick, n * ROW_GROUPS, FACTOR_SHIFT);
    }
#endif
#else
#define LAST_ROW (p.m - 1)
#define ROW_STEP p.x_rs
    uint row0 = ((gl_WorkGroupID.x + p.tile0) * TEAMS + team) * R, n = p.n;
    uint batch = gl_WorkGroupID.z + p.batch0, wi = pick_w(batch);
    uvec2 x = matrix_x(pick_x(batch)), w[1], s[1], b[1];
    w[0] = matrix_w(wi);
    s[0] = matrix_s(wi);
    b[0] = matrix_b(wi);
#endif
    uint units = CODE_COLS / UNIT;
#ifdef NORM
    float root = 0;
#endif

    float acc[R][VECTORS];
    [[unroll]] for (uint r = 0; r < R; r++)
        [[unroll]] for (uint v = 0; v < VECTORS; v++) acc[r][v] = 0;

    [[dont_unroll]] for (uint tile = 0; tile < units; tile += TILE) {
        uint next[R][UNIT_WORDS];
        load_codes(w, row0, n, min(tile + lane, units - 1), next);
#ifdef NORM
        if (tile == 0) root = inverse_root();
#endif
#ifdef STAGED
        if (tile > 0) barrier();
        [[unroll]] for (uint e0 = 0; e0 < VECTORS * CHUNKS * TILE; e0 += THREADS) {
            uint e = e0 + gl_LocalInvocationIndex, v = e / (CHUNKS * TILE), c = e % (CHUNKS * TILE);
            uint unit = c / CHUNKS;
            if (e < VECTORS * CHUNKS * TILE && tile + unit < units) {
                uvec4 chunk = Chunks(x).v[(min(v, LAST_ROW) * ROW_STEP + tile * UNIT) / V + c];
#ifdef NORM
                chunk = normalised(chunk, Chunks(p.norm).v[tile * UNIT / V + c], root);
#endif
                staged[AT(v, c % CHUNKS, unit)] = chunk;
            }
        }
        barrier();
#endif
        [[unroll]] for (uint it = 0; it < ITERS; it++) {
            uint u = tile + it * TPR + lane;
            uint words[R][UNIT_WORDS] = next;
            if (it + 1 < ITERS) load_codes(w, row0, n, min(u + TPR, units - 1), next);
            if (u >= units) continue;
#if VECTORS == 1
            uvec4 chunks[CHUNKS];
            [[unroll]] for (uint i = 0; i < CHUNKS; i++) {
#ifdef STAGED
                chunks[i] = staged[AT(0, i, it * TPR + lane)];
#else
                chunks[i] = Chunks(x).v[u * CHUNKS + i];
#endif
            }
            float one[R];
            [[unroll]] for (uint r = 0; r < R; r++) one[r] = acc[r][0];
            add_unit(s, b, row0, n, u, words, chunks, one);
            [[unroll]] for (uint r = 0; r < R; r++) acc[r][0] = one[r];
#else
            [[unroll]] for (uint h = 0; h < PACKS / RUN; h++) {
                float scale[R], bias[R];
                [[unroll]] for (uint r = 0; r < R; r++) {
                    uint g = factor_at(row0, r, n, u, h);
                    scale[r] = factor(s[r / EACH], g);
#if MODE == 0
                    bias[r] = factor(b[r / EACH], g);
#endif
                }
                [[unroll]] for (uint j = h * RUN; j < (h + 1) * RUN; j++) {
                    float q[R][8];
                    [[unroll]] for (uint r = 0; r < R; r++) {
                        uvec2 pack = uvec2(PACK_LOW(words[r], j), PACK_HIGH(words[r], j));
                        [[unroll]] for (uint e = 0; e < 8; e++) {
                            float y = code(pack, e);
#if MODE == 0
                            q[r][e] = fma(y, scale[r], bias[r]);
#else
                            q[r][e] = y * scale[r];
#endif
                        }
                    }
                    [[unroll]] for (uint v = 0; v < VECTORS; v++) {
                        [[unroll]] for (uint i = 0; i < 8 / V; i++) {
#ifdef STAGED
                            uvec4 c = staged[AT(v, j * (8 / V) + i, it * TPR + lane)];
#else
                            uvec4 c = Chunks(x).v[(min(v, LAST_ROW) * ROW_STEP + u * UNIT) / V + j * (8 / V) + i];
#endif
                            [[unroll]] for (uint e = 0; e < V; e++) {
                                float y = chunk_element(c, e);
                                [[unroll]] for (uint r = 0; r < R; r++)
                                    acc[r][v] = fma(q[r][i * V + e], y, acc[r][v]);
                            }
                        }
                    }
                }
            }
#endif
        }
    }

#ifdef JOINED
    float found[R];
#else
    uvec2 d = matrix_d(batch);
#endif
    [[unroll]] for (uint r = 0; r < R; r++) {
        [[unroll]] for (uint v = 0; v < VECTORS; v++) {
            float total = acc[r][v];
            TEAM_SUM(total)
#if VECTORS == 1 && !defined(NORM)
            if (lane == 0 && row0 + r % EACH < n && !is_finite(total))
                total = one_by_one(x, 0, w[r / EACH], s[r / EACH], b[r / EACH], row0 + r % EACH, CODE_COLS);
#endif
#ifdef JOINED
            found[r] = total;
#else
            if (lane == 0 && row0 + r < n && v < p.m) store_element(d, v * n + row0 + r, total);
#endif
        }
    }
#ifdef JOINED
    store_found(found, matrix, base, row0, n, lane);
#endif
}
