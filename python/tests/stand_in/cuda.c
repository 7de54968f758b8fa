/* Stands in for libcuda.so.1 in tests: memory of the "GPU" is memory of the host and streams do at once what they are
 * told. STAND_IN_GPUS: how many there are. STAND_IN_UUID: the identifier of all, in hexadecimal. STAND_IN_PEERS=0: none
 * reaches another. STAND_IN_CUDA_FAILS=function or function:n: it fails, from its n-th call on. STAND_IN_CUDA_CORRUPTS: a
 * byte of each copy between GPUs is another. STAND_IN_CUDA_TELLS: memory of Vulkan that is imported, and let go again, and
 * copies between GPUs are told of on the standard error. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OUT_OF_MEMORY = 2, UNKNOWN = 999 };

static int fails(const char *name) {
    static atomic_int calls;
    const char *told = getenv("STAND_IN_CUDA_FAILS");
    size_t n = strlen(name);
    if (!told || strncmp(told, name, n) || (told[n] && told[n] != ':')) return 0;
    return !told[n] || atomic_fetch_add(&calls, 1) + 1 >= atoi(told + n + 1);
}

int cuInit(unsigned flags) { return flags != 0 || fails("cuInit"); }

int cuDeviceGetCount(int *count) {
    const char *told = getenv("STAND_IN_GPUS");
    *count = told ? atoi(told) : 1;
    return fails("cuDeviceGetCount") ? UNKNOWN : 0;
}

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return fails("cuDeviceGet") ? UNKNOWN : 0;
}

int cuDeviceGetUuid(char uuid[16], int device) {
    const char *told = getenv("STAND_IN_UUID");
    memset(uuid, device + 1, 16);
    for (int i = 0; told && i < 16; i++) {
        unsigned byte;
        if (sscanf(told + 2 * i, "%2x", &byte) != 1) return UNKNOWN;
        uuid[i] = (char)byte;
    }
    return fails("cuDeviceGetUuid") ? UNKNOWN : 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    static int contexts[64];
    *context = &contexts[device];
    return fails("cuDevicePrimaryCtxRetain") ? OUT_OF_MEMORY : 0;
}

/* As in CUDA, a thread without a context can do nothing. */
static __thread void *current;

int cuCtxGetCurrent(void **context) {
    *context = current;
    return fails("cuCtxGetCurrent") ? UNKNOWN : 0;
}

int cuCtxSetCurrent(void *context) {
    if (context && fails("cuCtxSetCurrent")) return UNKNOWN;
    current = context;
    return 0;
}

int cuMemAlloc_v2(uint64_t *memory, size_t bytes) {
    if (!current || bytes == 0 || fails("cuMemAlloc")) return OUT_OF_MEMORY;
    *memory = (uintptr_t)malloc(bytes);
    memset((void *)(uintptr_t)*memory, 0xAA, bytes);
    return 0;
}

static int is_mapped(uint64_t memory);

int cuMemFree_v2(uint64_t memory) {
    if (!is_mapped(memory)) free((void *)(uintptr_t)memory);
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

static int make(const char *name, void **handle) {
    if (!current || fails(name)) return UNKNOWN;
    *handle = calloc(1, 8);
    return 0;
}

static int unmake(void *handle) {
    free(handle);
    return 0;
}

int cuStreamCreate(void **stream, unsigned flags) { return flags == 1 ? make("cuStreamCreate", stream) : UNKNOWN; }
int cuStreamDestroy_v2(void *stream) { return unmake(stream); }
int cuEventCreate(void **event, unsigned flags) { return flags == 2 ? make("cuEventCreate", event) : UNKNOWN; }
int cuEventDestroy_v2(void *event) { return unmake(event); }

int cuEventRecord(void *event, void *stream) {
    if (!stream || fails("cuEventRecord")) return UNKNOWN;
    *(int *)event = 3;
    return 0;
}

/* Not ready at the first looks. */
int cuEventQuery(void *event) {
    int *looks = event;
    if (fails("cuEventQuery")) return UNKNOWN;
    if (*looks > 0) --*looks;
    return *looks ? 600 : 0;
}

int cuGetErrorString(int code, const char **text) {
    *text = code == OUT_OF_MEMORY ? "out of memory" : "unknown error";
    return code == OUT_OF_MEMORY || code == UNKNOWN ? 0 : 1;
}

/* Memory of Mesa's software driver: a file that begins with the length and with the place of the data. */
struct memory_file {
    int kind;
    uint64_t file[2], size;
    unsigned flags, reserved[16];
};

struct mapping {
    uint64_t offset, size;
    unsigned flags, reserved[16];
};

struct imported {
    uint64_t *begin;
    size_t length, size;
    struct imported *next;
};

static struct imported *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t data_of(const struct imported *i) { return (uintptr_t)((char *)i->begin + i->begin[1]); }

static int is_mapped(uint64_t memory) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (struct imported *i = all; i; i = i->next) found |= data_of(i) == memory;
    pthread_mutex_unlock(&lock);
    return found;
}

