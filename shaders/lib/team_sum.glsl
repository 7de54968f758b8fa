// Sums over the TPR threads that share a row, `lane` of which a thread is and `team` their row's; by subgroups (SUBGROUP, its
// size is then fixed; CLUSTERED: several teams share one) or a shared tree. The includer defines THREADS of a workgroup, which all get there. A macro: the
// code that some drivers are given is not inlined before.

#ifdef SUBGROUP
// One slot for each subgroup of a row's threads.
#define WAYS (TPR > SUBGROUP ? TPR / SUBGROUP : 1)
#else
#define WAYS TPR
#endif
#define TEAMS (THREADS / TPR)
shared float sums[TEAMS * WAYS];

// Makes `total` the sum: of all threads with SUBGROUP, else of the first one.
#ifdef CLUSTERED
#define TEAM_SUM(total) total = subgroupClusteredAdd(total, TPR);
#elif defined(SUBGROUP)
#define TEAM_SUM(total)                                                                     \
    total = subgroupAdd(total);                                                             \
    if (WAYS > 1) {                                                                         \
        barrier();                                                                          \
        if (subgroupElect()) sums[gl_LocalInvocationIndex / SUBGROUP] = total;              \
        barrier();                                                                          \
        total = 0;                                                                          \
        [[unroll]] for (uint i = 0; i < WAYS; i++) total += sums[team * WAYS + i];          \
    }
#else
#define TEAM_SUM(total)                                                                     \
    barrier();                                                                              \
    sums[gl_LocalInvocationIndex] = total;                                                  \
    [[unroll]] for (uint half_ = TPR / 2; half_ > 0; half_ /= 2) {                          \
        barrier();                                                                          \
        if (lane < half_) sums[gl_LocalInvocationIndex] += sums[gl_LocalInvocationIndex + half_]; \
    }                                                                                       \
    total = sums[gl_LocalInvocationIndex];
#endif
