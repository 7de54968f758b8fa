// Winograd's minimal filtering F(4x4, 3x3) (Lavin and Gray 2016, arXiv:1509.09308): 4 x 4 outputs from 6 x 6 inputs
// by 36 products a pair of channels in place of 144. Polynomials are multiplied by their values at 0, -a, a, -b, b and
// infinity with a = sqrt(1/2), b = sqrt(2): b^2 and a^2 are exact, powers of the points stay near one, and errors are
// a fifth of those of the usual points 1 and 2.
// The includer defines WIDTH, the channels of a thread (1 or 4); memory is then aligned to as many elements.
// Transformed data is ordered by place (row of values, value), tile or input channel, channel.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require

#if WIDTH == 4
#define PACK vec4
#else
#define PACK float
#endif
layout(buffer_reference, scalar, buffer_reference_align = 4 * WIDTH) buffer Packs { PACK v[]; };

#define POINT_A 0.70710678
#define POINT_B 1.41421356

// Inputs to values.
void values_of(inout PACK d[6]) {
    PACK even_a = d[4] - 2 * d[2], odd_a = d[3] - 2 * d[1];
    PACK even_b = fma(PACK(-0.5), d[2], d[4]), odd_b = fma(PACK(-0.5), d[1], d[3]);
    d[0] = fma(PACK(-2.5), d[2], d[0] + d[4]);
    d[5] = fma(PACK(-2.5), d[3], d[1] + d[5]);
    d[1] = fma(PACK(POINT_A), odd_a, even_a);
    d[2] = fma(PACK(-POINT_A), odd_a, even_a);
    d[3] = fma(PACK(POINT_B), odd_b, even_b);
    d[4] = fma(PACK(-POINT_B), odd_b, even_b);
}

// Sums of products of values to outputs, the first four.
void outputs_of(inout PACK m[6]) {
    PACK sum_a = m[1] + m[2], sum_b = m[3] + m[4], odd_a = m[1] - m[2], odd_b = m[3] - m[4];
    m[0] += sum_a + sum_b;
    m[1] = POINT_A * fma(PACK(2), odd_b, odd_a);
    m[2] = fma(PACK(2), sum_b, 0.5 * sum_a);
    m[3] = fma(PACK(2 * POINT_B), odd_b, fma(PACK(0.5 * POINT_A), odd_a, m[5]));
}

// Kernel elements to values, the Lagrange denominators of the points included.
void kernel_values(float g0, float g1, float g2, out float u[6]) {
    float even_a = fma(0.5, g2, g0), even_b = fma(2.0, g2, g0);
    u[0] = g0;
    u[1] = fma(POINT_A, g1, even_a) * (-2.0 / 3.0);
    u[2] = fma(-POINT_A, g1, even_a) * (-2.0 / 3.0);
    u[3] = fma(POINT_B, g1, even_b) * (1.0 / 6.0);
    u[4] = fma(-POINT_B, g1, even_b) * (1.0 / 6.0);
    u[5] = g2;
}
