/* Preloaded into a FUSE file system's process: reads and syncs of files take longer by READ_US and SYNC_US. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static void delay(const char *name)
{
    const char *given = getenv(name);
    if (given != NULL)
        usleep((useconds_t)atoi(given));
}

ssize_t pread64(int file, void *buffer, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "pread64");
    delay("READ_US");
    return real(file, buffer, size, offset);
}

int fsync(int file)
{
    static int (*real)(int);
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "fsync");
    delay("SYNC_US");
    return real(file);
}

int fdatasync(int file)
{
    static int (*real)(int);
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "fdatasync");
    delay("SYNC_US");
    return real(file);
}
