# Intel Iris Xe (Tiger Lake, Mesa ANV).
name = Intel Iris Xe
units = 96
bandwidth = 60
shared_memory = 65536
workgroup_invocations = 1024
workgroups = 65535
max_buffer = 4294959104
queues = 1
hide = float64, bfloat16, cooperative_matrix, cooperative_matrix2, atomic_float, binary_import
hide = copy_queue, device_local_host_visible
