# Apple M1 with Mesa's Honeykrisp.
name = Apple M1 with Mesa's Honeykrisp
units = 8
bandwidth = 68
shared_memory = 32768
workgroup_invocations = 1024
workgroups = 65535
queues = 1
hide = float64, bfloat16, atomic_float, cooperative_matrix, cooperative_matrix2, copy_queue, binary_import
