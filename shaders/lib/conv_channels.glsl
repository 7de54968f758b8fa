// Loads and stores of CHANNELS neighbouring channels: a whole chunk of V, 16-byte aligned, or one.

float[CHANNELS] channels_at(uvec2 base, uint e) {
    float x[CHANNELS];
#if CHANNELS == 1
    x[0] = load_element(base, e);
#else
    uvec4 chunk = Chunks(base).v[e / V];
    [[unroll]] for (uint i = 0; i < V; i++) x[i] = chunk_element(chunk, i);
#endif
    return x;
}

void store_channels(uvec2 base, uint e, float x[CHANNELS]) {
#if CHANNELS == 1
    store_element(base, e, x[0]);
#else
    [[unroll]] for (uint i = 0; i < V; i += 4) store_four(base, e + i, vec4(x[i], x[i + 1], x[i + 2], x[i + 3]));
#endif
}
