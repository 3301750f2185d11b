/* Lets the n-th call of a kind fail, in a process that is told so by fault_arm: preloaded, it stands before libc. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { NONE, OPEN, WRITE, SYNC, RENAME, MKDIR, UNLINK, READ, SOCKET, MALLOC };

static volatile int armed_kind = NONE, paused;
static volatile long wanted, counted;
static volatile int error_number, onwards;

void fault_arm(int kind, long number, int error, int from_there_on) {
    counted = 0, wanted = number, error_number = error, onwards = from_there_on, paused = 0;
    armed_kind = kind;
}
void fault_pause(int yes) { paused = yes; }
long fault_count(void) { return counted; }

static int fails(int kind) {
    if (kind != armed_kind || paused) return 0;
    long number = __sync_add_and_fetch(&counted, 1);
    if (number != wanted && !(onwards && number > wanted)) return 0;
    errno = error_number;
    return 1;
}

static long raw(long n, long a, long b, long c, long d, long e, long f) {
    long result;
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    result = x0;
#else
#error no system calls for this processor
#endif
    if (result < 0 && result > -4096) { errno = -result; return -1; }
    return result;
}
#define P(x) ((long)(x))

long syscall(long n, ...) {
    va_list list;
    va_start(list, n);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    if (n == 437 && fails(OPEN)) return -1; /* openat2 */
    return raw(n, a, b, c, d, e, f);
}

/* /dev/null takes everything, on a full disk too. */
static int fails_on(int kind, int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 && S_ISCHR(status.st_mode) ? 0 : fails(kind);
}

#define MODE(flags) ({ mode_t m = 0; if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list l; va_start(l, flags); \
                       m = va_arg(l, mode_t); va_end(l); } m; })
int open(const char *p, int flags, ...) {
    mode_t m = MODE(flags);
    return fails(OPEN) ? -1 : raw(SYS_openat, AT_FDCWD, P(p), flags, m, 0, 0);
}
int open64(const char *p, int flags, ...) {
    mode_t m = MODE(flags);
    return fails(OPEN) ? -1 : raw(SYS_openat, AT_FDCWD, P(p), flags, m, 0, 0);
}
int openat(int d, const char *p, int flags, ...) {
    mode_t m = MODE(flags);
    return fails(OPEN) ? -1 : raw(SYS_openat, d, P(p), flags, m, 0, 0);
}
int openat64(int d, const char *p, int flags, ...) {
    mode_t m = MODE(flags);
    return fails(OPEN) ? -1 : raw(SYS_openat, d, P(p), flags, m, 0, 0);
}
ssize_t write(int d, const void *b, size_t n) { return fails_on(WRITE, d) ? -1 : raw(SYS_write, d, P(b), n, 0, 0, 0); }
ssize_t writev(int d, const struct iovec *v, int n) { return fails_on(WRITE, d) ? -1 : raw(SYS_writev, d, P(v), n, 0, 0, 0); }
ssize_t pwrite64(int d, const void *b, size_t n, off64_t o) { return fails_on(WRITE, d) ? -1 : raw(SYS_pwrite64, d, P(b), n, o, 0, 0); }
ssize_t pwrite(int d, const void *b, size_t n, off_t o) { return fails_on(WRITE, d) ? -1 : raw(SYS_pwrite64, d, P(b), n, o, 0, 0); }
int ftruncate64(int d, off64_t n) { return fails_on(WRITE, d) ? -1 : raw(SYS_ftruncate, d, n, 0, 0, 0, 0); }
int ftruncate(int d, off_t n) { return fails_on(WRITE, d) ? -1 : raw(SYS_ftruncate, d, n, 0, 0, 0, 0); }
ssize_t read(int d, void *b, size_t n) { return fails(READ) ? -1 : raw(SYS_read, d, P(b), n, 0, 0, 0); }
ssize_t pread64(int d, void *b, size_t n, off64_t o) { return fails(READ) ? -1 : raw(SYS_pread64, d, P(b), n, o, 0, 0); }
ssize_t pread(int d, void *b, size_t n, off_t o) { return fails(READ) ? -1 : raw(SYS_pread64, d, P(b), n, o, 0, 0); }
int fsync(int d) { return fails(SYNC) ? -1 : raw(SYS_fsync, d, 0, 0, 0, 0, 0); }
int fdatasync(int d) { return fails(SYNC) ? -1 : raw(SYS_fdatasync, d, 0, 0, 0, 0, 0); }
int rename(const char *a, const char *b) { return fails(RENAME) ? -1 : raw(SYS_renameat2, AT_FDCWD, P(a), AT_FDCWD, P(b), 0, 0); }
int renameat(int d, const char *a, int e, const char *b) { return fails(RENAME) ? -1 : raw(SYS_renameat2, d, P(a), e, P(b), 0, 0); }
int mkdir(const char *p, mode_t m) { return fails(MKDIR) ? -1 : raw(SYS_mkdirat, AT_FDCWD, P(p), m, 0, 0, 0); }
int mkdirat(int d, const char *p, mode_t m) { return fails(MKDIR) ? -1 : raw(SYS_mkdirat, d, P(p), m, 0, 0, 0); }
int unlink(const char *p) { return fails(UNLINK) ? -1 : raw(SYS_unlinkat, AT_FDCWD, P(p), 0, 0, 0, 0); }
int unlinkat(int d, const char *p, int f) { return fails(UNLINK) ? -1 : raw(SYS_unlinkat, d, P(p), f, 0, 0, 0); }
int socket(int a, int b, int c) { return fails(SOCKET) ? -1 : raw(SYS_socket, a, b, c, 0, 0, 0); }
int connect(int d, const struct sockaddr *a, socklen_t n) { return fails(SOCKET) ? -1 : raw(SYS_connect, d, P(a), n, 0, 0, 0); }
ssize_t send(int d, const void *b, size_t n, int f) { return fails(SOCKET) ? -1 : raw(SYS_sendto, d, P(b), n, f, 0, 0); }
ssize_t recv(int d, void *b, size_t n, int f) { return fails(SOCKET) ? -1 : raw(SYS_recvfrom, d, P(b), n, f, 0, 0); }

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *malloc(size_t n) { return fails(MALLOC) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return fails(MALLOC) ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return fails(MALLOC) ? NULL : __libc_realloc(p, n); }
