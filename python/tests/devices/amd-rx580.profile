# AMD Radeon RX 580 (Polaris 10, Mesa RADV).
name = AMD Radeon RX 580
units = 36
bandwidth = 256
shared_memory = 65536
workgroup_invocations = 1024
workgroups = 65535
hide = float16, bfloat16, size_control, atomic_float, cooperative_matrix, cooperative_matrix2, binary_import
hide = unified, device_local_host_visible
