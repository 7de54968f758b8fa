/* Stands in for libcuda.so.1 in tests: memory of the "GPU" is memory of the host and streams do at once what they are
 * told; those that are told to wait for a number do what follows on a thread. STAND_IN_GPUS: how many there are. STAND_IN_UUID: the identifier of all, in hexadecimal. STAND_IN_PEERS=0: none
 * reaches another. STAND_IN_CUDA_FAILS=function or function:n: it fails, from its n-th call on. STAND_IN_CUDA_CORRUPTS: a
 * byte of each copy between GPUs is another; STAND_IN_CUDA_HANGS: streams wait for numbers for ever. STAND_IN_CUDA_TELLS: memory of Vulkan that is imported, and let go again, and
 * copies between GPUs are told of on the standard error. */
#define _GNU_SOURCE
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

/* What a stream has yet to do. */
struct step {
    int kind; /* waits, writes, copies */
    uint64_t to, from;
    size_t bytes;
    uint32_t value;
    struct step *next;
};

struct stream {
    int begun;
    struct step *first, **last;
    pthread_mutex_t lock;
    pthread_cond_t more;
};

static void copy_between(uint64_t to, uint64_t from, size_t bytes);

static void *work(void *of) {
    struct stream *stream = of;
    for (;;) {
        pthread_mutex_lock(&stream->lock);
        while (!stream->first) pthread_cond_wait(&stream->more, &stream->lock);
        struct step *step = stream->first;
        stream->first = step->next;
        if (!stream->first) stream->last = &stream->first;
        pthread_mutex_unlock(&stream->lock);
        atomic_uint *flag = (atomic_uint *)(uintptr_t)step->to;
        if (step->kind == 0)
            while ((int32_t)(atomic_load(flag) - step->value) < 0 || getenv("STAND_IN_CUDA_HANGS")) usleep(20);
        else if (step->kind == 1)
            atomic_store(flag, step->value);
        else
            copy_between(step->to, step->from, step->bytes);
        free(step);
    }
    return NULL;
}

static int ask(struct stream *stream, struct step what) {
    struct step *step = malloc(sizeof *step);
    *step = what;
    pthread_mutex_lock(&stream->lock);
    if (!stream->begun) {
        pthread_t thread;
        stream->begun = 1;
        pthread_create(&thread, NULL, work, stream);
        pthread_detach(thread);
    }
    *stream->last = step;
    stream->last = &step->next;
    pthread_cond_signal(&stream->more);
    pthread_mutex_unlock(&stream->lock);
    return 0;
}

int cuStreamCreate(void **stream, unsigned flags) {
    if (!current || flags != 1 || fails("cuStreamCreate")) return UNKNOWN;
    struct stream *made = calloc(1, sizeof *made);
    made->last = &made->first;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->more, NULL);
    *stream = made;
    return 0;
}

/* One with a thread is left to it. */
int cuStreamDestroy_v2(void *stream) {
    if (!((struct stream *)stream)->begun) free(stream);
    return 0;
}

int cuStreamWaitValue32_v2(void *stream, uint64_t at, uint32_t value, unsigned flags) {
    if (!current || !stream || flags || fails("cuStreamWaitValue32")) return UNKNOWN;
    return ask(stream, (struct step){0, at, 0, 0, value, NULL});
}

int cuStreamWriteValue32_v2(void *stream, uint64_t at, uint32_t value, unsigned flags) {
    if (!current || !stream || flags || fails("cuStreamWriteValue32")) return UNKNOWN;
    return ask(stream, (struct step){1, at, 0, 0, value, NULL});
}

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

static void copy_between(uint64_t to, uint64_t from, size_t bytes) {
    char *target = (char *)(uintptr_t)to;
    memcpy(target, (void *)(uintptr_t)from, bytes);
    if (getenv("STAND_IN_CUDA_CORRUPTS")) target[bytes / 2] ^= 1;
    tell("copied", bytes);
}

/* Within a GPU, or to memory that is mapped for it: its context is the one that is entered. */
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    if (!current || !stream || fails("cuMemcpyDtoDAsync")) return UNKNOWN;
    if (((struct stream *)stream)->begun) return ask(stream, (struct step){2, to, from, bytes, 0, NULL});
    copy_between(to, from, bytes);
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

/* Memory for several processes, and for Mesa's software driver: a file that begins as that driver's do, with its length, the
 * place of the data, and by whom it was made. */
enum { DATA = 4096, UNIT = 65536 };

struct placed {
    int kind, handles, place, device;
    const void *security;
    unsigned char flags[8];
};

struct access {
    int place, device, flags;
};

int cuMemGetAllocationGranularity(size_t *unit, const struct placed *about, int which) {
    *unit = UNIT;
    return about->kind != 1 || which || fails("cuMemGetAllocationGranularity") ? UNKNOWN : 0;
}

int cuMemCreate(uint64_t *made, size_t bytes, const struct placed *about, uint64_t flags) {
    static const unsigned char mesa[16] = {0x6c, 0xb9, 0xee, 0x07, 0x4a, 0x0b, 0xad, 0x7b,
                                           0x01, 0x2e, 0x1b, 0xe9, 0x69, 0x7e, 0x53, 0x0f};
    uint64_t head[2] = {DATA + bytes + 64, DATA};
    if (!current || flags || bytes % UNIT || about->handles != 1 || fails("cuMemCreate")) return OUT_OF_MEMORY;
    int file = memfd_create("stand-in", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, head[0]) || write(file, head, 16) != 16 || write(file, mesa, 16) != 16) return UNKNOWN;
    *made = file + 1;
    return 0;
}

int cuMemRelease(uint64_t made) { return close(made - 1); }

int cuMemExportToShareableHandle(int *file, uint64_t made, int kind, uint64_t flags) {
    if (kind != 1 || flags || fails("cuMemExportToShareableHandle")) return UNKNOWN;
    return (*file = dup(made - 1)) < 0;
}

int cuMemImportFromShareableHandle(uint64_t *made, void *file, int kind) {
    if (!current || kind != 1 || fails("cuMemImportFromShareableHandle")) return UNKNOWN;
    int own = dup((int)(intptr_t)file);
    *made = own + 1;
    return own < 0;
}

int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t at, uint64_t flags) {
    void *found = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (alignment || at || flags || found == MAP_FAILED || fails("cuMemAddressReserve")) return UNKNOWN;
    *address = (uintptr_t)found;
    return 0;
}

int cuMemAddressFree(uint64_t address, size_t bytes) { return munmap((void *)(uintptr_t)address, bytes); }

int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t made, uint64_t flags) {
    if (offset || flags || fails("cuMemMap")) return UNKNOWN;
    void *at = (void *)(uintptr_t)address;
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, made - 1, DATA) == MAP_FAILED;
}

int cuMemUnmap(uint64_t address, size_t bytes) {
    void *at = (void *)(uintptr_t)address;
    return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED;
}

int cuMemSetAccess(uint64_t address, size_t bytes, const struct access *all, size_t count) {
    return !address || !bytes || count != 1 || all->flags != 3 || fails("cuMemSetAccess") ? UNKNOWN : 0;
}
