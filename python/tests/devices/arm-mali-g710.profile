# Arm Mali-G710 (Arm's driver).
name = Arm Mali-G710
units = 7
bandwidth = 50
shared_memory = 32768
workgroup_invocations = 512
workgroups = 65535
max_buffer = 1073741824
queues = 2
hide = float64, bfloat16, atomic_float, atomic_int64, cooperative_matrix, cooperative_matrix2, binary_import
hide = copy_queue, memory_budget
