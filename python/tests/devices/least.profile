# The least that is not refused: every feature gone, every limit at its lowest.
name = The least that is not refused
units = 1
bandwidth = 10
dependent_ns = 20000
shared_memory = 16384
workgroup_invocations = 256
push_constants = 128
workgroups = 65535
max_buffer = 1073741824
queues = 1
hide = atomic_float, atomic_int64, bfloat16, cooperative_matrix, cooperative_matrix2, copy_queue, binary_import
hide = device_local_host_visible, float16, float64, float_controls, host_cached, host_query_reset
hide = int16, int8, int_dot_product, maintenance4, memory_budget, memory_model, push_constant16
hide = push_constant8, size_control, spirv16, subgroup_arithmetic, subgroup_ballot
hide = subgroup_extended_types, subgroup_shuffle, timestamps, unified, sparse_binding
