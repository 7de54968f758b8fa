// The workgroup that comes last: several leave parts of one result in memory and count themselves, and who counts last
// joins the parts. Nobody waits for another workgroup.
// The Vulkan memory model orders the memory of two invocations by barriers of memory on both sides of what they meet
// at, an atomic or a barrier of the workgroup ("synchronizes-with" in its appendix). The parts pass two of the one kind
// and one of the other, so there are four: after the stores of a part, before the count, after it, before the loads.
// Parts lie in buffers that are `coherent`, which makes each store available and each load visible to the device.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Counter { uint v; };
shared bool is_last;

#ifdef FULL_BARRIERS
// Everything there is, to compare with.
#define MEMORY_BARRIER memoryBarrier()
#define GROUP_BARRIER barrier(); memoryBarrier(); groupMemoryBarrier(); barrier()
#else
#define MEMORY_BARRIER memoryBarrierBuffer()
#define GROUP_BARRIER barrier()
#endif

// Whether this is the last of `n` workgroups to come here with this counter, which it leaves zero. Called by all
// invocations of a workgroup; one that does not count is never last.
bool comes_last(uint64_t counter, uint n, bool counts) {
    MEMORY_BARRIER;
    GROUP_BARRIER;
    if (gl_LocalInvocationIndex == 0u) {
        MEMORY_BARRIER;
        is_last = counts && atomicAdd(Counter(counter).v, 1u) + 1u == n;
        MEMORY_BARRIER;
        if (is_last) Counter(counter).v = 0u;
    }
    GROUP_BARRIER;
    MEMORY_BARRIER;
    return is_last;
}
