# Qualcomm Adreno 740 (Qualcomm's driver).
name = Qualcomm Adreno 740
units = 6
bandwidth = 67
shared_memory = 32768
workgroup_invocations = 1024
workgroups = 65535
max_buffer = 1073741824
queues = 1
hide = float64, bfloat16, atomic_float, atomic_int64, cooperative_matrix, cooperative_matrix2, binary_import
hide = float_controls, subgroup_extended_types, memory_budget, copy_queue, sparse_binding
