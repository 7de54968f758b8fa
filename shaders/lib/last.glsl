// The workgroup that comes last: several leave parts of one result in memory and count themselves, and who counts last
// joins the parts. Nobody waits for another workgroup.
// By the Vulkan memory model ("synchronizes-with" in its appendix) the stores of a part happen before its loads over
// three steps: a barrier of the workgroup with the memory of buffers, the count, which releases and acquires at the scope
// of the device, and such a barrier again. Parts lie in buffers that are `coherent`, which makes each store available
// and each load visible to the device.
#extension GL_KHR_memory_scope_semantics : require
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Counter { uint v; };
shared bool is_last;

#ifdef FULL_BARRIERS
// Everything there is, to compare with.
#define MEMORY_BARRIER memoryBarrier()
#define GROUP_BARRIER barrier(); memoryBarrier(); groupMemoryBarrier(); barrier()
#else
#define MEMORY_BARRIER
// Mesa 22.3 does not hold invocations back at the second: the first does.
#define GROUP_BARRIER \
    barrier(); \
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared, \
        gl_SemanticsAcquireRelease)
#endif

// Whether this is the last of `n` workgroups to come here with this counter, which it leaves zero. Called by all
// invocations of a workgroup; one that does not count is never last.
bool comes_last(uint64_t counter, uint n, bool counts) {
    MEMORY_BARRIER;
    GROUP_BARRIER;
    if (gl_LocalInvocationIndex == 0u) {
        MEMORY_BARRIER;
        is_last = counts && atomicAdd(Counter(counter).v, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer,
            gl_SemanticsAcquireRelease) + 1u == n;
        MEMORY_BARRIER;
        if (is_last) Counter(counter).v = 0u;
    }
    GROUP_BARRIER;
    MEMORY_BARRIER;
    return is_last;
}
