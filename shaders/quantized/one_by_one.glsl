// A result of a product with a quantised matrix as the matrix of its values gives it, for kernels that multiply codes and
// biases apart: infinities, and sums of codes beyond the largest number, are NaN there whose share cancels. Needs
// quantized/qmm.glsl, TRANSPOSE 1.

bool is_finite(float y) { return (floatBitsToUint(y) & 0x7f800000u) != 0x7f800000u; }

// The row of x whose first element is `first` times a row of codes, of `cols`.
float one_by_one(uvec2 x, uint first, uvec2 w, uvec2 s, uvec2 b, uint row, uint cols) {
    float y = 0;
    [[dont_unroll]] for (uint k = 0; k < cols; k += 8) {
        uint g = row * (cols / GROUP) + k / GROUP;
        float scale = factor(s, g), bias = 0;
#if MODE == 0
        bias = factor(b, g);
#endif
        uvec2 pack = load_pack(w, row * (cols / 16 * BITS / 2), k);
        [[dont_unroll]] for (uint e = 0; e < 8; e++)
            y = fma(load_element(x, first + k + e), fma(scale, code(pack, e), bias), y);
    }
    return y;
}
