#version 460
// Whether sums of products keep subnormal numbers of float32, which qmm_stream.comp makes of codes: lane i multiplies code i,
// masked at each of six places, by a power of two whose bits are `up`, adds `zero` and writes what it got.
#include "lib/codecs.glsl"
#include "lib/float_controls.glsl"
layout(local_size_x = 16) in;

layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint up, zero;
};

void main() {
    uint lane = gl_LocalInvocationIndex;
    [[unroll]] for (uint place = 0u; place < 6u; ++place) {
        float y = fma(uintBitsToFloat(lane << (4u * place)), uintBitsToFloat(up), uintBitsToFloat(zero));
        Raw4(dst + (6u * lane + place) * 4ul).v = floatBitsToUint(y);
    }
}
