// Angles of rotary embedding. Needs lib/math.glsl and a push block with the address `table` of float32 angles per
// position (WAVES: wavelengths) that lie `tstep` elements apart, and the `sign` of sines.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Float { float v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Int { int v; };

// Angle of pair i for one position, or its wavelength.
float angle_of(uint i) { return Float(table + uint64_t(int64_t(i) * tstep * 4l)).v; }

// Cosine and signed sine of such an angle at a position.
vec2 turn_by(float unit, float position) {
#ifdef WAVES
    unit = m_div(1.0, unit);
#endif
    precise float angle = position * unit;
    Reduced d = m_reduce(angle);
    return vec2(m_sin_quadrant(d.r, d.q + 1u, 0u), m_sin_quadrant(d.r, d.q, m_bits(angle)) * sign);
}

vec2 turn(uint i, float position) { return turn_by(angle_of(i), position); }

// A pair, turned: of two products the one of the cosine is rounded by itself, so that all kernels give the same bits.
vec2 turn_pair(vec2 pair, vec2 by) {
    precise vec2 own = pair * by.x;
    precise vec2 result = vec2(fma(-pair.y, by.y, own.x), fma(pair.x, by.y, own.y));
    return result;
}
