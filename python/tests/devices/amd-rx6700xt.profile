# AMD Radeon RX 6700 XT (Navi 22, Mesa RADV).
name = AMD Radeon RX 6700 XT
units = 40
bandwidth = 384
workgroups = 65535
hide = bfloat16, atomic_float, cooperative_matrix, cooperative_matrix2, unified, binary_import
