/* Makes one file system call below a folder fail, be cut short, or be the last one of the process; or has no memory.
 *
 * Preloaded into a process that forks a child for each fault (`zygote.py`). Calls on files below the folder, and writes
 * to standard output, are numbered from 1 in the order in which they are made; so are the requests for memory of arrays
 * and tables (of NumPy, Numba and Arrow). The counters are shared with the parent. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE = 0, FAIL = 1, SHORT = 2, KILL = 3, GONE = 4, NO_MEMORY = 5, NO_MORE_MEMORY = 6 };
enum { MAX_CALLS = 16384, NAME = 16, PLACE = 240 };
struct state { atomic_long calls, requests; char names[MAX_CALLS][NAME]; char places[MAX_CALLS][PLACE]; };
static struct state *state;
static long fault_at = -1;
static int fault_kind = NONE;
static char folder[PATH_MAX];
static _Thread_local const char *place = ""; /* the end of the path that was looked at last, below the folder */
static _Thread_local char place_of_last[PLACE];

__attribute__((constructor)) static void make_state(void) {
    state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
long fault_calls(void) { return atomic_load(&state->calls); }
const char *fault_name(long number) { return state->names[number]; }
const char *fault_place(long number) { return state->places[number]; }
long fault_requests(void) { return atomic_load(&state->requests); }
void fault_reset(void) { atomic_store(&state->calls, 0); atomic_store(&state->requests, 0); }

/* Where the code of the libraries is whose requests for memory are numbered. Arrow's tables are aligned; the rest of what
 * it asks for is of its own parsers and codecs. */
enum { MAX_ASKERS = 16 };
static const char *const asking[] = { "/libarrow.", "/_multiarray_umath.", "/_nrt_python.", "/_helperlib." };
static struct { const char *start, *end; int aligned; } askers[MAX_ASKERS];
static int known_askers;
static int take_asker(struct dl_phdr_info *info, size_t size, void *nothing) {
    for (size_t i = 0; i < sizeof asking / sizeof *asking; i++)
        if (strstr(info->dlpi_name, asking[i]))
            for (int j = 0; j < info->dlpi_phnum && known_askers < MAX_ASKERS; j++)
                if (info->dlpi_phdr[j].p_type == PT_LOAD && info->dlpi_phdr[j].p_flags & PF_X) {
                    const char *start = (const char *)(info->dlpi_addr + info->dlpi_phdr[j].p_vaddr);
                    askers[known_askers].start = start; askers[known_askers].aligned = i == 0;
                    askers[known_askers++].end = start + info->dlpi_phdr[j].p_memsz;
                }
    return (void)size, (void)nothing, 0;
}
static int has_memory(const char *asker, int aligned) {
    for (int i = 0; i < known_askers; i++)
        if (asker >= askers[i].start && asker < askers[i].end && aligned >= askers[i].aligned) {
            long number = atomic_fetch_add(&state->requests, 1) + 1;
            return !((fault_kind == NO_MEMORY && number == fault_at) || (fault_kind == NO_MORE_MEMORY && number >= fault_at));
        }
    return 1;
}
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
#define MEMORY(arguments, name, call) void *name arguments { \
    if (!known_askers || has_memory(__builtin_return_address(0), 0)) return __libc_##call; errno = ENOMEM; return NULL; }
MEMORY((size_t n), malloc, malloc(n))
MEMORY((size_t k, size_t n), calloc, calloc(k, n))
MEMORY((void *old, size_t n), realloc, realloc(old, n))
MEMORY((size_t by, size_t n), aligned_alloc, memalign(by, n))
int posix_memalign(void **made, size_t by, size_t n) {
    if (known_askers && !has_memory(__builtin_return_address(0), 1)) return ENOMEM;
    void *got = __libc_memalign(by, n); if (!got) return ENOMEM;
    *made = got; return 0; }

void fault_arm(const char *below, long at, int kind) {
    strncpy(folder, below, sizeof folder - 1);
    fault_at = at; fault_kind = kind;
    dl_iterate_phdr(take_asker, NULL);
}

static int is_below(const char *path) {
    size_t n = strlen(folder);
    if (!n || strncmp(path, folder, n)) return 0;
    strncpy(place_of_last, path + n + (path[n] == '/'), PLACE - 1); place = place_of_last;
    return 1;
}
static int path_below(int at, const char *path) {
    char full[PATH_MAX * 2], start[PATH_MAX], link[64];
    if (!folder[0] || !path) return 0;
    if (path[0] == '/') return is_below(path);
    if (at == AT_FDCWD) { if (!getcwd(start, sizeof start)) return 0; }
    else {
        int n = 0; char digits[16]; int d = at; if (d <= 0) return 0;
        while (d) { digits[n++] = '0' + d % 10; d /= 10; }
        strcpy(link, "/proc/self/fd/"); size_t k = strlen(link);
        while (n) link[k++] = digits[--n];
        link[k] = 0;
        ssize_t got = readlink(link, start, sizeof start - 1); if (got < 0) return 0; start[got] = 0;
        if (!path[0]) return is_below(start);
    }
    strcpy(full, start); strcat(full, "/"); strncat(full, path, sizeof full - strlen(full) - 1);
    return is_below(full);
}
static int file_below(int file) { return file > 2 && path_below(file, ""); }

/* What this call has to do: NONE, FAIL or SHORT; KILL does not return. */
static int next_fault(const char *name) {
    long number = atomic_fetch_add(&state->calls, 1) + 1;
    if (number < MAX_CALLS) {
        memset(state->names[number], 0, NAME); memset(state->places[number], 0, PLACE);
        strncpy(state->names[number], name, NAME - 1); strncpy(state->places[number], place, PLACE - 1);
    }
    if (number != fault_at || fault_kind >= GONE) return NONE;
    if (fault_kind == KILL) { kill(getpid(), SIGKILL); for (;;) pause(); }
    if (fault_kind == FAIL) errno = strstr(name, "write") || !strncmp(name, "mkdir", 5) ? ENOSPC : EIO;
    return fault_kind;
}
#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define REFUSE(result) return (result)
#pragma GCC diagnostic ignored "-Wmisleading-indentation"

#define OPEN(name) int name(const char *path, int flags, ...) { \
    REAL(name); va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more); \
    if (path_below(AT_FDCWD, path) && next_fault(flags & O_CREAT ? "create" : #name) == FAIL) REFUSE(-1); \
    return real(path, flags, mode); }
#define OPENAT(name) int name(int at, const char *path, int flags, ...) { \
    REAL(name); va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more); \
    if (path_below(at, path) && next_fault(flags & O_CREAT ? "create" : #name) == FAIL) REFUSE(-1); \
    return real(at, path, flags, mode); }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)

