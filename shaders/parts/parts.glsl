// How operands of matmul_parts.comp lie: a block for each, of `rows` rows (of the right operand its columns) and groups of
// 16 elements along K. An element is the sum of two float16 numbers, times a power of two of its row: the nearest one, and
// what it lacks, 2^11 times as large. The block begins with 16 bytes: the address of the operand
// itself, and whether any of its rows is left to plain arithmetic; for each row follow the power of two and whether the row is left to plain arithmetic (see
// matmul_parts_split.comp; with it are all results of its BLOCK rows, or columns), and, from a multiple of 16 bytes on, the groups of each row: 16 nearest numbers, 16 rests.
#define ANY_LEFT(block) Words(block).v[2]
#define ROW_FACTOR(block, row) Floats(block).v[4 + 2 * (row)]
#define ROW_LEFT(block, row) Words(block).v[5 + 2 * (row)]
// Words of 16 bytes before the groups, and of a group.
#define GROUPS_AT(rows) (1 + ((rows) + 1) / 2)
#define GROUP 4
#define BLOCK 64
