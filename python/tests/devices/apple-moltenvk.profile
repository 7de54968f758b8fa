# Apple M2 through MoltenVK: Vulkan 1.2 over Metal.
name = Apple M2 through MoltenVK
units = 10
bandwidth = 100
shared_memory = 32768
workgroup_invocations = 1024
max_buffer = 1073741824
queues = 1
hide = float64, bfloat16, float_controls, memory_model, size_control, spirv16, maintenance4, binary_import
hide = atomic_float, atomic_int64, int_dot_product, cooperative_matrix, cooperative_matrix2
hide = copy_queue, host_query_reset, timestamps, sparse_binding
