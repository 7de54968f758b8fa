// Where a convolution reads its input. An element belongs to an output position (numbered batch, z, y, x) and to
// a kernel element with a channel (numbered z, y, x, channel): it is the input element where the two meet, or
// zero outside the input. Included after matmul/matmul.glsl by the kernels of convolutions.
// Defines: AXES (1 to 3 spatial axes), STRIDED (rows of the result are not evenly spaced), FIXED (geometry in
// specialisation constants; else in memory at p.c).

#ifdef FIXED
layout(constant_id = 0) const int g_size_z = 1;
layout(constant_id = 1) const int g_size_y = 1;
layout(constant_id = 2) const int g_size_x = 1;
layout(constant_id = 3) const int g_step_z = 0;
layout(constant_id = 4) const int g_step_y = 0;
layout(constant_id = 5) const int g_step_x = 0;
layout(constant_id = 6) const int g_stride_z = 1;
layout(constant_id = 7) const int g_stride_y = 1;
layout(constant_id = 8) const int g_stride_x = 1;
layout(constant_id = 9) const int g_low_z = 0;
layout(constant_id = 10) const int g_low_y = 0;
layout(constant_id = 11) const int g_low_x = 0;
layout(constant_id = 12) const int g_dilation_z = 1;
layout(constant_id = 13) const int g_dilation_y = 1;
layout(constant_id = 14) const int g_dilation_x = 1;
layout(constant_id = 15) const int g_kernel_z = 1;
layout(constant_id = 16) const int g_kernel_y = 1;
layout(constant_id = 17) const int g_kernel_x = 1;
layout(constant_id = 18) const int g_out_z = 1;
layout(constant_id = 19) const int g_out_y = 1;
layout(constant_id = 20) const int g_out_x = 1;
layout(constant_id = 21) const int g_channels = 1;
layout(constant_id = 22) const int g_batch_step = 0;
layout(constant_id = 23) const int g_result_batch = 0;
layout(constant_id = 24) const int g_result_z = 0;
layout(constant_id = 25) const int g_result_y = 0;
layout(constant_id = 26) const int g_result_x = 0;
#define GEO(name, i) g_##name
#define DIVIDE(x, name, i) ((x) / uint(g_##name))
#else
#define GEOMETRY 39
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Geometry { int v[GEOMETRY]; };
int geometry[GEOMETRY];
#define GEO(name, i) geometry[i]
// x / d for x below 2^31, by a multiplier and a shift that the host made for d.
uint divide(uint x, int multiplier, int shift) {
    uint hi, lo;
    umulExtended(2 * x, uint(multiplier), hi, lo);
    return hi >> uint(shift);
}
#define DIVIDE(x, name, i) divide(x, geometry[i], geometry[i + 1])
#endif

void load_geometry() {
#ifndef FIXED
    [[unroll]] for (uint i = 0; i < GEOMETRY; i++) geometry[i] = Geometry(p.c).v[i];
#endif
}

// Where the input is read: an offset, and the position that must lie inside. Both are sums of a part of the
// output position and a part of the kernel element.
struct Site {
    int offset;
    int x;
#if AXES > 1
    int y;
#endif
#if AXES > 2
    int z;
#endif
};

Site site_at(int offset, ivec3 at) {
    offset += at.x * GEO(step_x, 5);
#if AXES > 1
    offset += at.y * GEO(step_y, 4);
#endif
#if AXES > 2
    offset += at.z * GEO(step_z, 3);
#endif
    Site s;
    s.offset = offset;
    s.x = at.x;
#if AXES > 1
    s.y = at.y;
#endif
#if AXES > 2
    s.z = at.z;
#endif
    return s;
}

// As the x of one site it keeps the sum of two outside.
#define FAR_OUTSIDE (-0x40000000)

uvec4 output_position(uint i) {
    uint q = DIVIDE(i, out_x, 33);
    uvec4 at = uvec4(i - q * GEO(out_x, 20), 0, 0, q);
#if AXES > 1
    q = DIVIDE(at.w, out_y, 35);
    at = uvec4(at.x, at.w - q * GEO(out_y, 19), 0, q);
#endif
#if AXES > 2
    q = DIVIDE(at.w, out_z, 37);
    at = uvec4(at.xy, at.w - q * GEO(out_z, 18), q);
#endif
    return at;
}

Site output_site(uint i) {
    ivec4 at = ivec4(output_position(i));
    ivec3 from = ivec3(at.x * GEO(stride_x, 8) - GEO(low_x, 11), 0, 0);
#if AXES > 1
    from.y = at.y * GEO(stride_y, 7) - GEO(low_y, 10);
#endif
#if AXES > 2
    from.z = at.z * GEO(stride_z, 6) - GEO(low_z, 9);
#endif
    return site_at(at.w * GEO(batch_step, 22), from);
}

Site kernel_site(uint i) {
    uint k = DIVIDE(i, channels, 27), q = k;
    int channel = int(i - k * GEO(channels, 21));
    ivec3 at = ivec3(0);
#if AXES > 1
    q = DIVIDE(k, kernel_x, 29);
    at.x = int(k - q * GEO(kernel_x, 17)) * GEO(dilation_x, 14);
#else
    at.x = int(k) * GEO(dilation_x, 14);
#endif
#if AXES == 2
    at.y = int(q) * GEO(dilation_y, 13);
#elif AXES == 3
    k = DIVIDE(q, kernel_y, 31);
    at.y = int(q - k * GEO(kernel_y, 16)) * GEO(dilation_y, 13);
    at.z = int(k) * GEO(dilation_z, 12);
#endif
    return site_at(channel, at);
}

// Where an output position meets a kernel element.
Site met(Site o, Site k) {
    o.offset += k.offset;
    o.x += k.x;
#if AXES > 1
    o.y += k.y;
#endif
#if AXES > 2
    o.z += k.z;
#endif
    return o;
}

// The site so many elements further on along x.
Site moved(Site s, int by) {
    s.offset += by * GEO(step_x, 5);
    s.x += by;
    return s;
}

// Without branches.
bool inside(Site s) {
#if AXES == 1
    return uint(s.x) < uint(GEO(size_x, 2));
#elif AXES == 2
    return all(lessThan(uvec2(s.x, s.y), uvec2(GEO(size_x, 2), GEO(size_y, 1))));
#else
    return all(lessThan(uvec3(s.x, s.y, s.z), uvec3(GEO(size_x, 2), GEO(size_y, 1), GEO(size_z, 0))));
#endif
}

// Offset of a row of the result.
uint result_row(uint row) {
#ifdef STRIDED
    uvec4 at = output_position(row);
    uint offset = at.w * GEO(result_batch, 23) + at.x * GEO(result_x, 26);
#if AXES > 1
    offset += at.y * GEO(result_y, 25);
#endif
#if AXES > 2
    offset += at.z * GEO(result_z, 24);
#endif
    return offset;
#else
    return row * p.d_rs;
#endif
}
#define RESULT_ROW(row) result_row(row)
#define RESULT(row, col) (result_row(row) + (col))
