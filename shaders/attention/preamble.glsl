// What attention's matrix kernels ask the compiler for. PLAIN does without matrix instructions.
#ifndef PLAIN
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#if DTYPE == 2
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif
#endif
#extension GL_KHR_shader_subgroup_basic : require
#ifndef PLAIN
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "lib/codecs.glsl"
#define THREADS (TEAMS * LANES)
layout(local_size_x = THREADS) in;
// Loops whose arrays are registers: what stands for matrices would make programs of them that compile for minutes.
#ifdef PLAIN
#define EACH [[dont_unroll]]
#else
#define EACH [[unroll]]
#endif
// Words of a row of keys and of values.
#define WORDS_K (HD / 8u)
#define WORDS_V (HV / 8u)
const uint SHARERS = LANES / 16u, COLS = 64u / SHARERS, SW = 17u, BM = 16u * TEAMS;
