// Element codecs of the hand-written kernels. An element is stored as raw bits (uint8_t, uint16_t, uint or
// uvec2) and computed on as uint, int, uint64_t, int64_t, float or vec2. The host picks, per operand P:
// P_RAW (storage type), P_C (computation type), P_DEC / P_ENC (functions below), P_SIZE (bytes).
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require

#include "lib/half.glsl"

#define I64_LOW (-0x7fffffffffffffffl - 1l)
#define I64_HIGH 0x7fffffffffffffffl
#define U64_HIGH 0xfffffffffffffffful
#define U64_TOP_BIT 0x8000000000000000ul

#ifdef PROGRESS
#define OTHERS_WROTE coherent
#else
#define OTHERS_WROTE
#endif
layout(buffer_reference, scalar, buffer_reference_align = 16) OTHERS_WROTE buffer Vec16 { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 1) OTHERS_WROTE buffer Raw1 { uint8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) OTHERS_WROTE buffer Raw2 { uint16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) OTHERS_WROTE buffer Raw4 { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) OTHERS_WROTE buffer Raw8 { uvec2 v; };

uint dec_bool(uint b) { return b != 0u ? 1u : 0u; }
uint dec_u8(uint b) { return b; }
uint dec_u16(uint b) { return b; }
uint dec_u32(uint b) { return b; }
int dec_i8(uint b) { return int(b << 24) >> 24; }
int dec_i16(uint b) { return int(b << 16) >> 16; }
int dec_i32(uint b) { return int(b); }
float dec_f16(uint b) { return unpackHalf2x16(b).x; }
float dec_bf16(uint b) { return uintBitsToFloat(b << 16); }
float dec_f32(uint b) { return uintBitsToFloat(b); }
uint64_t dec_u64(uvec2 b) { return packUint2x32(b); }
int64_t dec_i64(uvec2 b) { return int64_t(packUint2x32(b)); }
vec2 dec_c64(uvec2 b) { return uintBitsToFloat(b); }

uint enc_bool(uint x) { return x != 0u ? 1u : 0u; }
uint enc_u8(uint x) { return x & 0xffu; }
uint enc_u16(uint x) { return x & 0xffffu; }
uint enc_u32(uint x) { return x; }
uint enc_i8(int x) { return uint(x) & 0xffu; }
uint enc_i16(int x) { return uint(x) & 0xffffu; }
uint enc_i32(int x) { return uint(x); }
uint enc_f32(float x) { return floatBitsToUint(x); }
uvec2 enc_u64(uint64_t x) { return unpackUint2x32(x); }
uvec2 enc_i64(int64_t x) { return unpackUint2x32(uint64_t(x)); }
uvec2 enc_c64(vec2 x) { return floatBitsToUint(x); }

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
// By its bits: a device may take subnormal numbers for zero.
bool is_zero(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0u; }

uint enc_f16(float x) { return f16_encode(x); }
uint enc_bf16(float x) { return bf16_encode(x); }

#if A_SIZE == 1
uint a_bits(uint64_t p) { return uint(Raw1(p).v); }
#elif A_SIZE == 2
uint a_bits(uint64_t p) { return uint(Raw2(p).v); }
#elif A_SIZE == 4
uint a_bits(uint64_t p) { return Raw4(p).v; }
#elif A_SIZE == 8
uvec2 a_bits(uint64_t p) { return Raw8(p).v; }
#endif

#ifdef A_SIZE
const uint A_VEC = 16u / A_SIZE;
A_C a_load(uint64_t p) { return A_DEC(a_bits(p)); }
// Element k of a 16-byte vector; k is a constant after unrolling.
A_C a_elem(uvec4 v, uint k) {
#if A_SIZE == 1
    return A_DEC((v[k >> 2] >> (8u * (k & 3u))) & 0xffu);
#elif A_SIZE == 2
    return A_DEC((v[k >> 1] >> (16u * (k & 1u))) & 0xffffu);
#elif A_SIZE == 4
    return A_DEC(v[k]);
#else
    return A_DEC(uvec2(v[2u * k], v[2u * k + 1u]));
#endif
}
#endif

#ifdef B_SIZE
void b_store(uint64_t p, B_C x) {
#if B_SIZE == 1
    Raw1(p).v = uint8_t(B_ENC(x));
#elif B_SIZE == 2
    Raw2(p).v = uint16_t(B_ENC(x));
#elif B_SIZE == 4
    Raw4(p).v = B_ENC(x);
#else
    Raw8(p).v = B_ENC(x);
#endif
}
const uint B_VEC = 16u / B_SIZE;
// Puts element k into a 16-byte vector that starts as zero.
void b_put(inout uvec4 v, uint k, B_C x) {
#if B_SIZE == 1
    v[k >> 2] |= B_ENC(x) << (8u * (k & 3u));
#elif B_SIZE == 2
    v[k >> 1] |= B_ENC(x) << (16u * (k & 1u));
#elif B_SIZE == 4
    v[k] = B_ENC(x);
#else
    uvec2 e = B_ENC(x);
    v[2u * k] = e.x;
    v[2u * k + 1u] = e.y;
#endif
}

// The 16-byte vector of B_VEC elements.
uvec4 b_vector(B_C x[B_VEC]) {
    uvec4 v = uvec4(0u);
#ifdef B_BF16
    // Rounding takes a third of the work where no element is NaN; the sum tells, and may err on the safe side.
    float sum = x[0];
    [[unroll]] for (uint k = 1u; k < B_VEC; ++k) sum += x[k];
    if (!is_nan(sum)) {
        [[unroll]] for (uint k = 0u; k < B_VEC; k += 2u) {
            uint lo = floatBitsToUint(x[k]), hi = floatBitsToUint(x[k + 1u]);
            lo += 0x7fffu + ((lo >> 16) & 1u);
            hi += 0x7fffu + ((hi >> 16) & 1u);
            v[k >> 1] = (lo >> 16) | (hi & 0xffff0000u);
        }
        return v;
    }
#endif
    [[unroll]] for (uint k = 0u; k < B_VEC; ++k) b_put(v, k, x[k]);
    return v;
}
#endif

// Offset in elements of a row-major linear index over dims[first .. first + n).
struct Dim { uint64_t size; int64_t stride; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Dims { Dim d[]; };

int64_t offset_of(uint64_t dims, uint first, uint n, uint i) {
    int64_t off = 0l;
    for (uint k = n; k > 1u; --k) {
        uint size = uint(Dims(dims).d[first + k - 1u].size), q = i / size;
        off += int64_t(i - q * size) * Dims(dims).d[first + k - 1u].stride;
        i = q;
    }
    return n == 0u ? 0l : off + int64_t(i) * Dims(dims).d[first].stride;
}

// The same of a list that row_dims made: the stride of a single axis stands in place of the address.
int64_t row_offset(uint64_t dims, uint n, uint i) {
    return n == 1u ? int64_t(i) * int64_t(dims) : offset_of(dims, 0u, n, i);
}

int64_t offset_of64(uint64_t dims, uint first, uint n, uint64_t i) {
    if (i <= 0xffffffffUL) return offset_of(dims, first, n, uint(i));
    int64_t off = 0l;
    for (uint k = n; k > 1u; --k) {
        uint64_t size = Dims(dims).d[first + k - 1u].size, q = i / size;
        off += int64_t(i - q * size) * Dims(dims).d[first + k - 1u].stride;
        i = q;
    }
    return n == 0u ? 0l : off + int64_t(i) * Dims(dims).d[first].stride;
}

uint64_t at(uint64_t base, int64_t elements, uint size) { return base + uint64_t(elements * int64_t(size)); }
