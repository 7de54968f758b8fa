// Units of UNIT codes that a lane has of R rows, of SIDES matrices (EACH of each): how they are read, and multiplied by
// one row of x. Needs quantized/qmm.glsl, quantized/joined_results.glsl, UNIT, R, and ALIGNED where codes of a unit are read
// 16 or 8 bytes at a time.
#define UNIT_WORDS (UNIT / 16 * BITS / 2)
#define PACKS (UNIT / 8)
// Packs that share a scale inside a unit.
#define RUN (GROUP < UNIT ? GROUP / 8 : PACKS)
// Pack j of a unit; j is a constant after unrolling.
#define BIT(j) ((j) * 8 * BITS)
#define PACK_LOW(u, j) (BIT(j) % 32 == 0 ? u[BIT(j) / 32] : BIT(j) % 32 + 8 * BITS <= 32 \
    ? u[BIT(j) / 32] >> (BIT(j) % 32)                                                   \
    : (u[BIT(j) / 32] >> (BIT(j) % 32)) | (u[min(BIT(j) / 32 + 1, UNIT_WORDS - 1)] << (32 - BIT(j) % 32)))
#define PACK_HIGH(u, j) (8 * BITS <= 32 ? 0u : u[min(BIT(j) / 32 + 1, UNIT_WORDS - 1)] >> (BIT(j) % 32))
// Chunks of x that go with a unit.
#define CHUNKS (UNIT / V)

// Codes of unit u of R rows from row0 on; n rows are there.
void load_codes(uvec2 w[SIDES], uint row0, uint n, uint u, out uint words[R][UNIT_WORDS]) {
    [[unroll]] for (uint r = 0; r < R; r++) {
        uint at = min(row0 + r % EACH, n - 1) * ROW_WORDS + u * UNIT_WORDS;
#if defined(ALIGNED) && UNIT_WORDS % 4 == 0
        [[unroll]] for (uint i = 0; i < UNIT_WORDS / 4; i++) {
            uvec4 c = Chunks(w[r / EACH]).v[at / 4 + i];
            words[r][4 * i] = c.x;
            words[r][4 * i + 1] = c.y;
            words[r][4 * i + 2] = c.z;
            words[r][4 * i + 3] = c.w;
        }
#elif defined(ALIGNED) && UNIT_WORDS % 2 == 0
        [[unroll]] for (uint i = 0; i < UNIT_WORDS / 2; i++) {
            uvec2 c = Pairs(w[r / EACH]).v[at / 2 + i];
            words[r][2 * i] = c.x;
            words[r][2 * i + 1] = c.y;
        }
#else
        [[unroll]] for (uint i = 0; i < UNIT_WORDS; i++) words[r][i] = Words(w[r / EACH]).v[at + i];
#endif
    }
}

// Place of the factors of part h of unit u of row r, among those of its matrix.
uint factor_at(uint row0, uint r, uint n, uint u, uint h) {
    return min(row0 + r % EACH, n - 1) * ROW_GROUPS + (u * UNIT + h * RUN * 8) / GROUP;
}

// Adds the products of unit u of each row with x. They are summed up per scale before the scale is applied.
void add_unit(uvec2 s[SIDES], uvec2 b[SIDES], uint row0, uint n, uint u, uint words[R][UNIT_WORDS], uvec4 x[CHUNKS],
              inout float acc[R]) {
    [[unroll]] for (uint h = 0; h < PACKS / RUN; h++) {
        float scale[R], bias[R], dot_[R], sum = 0;
        [[unroll]] for (uint r = 0; r < R; r++) {
            uint g = factor_at(row0, r, n, u, h);
            scale[r] = factor(s[r / EACH], g);
#if MODE == 0
            bias[r] = factor(b[r / EACH], g);
#endif
            dot_[r] = 0;
        }
        [[unroll]] for (uint j = h * RUN; j < (h + 1) * RUN; j++) {
            [[unroll]] for (uint e = 0; e < 8; e++) {
                float y = chunk_element(x[(j * 8 + e) / V], e % V);
                sum += y;
                [[unroll]] for (uint r = 0; r < R; r++)
                    dot_[r] = fma(code(uvec2(PACK_LOW(words[r], j), PACK_HIGH(words[r], j)), e), y, dot_[r]);
            }
        }
        [[unroll]] for (uint r = 0; r < R; r++) {
            acc[r] = fma(scale[r], dot_[r], acc[r]);
#if MODE == 0
            acc[r] = fma(bias[r], sum, acc[r]);
#endif
        }
    }
}
