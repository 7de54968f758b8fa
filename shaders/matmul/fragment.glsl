// Products of 16 x 16 matrices that a subgroup holds together, loaded from and stored to the shared array `mem` of
// 16-byte words: offsets and strides count words. PLAIN does the same by ordinary arithmetic in groups of LANES
// invocations, so that kernels can be tested where there are no matrix instructions. HELD: the host has seen that sums
// are spread over 32 lanes as below, and left operands likewise, so that sums become an operand where they are.
#ifdef PLAIN
uint frag_group() { return gl_LocalInvocationIndex / LANES; }
uint frag_lane() { return gl_LocalInvocationIndex % LANES; }
#else
uint frag_group() { return gl_SubgroupID; }
uint frag_lane() { return gl_SubgroupInvocationID; }
#endif
#ifdef HELD
// Row and column of element i of a lane.
uint held_row(uint i) { return frag_lane() / 4u + ((i & 4u) << 1); }
uint held_col(uint i) { return (frag_lane() & 3u) * 2u + (i & 1u) + ((i & 2u) << 2); }
#endif
#ifdef PLAIN
const uint OWN = 256u / LANES;
#ifdef HELD
#define own(i) (held_row(i) * 16u + held_col(i))
#else
#define own(i) (frag_lane() + (i) * LANES)
#endif
struct Side { float v[256]; };
struct Sums { float v[OWN]; };
float frag_half(uint at, uint i) { return A_DEC((mem[at + i / 8u][(i % 8u) >> 1] >> (16u * (i & 1u))) & 0xffffu); }
void load_left(out Side m, uint at, uint stride) {
    [[dont_unroll]] for (uint e = 0u; e < 256u; ++e) m.v[e] = frag_half(at + e / 16u * stride, e % 16u);
}
void load_right(out Side m, uint at, uint stride) { load_left(m, at, stride); }
void load_right_transposed(out Side m, uint at, uint stride) {
    [[dont_unroll]] for (uint e = 0u; e < 256u; ++e) m.v[e] = frag_half(at + e % 16u * stride, e / 16u);
}
void load_sums(out Sums m, uint at, uint stride) {
    [[dont_unroll]] for (uint i = 0u; i < OWN; ++i) {
        uint e = own(i), c = e % 16u;
        m.v[i] = uintBitsToFloat(mem[at + e / 16u * stride + c / 4u][c % 4u]);
    }
}
void store_sums(Sums m, uint at, uint stride) {
    [[dont_unroll]] for (uint i = 0u; i < OWN; ++i) {
        uint e = own(i), c = e % 16u;
        mem[at + e / 16u * stride + c / 4u][c % 4u] = floatBitsToUint(m.v[i]);
    }
}
void zero_sums(out Sums m) {
    [[dont_unroll]] for (uint i = 0u; i < OWN; ++i) m.v[i] = 0.0;
}
void scale_sums(inout Sums m, Sums by) {
    [[dont_unroll]] for (uint i = 0u; i < OWN; ++i) m.v[i] *= by.v[i];
}
void shrink_sums(inout Sums m, float by) {
    [[dont_unroll]] for (uint i = 0u; i < OWN; ++i) m.v[i] *= by;
}
void add_sums(inout Sums m, Sums other) {
    [[dont_unroll]] for (uint i = 0u; i < OWN; ++i) m.v[i] += other.v[i];
}
void multiply(Side a, Side b, inout Sums m) {
    [[dont_unroll]] for (uint i = 0u; i < OWN; ++i) {
        uint e = own(i);
        [[dont_unroll]] for (uint k = 0u; k < 16u; ++k) m.v[i] = fma(a.v[e / 16u * 16u + k], b.v[k * 16u + e % 16u], m.v[i]);
    }
}
#ifdef HELD
#define element(m, i) (m).v[i]
shared float sides[THREADS / LANES * 256u];
void left_of_sums(out Side m, Sums s) {
    uint at = frag_group() * 256u;
    barrier();
    [[dont_unroll]] for (uint i = 0u; i < OWN; ++i) sides[at + own(i)] = s.v[i];
    barrier();
    [[dont_unroll]] for (uint e = 0u; e < 256u; ++e) m.v[e] = A_DEC(B_ENC(sides[at + e]));
}
#endif
#define LEFT Side
#define RIGHT Side
#define SUMS Sums
#else
#define LEFT coopmat<ELEMENT, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define RIGHT coopmat<ELEMENT, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define SUMS coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define load_left(m, at, stride) coopMatLoad(m, mem, at, stride, gl_CooperativeMatrixLayoutRowMajor)
#define load_right(m, at, stride) coopMatLoad(m, mem, at, stride, gl_CooperativeMatrixLayoutRowMajor)
#define load_right_transposed(m, at, stride) coopMatLoad(m, mem, at, stride, gl_CooperativeMatrixLayoutColumnMajor)
#define load_sums(m, at, stride) coopMatLoad(m, mem, at, stride, gl_CooperativeMatrixLayoutRowMajor)
#define store_sums(m, at, stride) coopMatStore(m, mem, at, stride, gl_CooperativeMatrixLayoutRowMajor)
#define zero_sums(m) m = SUMS(0.0)
#define scale_sums(m, by) m = m * by
#define shrink_sums(m, by) m = m * by
#define add_sums(m, other) m = m + other
#define multiply(a, b, m) m = coopMatMulAdd(a, b, m)
#ifdef HELD
#define element(m, i) m[i]
#if DTYPE == 2
// Numbers are bfloat16 before they are converted: that rounds to zero where NVIDIA's driver does it.
#define nearest_half(x) uintBitsToFloat(bf16_encode(x) << 16)
#else
#define nearest_half(x) (x)
#endif
#define left_of_sums(m, s) [[unroll]] for (uint at_ = 0u; at_ < 8u; ++at_) m[at_] = ELEMENT(nearest_half(s[at_]))
#endif
#endif
