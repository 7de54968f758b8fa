// EACH_A(f) and EACH_B(f): f(0) f(1) ... for every chunk that a thread holds of an operand; EACH_FOURTH_A and
// EACH_FOURTH_B for every fourth. Some compilers do not unroll loops around more than a load to the end, and then
// keep the chunks in memory instead of registers. Macros used: CHUNKS_A, CHUNKS_B.

#if CHUNKS_A == 1
#define EACH_A(f) f(0)
#elif CHUNKS_A == 2
#define EACH_A(f) f(0) f(1)
#elif CHUNKS_A == 3
#define EACH_A(f) f(0) f(1) f(2)
#elif CHUNKS_A == 4
#define EACH_A(f) f(0) f(1) f(2) f(3)
#define EACH_FOURTH_A(f) f(0)
#elif CHUNKS_A == 8
#define EACH_A(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define EACH_FOURTH_A(f) f(0) f(4)
#else
#error more chunks a thread than listed
#endif

#if CHUNKS_B == 1
#define EACH_B(f) f(0)
#elif CHUNKS_B == 2
#define EACH_B(f) f(0) f(1)
#elif CHUNKS_B == 3
#define EACH_B(f) f(0) f(1) f(2)
#elif CHUNKS_B == 4
#define EACH_B(f) f(0) f(1) f(2) f(3)
#define EACH_FOURTH_B(f) f(0)
#elif CHUNKS_B == 8
#define EACH_B(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define EACH_FOURTH_B(f) f(0) f(4)
#else
#error more chunks a thread than listed
#endif
