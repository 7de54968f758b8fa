//! What each operation is: shape rule, derivatives and the calls down into `cpu` and `vulkan`.
