/* Preloaded into a FUSE file system's process: reads and syncs of files take longer by READ_US and SYNC_US.
 * With SLOW_FILE, of those whose path has it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_slow(int file)
{
    char link[40], path[4096];
    const char *part = getenv("SLOW_FILE");
    if (part == NULL)
        return 1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return strstr(path, part) != NULL;
}

static void delay(const char *name, int file)
{
    const char *given = getenv(name);
    if (given != NULL && is_slow(file))
        usleep((useconds_t)atoi(given));
}

ssize_t pread64(int file, void *buffer, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "pread64");
    delay("READ_US", file);
    return real(file, buffer, size, offset);
}

int fsync(int file)
{
    static int (*real)(int);
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "fsync");
    delay("SYNC_US", file);
    return real(file);
}

int fdatasync(int file)
{
    static int (*real)(int);
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "fdatasync");
    delay("SYNC_US", file);
    return real(file);
}