static void tell(const char *what, size_t bytes) {
    if (getenv("STAND_IN_CUDA_TELLS")) fprintf(stderr, "%s %zu\n", what, bytes);
}

int cuImportExternalMemory(void **memory, const struct memory_file *about) {
    struct stat status;
    int file = (int)about->file[0];
    if (!current || about->kind != 1 || about->flags != 1 || fails("cuImportExternalMemory")) return UNKNOWN;
    if (fstat(file, &status) || (uint64_t)status.st_size < about->size) return UNKNOWN;
    void *begin = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (begin == MAP_FAILED) return UNKNOWN;
    close(file);
    struct imported *made = malloc(sizeof *made);
    pthread_mutex_lock(&lock);
    *made = (struct imported){begin, status.st_size, about->size, all};
    all = made;
    pthread_mutex_unlock(&lock);
    tell("imported", made->size);
    *memory = made;
    return 0;
}

int cuExternalMemoryGetMappedBuffer(uint64_t *address, void *memory, const struct mapping *range) {
    struct imported *made = memory;
    if (!current || range->offset || range->size > made->size || fails("cuExternalMemoryGetMappedBuffer")) return UNKNOWN;
    *address = data_of(made);
    return 0;
}

int cuDeviceCanAccessPeer(int *can, int device, int other) {
    const char *told = getenv("STAND_IN_PEERS");
    *can = device >= 0 && other >= 0 && !(told && strcmp(told, "0") == 0);
    return fails("cuDeviceCanAccessPeer") ? UNKNOWN : 0;
}

int cuCtxEnablePeerAccess(void *context, unsigned flags) {
    static atomic_int known;
    if (!current || !context || flags || fails("cuCtxEnablePeerAccess")) return UNKNOWN;
    return atomic_exchange(&known, 1) ? 704 : 0;
}

int cuMemcpyPeerAsync(uint64_t to, void *there, uint64_t from, void *here, size_t bytes, void *stream) {
    if (current != there || !here || !stream || fails("cuMemcpyPeerAsync")) return UNKNOWN;
    char *target = (char *)(uintptr_t)to;
    memcpy(target, (void *)(uintptr_t)from, bytes);
    if (getenv("STAND_IN_CUDA_CORRUPTS")) target[bytes / 2] ^= 1;
    tell("copied", bytes);
    return 0;
}

/* Within a GPU: its context is the one that is entered. */
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    if (!current || !stream || fails("cuMemcpyDtoDAsync")) return UNKNOWN;
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return 0;
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    return !current || !stream || !event || flags || fails("cuStreamWaitEvent") ? UNKNOWN : 0;
}

int cuDestroyExternalMemory(void *memory) {
    struct imported *made = memory;
    tell("let go", made->size);
    pthread_mutex_lock(&lock);
    struct imported **at = &all;
    while (*at != made) at = &(*at)->next;
    *at = made->next;
    pthread_mutex_unlock(&lock);
    munmap(made->begin, made->length);
    free(made);
    return 0;
}
