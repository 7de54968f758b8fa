/* Stands in for libnccl.so.2 in tests: processes of one host meet in shared memory and do at once what NCCL would put on
 * a stream. STAND_IN_NCCL_FAILS=function:n: the n-th call (from 1) of it fails at the process of STAND_IN_RANK;
 * STAND_IN_NCCL_HANGS=function: it never ends there. */
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4 };
enum { MOST_RANKS = 16, SLOT = 1 << 16 };

typedef struct {
    char bytes[128];
} ncclUniqueId;

/* One way from a process to another. */
typedef struct {
    atomic_size_t full; /* bytes that wait to be taken */
    char data[SLOT];
} Channel;

typedef struct {
    atomic_int arrived;
    atomic_int round;
    char slots[MOST_RANKS][SLOT];
    Channel channels[MOST_RANKS][MOST_RANKS];
} Shared;

typedef struct {
    Shared *shared;
    int rank, count;
    atomic_int aborted;
} Comm;

static int is_chosen(void) {
    const char *rank = getenv("STAND_IN_RANK"), *own = getenv("MLX_RANK");
    return rank && own && strcmp(rank, own) == 0;
}

/* Whether this call shall fail; one that shall hang does. */
static int fails(const char *name, Comm *comm) {
    static int calls;
    size_t n = strlen(name);
    const char *fails = getenv("STAND_IN_NCCL_FAILS"), *hangs = getenv("STAND_IN_NCCL_HANGS");
    if (!is_chosen()) return 0;
    while (hangs && strcmp(hangs, name) == 0 && !(comm && comm->aborted)) usleep(1000);
    return fails && strncmp(fails, name, n) == 0 && fails[n] == ':' && ++calls == atoi(fails + n + 1);
}

int ncclGetVersion(int *version) {
    *version = 22403;
    return SUCCESS;
}

const char *ncclGetErrorString(int code) {
    return code == SYSTEM_ERROR ? "unhandled system error" : code == INVALID_ARGUMENT ? "invalid argument" : "no error";
}

int ncclGetUniqueId(ncclUniqueId *id) {
    static atomic_int made;
    if (fails("ncclGetUniqueId", NULL)) return SYSTEM_ERROR;
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "/mlx-stand-in-%d-%d", (int)getpid(), made++);
    int file = shm_open(id->bytes, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0 || ftruncate(file, sizeof(Shared))) return SYSTEM_ERROR;
    close(file);
    return SUCCESS;
}

/* Waits for all; whether they came. */
static int barrier(Comm *comm) {
    Shared *shared = comm->shared;
    int round = shared->round;
    if (atomic_fetch_add(&shared->arrived, 1) + 1 == comm->count) {
        shared->arrived = 0;
        shared->round++;
        return 1;
    }
    for (int looks = 0; shared->round == round; looks++) {
        if (comm->aborted) return 0;
        usleep(looks < 100 ? 0 : 200);
    }
    return 1;
}

int ncclCommInitRank(Comm **made, int count, ncclUniqueId id, int rank) {
    if (fails("ncclCommInitRank", NULL)) return SYSTEM_ERROR;
    if (rank < 0 || rank >= count || count > MOST_RANKS) return INVALID_ARGUMENT;
    int file = shm_open(id.bytes, O_RDWR, 0600);
    if (file < 0) return SYSTEM_ERROR;
    Comm *comm = calloc(1, sizeof *comm);
    comm->shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    comm->rank = rank;
    comm->count = count;
    *made = comm;
    barrier(comm);
    if (rank == 0) shm_unlink(id.bytes);
    return SUCCESS;
}

int ncclCommAbort(Comm *comm) {
    comm->aborted = 1;
    return SUCCESS;
}

int ncclCommDestroy(Comm *comm) {
    munmap(comm->shared, sizeof(Shared));
    free(comm);
    return SUCCESS;
}

int ncclCommGetAsyncError(Comm *comm, int *code) {
    *code = comm->aborted ? SYSTEM_ERROR : SUCCESS;
    return SUCCESS;
}

static float half(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    float x = exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
    return h >> 15 ? -x : x;
}

/* Of a number that a half holds. */
static uint16_t to_half(float x) {
    int exponent;
    uint16_t sign = signbit(x) ? 1 << 15 : 0;
    if (x == 0) return sign;
    float mantissa = frexpf(fabsf(x), &exponent);
    return sign | (uint16_t)((exponent + 14) << 10) | ((uint16_t)(mantissa * 2048) & 1023);
}

