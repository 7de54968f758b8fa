// Angles of rotary embedding. Needs lib/math.glsl and a push block with the address `table` of float32 angles per
// position (WAVES: wavelengths) that lie `tstep` elements apart, and the `sign` of sines.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Float { float v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Int { int v; };

// Cosine and signed sine of the angle of pair i.
vec2 turn(uint i, float position) {
    float a = Float(table + uint64_t(int64_t(i) * tstep * 4l)).v;
#ifdef WAVES
    a = m_div(1.0, a);
#endif
    precise float angle = position * a;
    Reduced d = m_reduce(angle);
    return vec2(m_sin_quadrant(d.r, d.q + 1u, 0u), m_sin_quadrant(d.r, d.q, m_bits(angle)) * sign);
}
