//! Allocators, statistics and limits.
