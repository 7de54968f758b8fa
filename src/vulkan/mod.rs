//! The Vulkan backend: adapters, devices, streams, encoders, the shader compiler and the host side of each
//! kernel. Works on device addresses, without graph knowledge.
