// Units of UNIT codes that a thread takes from a row at once, as words, and packs of eight codes of them. ALIGNED: 16 or
// 8 bytes at a time. Includes nothing; needs quantized/quant.glsl.

#define UNIT_WORDS (UNIT / 16 * BITS / 2)
#define PACKS (UNIT / 8)
// Packs that share a scale inside a unit, and how often.
#define RUN (GROUP < UNIT ? GROUP / 8 : PACKS)
#define RUNS (PACKS / RUN)
// Pack j of a unit; j is a constant after unrolling.
#define BIT(j) ((j) * 8 * BITS)
#define PACK_LOW(u, j) (BIT(j) % 32 == 0 ? u[BIT(j) / 32] : BIT(j) % 32 + 8 * BITS <= 32 \
    ? u[BIT(j) / 32] >> (BIT(j) % 32)                                                   \
    : (u[BIT(j) / 32] >> (BIT(j) % 32)) | (u[min(BIT(j) / 32 + 1, UNIT_WORDS - 1)] << (32 - BIT(j) % 32)))
#define PACK_HIGH(u, j) (8 * BITS <= 32 ? 0u : u[min(BIT(j) / 32 + 1, UNIT_WORDS - 1)] >> (BIT(j) % 32))

// The unit that begins at word `at`.
void load_words(uvec2 base, uint at, out uint words[UNIT_WORDS]) {
#if defined(ALIGNED) && UNIT_WORDS % 4 == 0
    [[unroll]] for (uint i = 0; i < UNIT_WORDS / 4; i++) {
        uvec4 c = Chunks(base).v[at / 4 + i];
        words[4 * i] = c.x;
        words[4 * i + 1] = c.y;
        words[4 * i + 2] = c.z;
        words[4 * i + 3] = c.w;
    }
#elif defined(ALIGNED) && UNIT_WORDS % 2 == 0
    [[unroll]] for (uint i = 0; i < UNIT_WORDS / 2; i++) {
        uvec2 c = Pairs(base).v[at / 2 + i];
        words[2 * i] = c.x;
        words[2 * i + 1] = c.y;
    }
#else
    [[unroll]] for (uint i = 0; i < UNIT_WORDS; i++) words[i] = Words(base).v[at + i];
#endif
}