#define PATH1(name, type, arguments, path, call) type name arguments { \
    REAL(name); if (path_below(AT_FDCWD, path) && next_fault(#name) == FAIL) REFUSE(-1); return real call; }
PATH1(mkdir, int, (const char *a, mode_t m), a, (a, m))
PATH1(rmdir, int, (const char *a), a, (a))
PATH1(unlink, int, (const char *a), a, (a))
PATH1(rename, int, (const char *a, const char *b), b, (a, b))
PATH1(link, int, (const char *a, const char *b), b, (a, b))
PATH1(chmod, int, (const char *a, mode_t m), a, (a, m))
PATH1(stat, int, (const char *a, struct stat *s), a, (a, s))
PATH1(lstat, int, (const char *a, struct stat *s), a, (a, s))
int renameat2(int a, const char *p, int b, const char *q, unsigned f) {
    REAL(renameat2); if (path_below(b, q) && next_fault("renameat2") == FAIL) REFUSE(-1); return real(a, p, b, q, f); }
int unlinkat(int a, const char *p, int f) {
    REAL(unlinkat); if (path_below(a, p) && next_fault("unlinkat") == FAIL) REFUSE(-1); return real(a, p, f); }

#define FILE1(name, arguments, call) int name arguments { \
    REAL(name); if (file_below(file) && next_fault(#name) == FAIL) REFUSE(-1); return real call; }
FILE1(fsync, (int file), (file))
FILE1(fdatasync, (int file), (file))
FILE1(ftruncate, (int file, off_t n), (file, n))
FILE1(ftruncate64, (int file, off64_t n), (file, n))
FILE1(fchmod, (int file, mode_t m), (file, m))
#define RESERVE(name, type) int name(int file, type o, type n) { /* it returns what went wrong */ \
    REAL(name); return file_below(file) && next_fault(#name) == FAIL ? ENOSPC : real(file, o, n); }
RESERVE(posix_fallocate, off_t)
RESERVE(posix_fallocate64, off64_t)

/* A device that is full stays full, and a reader that is gone stays away. */
static int output_fault(void) {
    static int lasting; place = "<stdout>";
    int kind = next_fault("write");
    if (fault_kind == GONE && atomic_load(&state->calls) == fault_at) kind = GONE;
    if (kind == FAIL || kind == GONE) lasting = kind == FAIL ? ENOSPC : EPIPE;
    if (lasting) errno = lasting;
    return lasting ? FAIL : kind;
}
#define MOVE(name, arguments, call, cut) ssize_t name arguments { \
    REAL(name); int kind = n && folder[0] && file == 1 ? output_fault() : n && file_below(file) ? next_fault(#name) : NONE; \
    if (kind == FAIL) REFUSE(-1); \
    if (kind == SHORT && n > 1) return real cut; \
    return real call; }
MOVE(read, (int file, void *b, size_t n), (file, b, n), (file, b, n / 2))
MOVE(write, (int file, const void *b, size_t n), (file, b, n), (file, b, n / 2))
MOVE(pread, (int file, void *b, size_t n, off_t o), (file, b, n, o), (file, b, n / 2, o))
MOVE(pread64, (int file, void *b, size_t n, off64_t o), (file, b, n, o), (file, b, n / 2, o))
MOVE(pwrite, (int file, const void *b, size_t n, off_t o), (file, b, n, o), (file, b, n / 2, o))
MOVE(pwrite64, (int file, const void *b, size_t n, off64_t o), (file, b, n, o), (file, b, n / 2, o))
