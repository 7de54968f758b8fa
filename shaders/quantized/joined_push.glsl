// One row of x, or few, times JOINED matrices (src/vulkan/kernels/quantized/qmm_joined/mod.rs): the push block, and the
// lengths, which are constants of the pipeline.
layout(constant_id = 0) const uint K = 32;
layout(constant_id = 1) const uint N0 = 1;
layout(constant_id = 2) const uint N1 = 1;
layout(constant_id = 3) const uint N2 = 1;
layout(constant_id = 4) const uint EPS = 0; // bits of a float
#include "lib/progress.glsl"
layout(push_constant, scalar) uniform Push {
    uvec2 x, norm;                // addresses; of the weights that x is normalised with, or that products are added with,
                                  // or of counters of joins
    uvec2 w[3], s[3], b[3], d[3]; // results; where an epilogue makes one of all, then what it reads besides
    // PICKS: w[2] are indices, s[2] the number of matrices, and bit 0: indices are signed, then how many of them share
    // a row of x
    uint tile0;                   // first workgroup of this dispatch
    uint rows;                    // of x; PICKS: indices, or tokens that each have COMBINED of them
    uvec2 sums;                   // where workgroups that share K leave theirs; KEEP: where the normalised row is stored;
                                  // PICKS of qmm_coop: workgroups of a matrix; COMBINED: what is added to picked products, a row
                                  // for each matrix
    PROGRESS_WORDS
} p;
