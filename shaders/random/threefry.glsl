// Threefry-2x32 with 20 rounds (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011) and the
// counter layout of MLX's random bits. A key fills `bytes` bytes, that is W = ceil(bytes / 4) little-endian
// words; half = W / 2, odd = W % 2. Counter c in [0, half + odd) yields the words c and c + half + odd:
//     (word[c], word[c + half + odd]) = threefry(key, (c, c + half + odd))
// but with odd W the last counter gives one word only: word[half] = threefry(key, (half, 0)).x.
// When bytes is no multiple of 4, the last word is cut to its low bytes.
// SUMS_BY_PRODUCTS: a sum is a product by 1, which a compiler does not know, so that the units that multiply do it while
// those of integers rotate.
uvec2 threefry(uvec2 key, uvec2 count) {
#ifdef SUMS_BY_PRODUCTS
    const uint one = gl_NumWorkGroups.z;
#else
    const uint one = 1u;
#endif
    const uint rotation[2][4] = uint[2][4](uint[4](13u, 15u, 26u, 6u), uint[4](17u, 29u, 16u, 24u));
    uint ks[3] = uint[3](key.x, key.y, key.x ^ key.y ^ 0x1BD11BDAu);
    uvec2 v = count + key;
    [[unroll]] for (uint i = 0u; i < 5u; ++i) {
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint r = rotation[i & 1u][j];
            v.x = v.y * one + v.x;
            v.y = (v.y << r) | (v.y >> (32u - r));
            v.y ^= v.x;
        }
        v.x += ks[(i + 1u) % 3u];
        v.y += ks[(i + 2u) % 3u] + i + 1u;
    }
    return v;
}
