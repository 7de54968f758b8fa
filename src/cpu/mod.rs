//! Host kernels on raw views, without graph knowledge; the reference for every GPU kernel.
