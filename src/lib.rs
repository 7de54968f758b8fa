//! MLX arrays on every GPU with a Vulkan driver, and on plain CPUs.
//!
//! Floors, bottom to top; an import never points up, and `cpu` and `vulkan` never see each other:
//! - [`core`]: dtype, layout, error, device, stream, storage, array, primitive
//! - [`memory`]: allocators, statistics and limits
//! - [`kernels`]: the elementwise table, layout classes and GLSL generation that both backends share
//! - [`cpu`]: host kernels on raw views
//! - `vulkan`: adapter, device, encoder, compiler, kernels on device addresses
//! - [`distributed`]: groups of processes and the backends that connect them, on bytes of the host
//! - [`ops`]: what each operation is
//! - [`graph`]: graphs as lists: orders of nodes, tapes of recorded functions
//! - [`autodiff`]: grad, vjp, jvp, vmap, custom rules
//! - [`fusion`]: which steps one kernel computes together, in recorded functions and in evaluations
//! - [`eval`]: in which order nodes run and on which thread, the recorder
//! - [`compile`]: recorded functions, simplified; export
//! - [`io`]: npy, npz, safetensors, GGUF, exported functions
//! - `python`: the PyO3 face

// Without a GPU backend the arguments of GPU entry points go unused.
#![cfg_attr(not(feature = "vulkan"), allow(unused_variables, unused_imports, dead_code))]

pub mod autodiff;
pub mod compile;
pub mod core;
pub mod cpu;
pub mod distributed;
pub mod eval;
pub mod fusion;
pub mod graph;
pub mod io;
pub mod kernels;
pub mod memory;
pub mod ops;
#[cfg(feature = "python")]
pub mod python;
#[cfg(feature = "vulkan")]
pub mod vulkan;

/// Graphs are many small allocations that come and go together, more than the caches of the C library's allocator hold.
/// Programs in Rust choose for themselves.
#[cfg(feature = "python")]
mod allocator {
    use std::alloc::{GlobalAlloc, Layout};
    use std::ffi::c_void;

    use mimalloc::MiMalloc;

    unsafe extern "C" {
        fn mi_malloc(size: usize) -> *mut c_void;
    }

    /// mimalloc; blocks of an ordinary alignment by its shortest way, which `MiMalloc` does not take.
    struct Short;

    /// Larger blocks are not asked for ahead.
    const LARGEST_ASKED: usize = 512;

    /// What every block of at least so many bytes is aligned to.
    const ALIGNED: usize = 16;

    /// A free block begins with the address of the next one of its size, and a new one still does. Whoever freed that one may
    /// have been another thread: its lines are asked for before they are wanted.
    #[inline(always)]
    fn ask_for_next(block: *const u8, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        if !block.is_null() && (size_of::<usize>()..=LARGEST_ASKED).contains(&bytes) {
            let next: *const u8;
            // SAFETY: reads the first word of a block that was just allocated, whatever it is.
            unsafe {
                std::arch::asm!("mov {}, [{}]", out(reg) next, in(reg) block, options(nostack, readonly, preserves_flags));
            }
            crate::core::lines::ask_for(next, bytes);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (block, bytes);
    }

    // SAFETY: blocks of `mi_malloc` are mimalloc's as all others are, and aligned as far as their size goes.
    unsafe impl GlobalAlloc for Short {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if layout.align() <= ALIGNED && layout.align() <= layout.size() {
                // SAFETY: any size may be asked for.
                let block: *mut u8 = unsafe { mi_malloc(layout.size()) }.cast();
                ask_for_next(block, layout.size());
                return block;
            }
            // SAFETY: by the caller.
            unsafe { MiMalloc.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            // SAFETY: by the caller.
            unsafe { MiMalloc.alloc_zeroed(layout) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: by the caller.
            unsafe { MiMalloc.dealloc(block, layout) }
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            // SAFETY: by the caller.
            unsafe { MiMalloc.realloc(block, layout, size) }
        }
    }

    #[global_allocator]
    static ALLOCATOR: Short = Short;
}
