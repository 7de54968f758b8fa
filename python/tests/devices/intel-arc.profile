# Intel Arc A770 (Mesa ANV).
name = Intel Arc A770
units = 32
bandwidth = 500
shared_memory = 65536
workgroup_invocations = 1024
workgroups = 65535
max_buffer = 4294959104
hide = float64, bfloat16, cooperative_matrix2, unified, binary_import
