# AMD Strix Halo (gfx1151, Mesa RADV): one memory for host and device.
name = AMD Strix Halo
units = 40
bandwidth = 256
workgroups = 65535
hide = bfloat16, cooperative_matrix2, binary_import
