/* Stands in for libcuda.so.1 in tests: memory of the "GPU" is memory of the host and streams do at once what they are
 * told. STAND_IN_GPUS: how many there are. STAND_IN_CUDA_FAILS: a function that fails. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 2, UNKNOWN = 999 };

static int fails(const char *name) {
    const char *told = getenv("STAND_IN_CUDA_FAILS");
    return told && strcmp(told, name) == 0;
}

int cuInit(unsigned flags) { return flags != 0; }

int cuDeviceGetCount(int *count) {
    const char *told = getenv("STAND_IN_GPUS");
    *count = told ? atoi(told) : 1;
    return 0;
}

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return 0;
}

int cuDeviceGetUuid(char uuid[16], int device) {
    memset(uuid, device + 1, 16);
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    static int contexts[64];
    *context = &contexts[device];
    return 0;
}

/* As in CUDA, a thread without a context can do nothing. */
static __thread void *current;

int cuCtxSetCurrent(void *context) {
    current = context;
    return 0;
}

int cuMemAlloc_v2(uint64_t *memory, size_t bytes) {
    if (!current || bytes == 0 || fails("cuMemAlloc")) return OUT_OF_MEMORY;
    *memory = (uintptr_t)malloc(bytes);
    memset((void *)(uintptr_t)*memory, 0xAA, bytes);
    return 0;
}

int cuMemFree_v2(uint64_t memory) {
    free((void *)(uintptr_t)memory);
    return 0;
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    if (!current || bytes == 0 || flags || fails("cuMemHostAlloc")) return OUT_OF_MEMORY;
    *memory = malloc(bytes);
    return 0;
}

int cuMemFreeHost(void *memory) {
    free(memory);
    return 0;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    if (!current || !stream || fails("cuMemcpyHtoDAsync")) return UNKNOWN;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    if (!current || !stream || fails("cuMemcpyDtoHAsync")) return UNKNOWN;
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}

static int make(void **handle) {
    if (!current) return UNKNOWN;
    *handle = calloc(1, 8);
    return 0;
}

static int unmake(void *handle) {
    free(handle);
    return 0;
}

int cuStreamCreate(void **stream, unsigned flags) { return flags == 1 ? make(stream) : UNKNOWN; }
int cuStreamDestroy_v2(void *stream) { return unmake(stream); }
int cuEventCreate(void **event, unsigned flags) { return flags == 2 ? make(event) : UNKNOWN; }
int cuEventDestroy_v2(void *event) { return unmake(event); }

int cuEventRecord(void *event, void *stream) {
    if (!stream) return UNKNOWN;
    *(int *)event = 3;
    return 0;
}

/* Not ready at the first looks. */
int cuEventQuery(void *event) {
    int *looks = event;
    if (*looks > 0) --*looks;
    return *looks ? 600 : 0;
}

int cuGetErrorString(int code, const char **text) {
    *text = code == OUT_OF_MEMORY ? "out of memory" : "unknown error";
    return code == OUT_OF_MEMORY || code == UNKNOWN ? 0 : 1;
}
