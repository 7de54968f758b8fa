// Results of a product to memory, after its epilogue; or with PARTIAL sums of a part of K. Rows must be there, columns
// need not. Included after matmul/matmul.glsl, and in convolutions
// after conv/conv.glsl, which says where results are.

void write_one(uvec2 d, uint row, uint col, float x) {
    if (col < p.n) {
#ifdef PARTIAL
        Floats(d).v[row * p.n + col] = x;
#else
        store_element(d, RESULT(row, col), x);
#endif
    }
}

void write_four(uvec2 d, uvec2 addend, uint row, uint col, vec4 x) {
#ifdef PARTIAL
    if (p.n % 4 == 0 && col < p.n) {
        Chunks(d).v[(row * p.n + col) / 4] = floatBitsToUint(x);
    } else
#else
    // Columns beyond the last one repeat it.
    uvec4 at = min(uvec4(col, col + 1, col + 2, col + 3), uvec4(p.n - 1));
    x = vec4(epilogue(x.x, addend, row, at.x), epilogue(x.y, addend, row, at.y),
             epilogue(x.z, addend, row, at.z), epilogue(x.w, addend, row, at.w));
    if ((p.flags & 1u) != 0 && col + 4 <= p.n) {
        store_four(d, RESULT_ROW(row) + col, x);
    } else
#endif
    {
        write_one(d, row, col, x.x);
        write_one(d, row, col + 1, x.y);
        write_one(d, row, col + 2, x.z);
        write_one(d, row, col + 3, x.w);
    }
}
