/* Stands in for libcuda.so.1 in tests: memory of the "GPU" is memory of the host and streams do at once what they are
 * told. STAND_IN_GPUS: how many there are. STAND_IN_CUDA_FAILS: a function that fails. STAND_IN_CUDA_TELLS: memory of
 * Vulkan that is imported, and let go again, is told of on the standard error. */
#include <pthread.h>
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
