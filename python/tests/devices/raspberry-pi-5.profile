# Raspberry Pi 5 (V3D 7.1, Mesa V3DV): no 64-bit integers in shaders, so that it is refused.
name = Raspberry Pi 5
units = 3
bandwidth = 17
shared_memory = 16384
workgroup_invocations = 256
workgroups = 65535
max_buffer = 1073741824
queues = 1
hide = int64, float64, float16, bfloat16, int8, int16, float_controls, binary_import
hide = atomic_float, atomic_int64, int_dot_product, cooperative_matrix, cooperative_matrix2
hide = subgroup_extended_types, push_constant16, push_constant8, copy_queue, sparse_binding