static float wide(uint16_t b) {
    uint32_t bits = (uint32_t)b << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static uint16_t narrow(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static const size_t SIZES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

#define REDUCE(type)                                                                                                  \
    for (size_t i = 0; i < n; i++) {                                                                                  \
        type x = ((type *)into)[i], y = ((const type *)from)[i];                                                      \
        ((type *)into)[i] = op == 0 ? (type)(x + y) : op == 2 ? (x > y ? x : y) : (x < y ? x : y);                    \
    }

static void reduce(int kind, int op, size_t n, void *into, const void *from) {
    uint16_t *a = into;
    const uint16_t *b = from;
    switch (kind) {
    case 0: REDUCE(int8_t); break;
    case 1: REDUCE(uint8_t); break;
    case 2: REDUCE(int32_t); break;
    case 3: REDUCE(uint32_t); break;
    case 4: REDUCE(int64_t); break;
    case 5: REDUCE(uint64_t); break;
    case 6: for (size_t i = 0; i < n; i++) a[i] = to_half(half(a[i]) + half(b[i])); break;
    case 7: REDUCE(float); break;
    case 8: REDUCE(double); break;
    case 9: for (size_t i = 0; i < n; i++) a[i] = narrow(wide(a[i]) + wide(b[i])); break;
    }
}

/* Every process has `bytes`; `use` sees those of all, in order, piece by piece. */
typedef struct {
    char *to;
    size_t bytes;
    int kind, op;
} Use;

static int share(Comm *comm, const char *from, size_t bytes, void (*use)(Use *, int, size_t, size_t, const char *),
                 Use *what) {
    for (size_t at = 0; at < bytes; at += SLOT) {
        size_t n = bytes - at < SLOT ? bytes - at : SLOT;
        memcpy(comm->shared->slots[comm->rank], from + at, n);
        if (!barrier(comm)) return SYSTEM_ERROR;
        for (int r = 0; r < comm->count; r++) use(what, r, at, n, comm->shared->slots[r]);
        if (!barrier(comm)) return SYSTEM_ERROR;
    }
    return SUCCESS;
}

static void add_up(Use *use, int rank, size_t at, size_t n, const char *data) {
    if (rank == 0) memcpy(use->to + at, data, n);
    else reduce(use->kind, use->op, n / SIZES[use->kind], use->to + at, data);
}

static void join(Use *use, int rank, size_t at, size_t n, const char *data) {
    memcpy(use->to + use->bytes * rank + at, data, n);
}

int ncclAllReduce(const void *from, void *to, size_t count, int kind, int op, Comm *comm, void *stream) {
    Use use = {to, 0, kind, op};
    if (fails("ncclAllReduce", comm)) return SYSTEM_ERROR;
    if (!stream || kind < 0 || kind > 9) return INVALID_ARGUMENT;
    return share(comm, from, count * SIZES[kind], add_up, &use);
}

int ncclAllGather(const void *from, void *to, size_t count, int kind, Comm *comm, void *stream) {
    Use use = {to, count * SIZES[kind], kind, 0};
    if (fails("ncclAllGather", comm)) return SYSTEM_ERROR;
    return stream ? share(comm, from, use.bytes, join, &use) : INVALID_ARGUMENT;
}

int ncclReduceScatter(const void *from, void *to, size_t count, int kind, int op, Comm *comm, void *stream) {
    size_t bytes = count * SIZES[kind];
    char *all = malloc(bytes * comm->count + 1);
    int code = ncclAllReduce(from, all, count * comm->count, kind, op, comm, stream);
    memcpy(to, all + bytes * comm->rank, bytes);
    free(all);
    return code;
}

int ncclSend(const void *from, size_t count, int kind, int peer, Comm *comm, void *stream) {
    Channel *channel = &comm->shared->channels[comm->rank][peer];
    size_t bytes = count * SIZES[kind];
    if (!stream || fails("ncclSend", comm)) return SYSTEM_ERROR;
    for (size_t at = 0; at < bytes; at += SLOT) {
        size_t n = bytes - at < SLOT ? bytes - at : SLOT;
        while (channel->full) {
            if (comm->aborted) return SYSTEM_ERROR;
            usleep(50);
        }
        memcpy(channel->data, (const char *)from + at, n);
        channel->full = n;
    }
    return SUCCESS;
}

int ncclRecv(void *to, size_t count, int kind, int peer, Comm *comm, void *stream) {
    Channel *channel = &comm->shared->channels[peer][comm->rank];
    size_t bytes = count * SIZES[kind];
    if (!stream || fails("ncclRecv", comm)) return SYSTEM_ERROR;
    for (size_t at = 0; at < bytes;) {
        while (!channel->full) {
            if (comm->aborted) return SYSTEM_ERROR;
            usleep(50);
        }
        memcpy((char *)to + at, channel->data, channel->full);
        at += channel->full;
        channel->full = 0;
    }
    return SUCCESS;
}
