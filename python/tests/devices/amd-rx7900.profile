# AMD Radeon RX 7900 XTX (Navi 31, Mesa RADV).
name = AMD Radeon RX 7900 XTX
units = 96
bandwidth = 960
workgroups = 65535
hide = bfloat16, cooperative_matrix2, unified, binary_import
