/* An nbdkit plugin (nbdkit cc): a file whose operations take the time of a shape, which a control file may change.
 *
 * Control lines, NAME=VALUE; what is not named is 0 and does nothing:
 *   tail_share, tail_ms      a share of all operations takes so long
 *   region_share, region_ms  reads of this share of all MiB, always the same ones, take so long
 *   stand_every_ms, stand_ms nothing ends for stand_ms, again and again
 *   iops, bucket, burst_iops operations a second; with a bucket, burst_iops until so many above iops are spent
 *   cache_mib, drain_mib     writes are free until so many MiB are unwritten, which drain at drain_mib a second
 *   knee, knee_ms            beyond so many operations under way each further one adds knee_ms
 *   kib_ms                   each KiB of an operation takes so long
 *   read_rise_ms, write_rise_ms  operations take so much longer with each second
 *   slice_ms, slice_ops      so many operations pass at once in each slice of time, the next ones wait for the next slice
 *   seek_ms                  one operation at a time, each takes 0.5 to 1.5 times as long
 *   turn_ms                  one change between reads and writes at a time, each takes so long
 * Beside the control file, FILE.counts has operations delayed and the milliseconds of all delays.
 */
#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#include <nbdkit-plugin.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TAIL_SHARE, TAIL_MS, REGION_SHARE, REGION_MS, STAND_EVERY_MS, STAND_MS, IOPS, BUCKET, BURST_IOPS,
       CACHE_MIB, DRAIN_MIB, KNEE, KNEE_MS, KIB_MS, READ_RISE_MS, WRITE_RISE_MS, SLICE_MS, SLICE_OPS, SEEK_MS,
       TURN_MS, VALUES };
static const char *names[VALUES] = { "tail_share", "tail_ms", "region_share", "region_ms", "stand_every_ms",
    "stand_ms", "iops", "bucket", "burst_iops", "cache_mib", "drain_mib", "knee", "knee_ms",
    "kib_ms", "read_rise_ms", "write_rise_ms", "slice_ms", "slice_ops", "seek_ms", "turn_ms" };
static double value[VALUES], begun_ms, credits, next_ms, unwritten_mib, drained_ms, read_ms, counted_ms;
static double slice_begin_ms, slice_used, arm_free_ms;
static int last_was_write;
static struct timespec changed;
static char *file, *control;
static int fd = -1;
static atomic_int under_way;
static double delayed, delayed_ms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread unsigned seed;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * t.tv_sec + t.tv_nsec / 1e6;
}

static void read_control(double now) {   /* under the lock */
  struct stat status;
  if (now - read_ms < 20 || !control || stat(control, &status)) return;
  read_ms = now;
  if (!memcmp(&status.st_mtim, &changed, sizeof changed)) return;
  changed = status.st_mtim;
  memset(value, 0, sizeof value);
  FILE *in = fopen(control, "r");
  char line[200];
  while (in && fgets(line, sizeof line, in))
    for (int i = 0; i < VALUES; i++) {
      size_t length = strlen(names[i]);
      if (!strncmp(line, names[i], length) && line[length] == '=') value[i] = atof(line + length + 1);
    }
  if (in) fclose(in);
  begun_ms = next_ms = drained_ms = now;
  credits = value[BUCKET];
  unwritten_mib = slice_used = 0;
  slice_begin_ms = arm_free_ms = now;
}

static void count(double now, double wait) {   /* under the lock */
  if (wait > 0.2) { delayed++; delayed_ms += wait; }
  if (now - counted_ms < 100) return;
  counted_ms = now;
  char name[4096], partial[4096];
  snprintf(name, sizeof name, "%s.counts", control);
  snprintf(partial, sizeof partial, "%s.partial", control);
  FILE *out = fopen(partial, "w");
  if (!out) return;
  fprintf(out, "%.0f %.3f\n", delayed, delayed_ms);
  fclose(out);
  rename(partial, name);
}

static void sleep_until(double until) {
  double rest = until - now_ms();
  if (rest > 0) {
    struct timespec t = { (time_t) (rest / 1000), (long) (1e6 * (rest - 1000 * (long) (rest / 1000))) };
    nanosleep(&t, NULL);
  }
}

static double later(double a, double b) { return a > b ? a : b; }

/* When one slice, and one arm, are done with an operation that comes now. Under the lock. */
static double queued(double now, int is_write) {
  double until = now, cost = 0;
  if (value[SLICE_MS] > 0) {
    if (now >= slice_begin_ms + value[SLICE_MS]) {
      slice_begin_ms = now - (now - begun_ms) + value[SLICE_MS] * (long) ((now - begun_ms) / value[SLICE_MS]);
      slice_used = 0;
    }
    if (slice_used >= value[SLICE_OPS]) { slice_begin_ms += value[SLICE_MS]; slice_used = 0; }
    slice_used++;
    until = later(until, slice_begin_ms);
  }
  if (value[SEEK_MS] > 0) cost += value[SEEK_MS] * (0.5 + rand_r(&seed) / (double) RAND_MAX);
  if (value[TURN_MS] > 0 && is_write != last_was_write) cost += value[TURN_MS];
  last_was_write = is_write;
  arm_free_ms = later(arm_free_ms, now) + cost;
  return later(until, arm_free_ms);
}

static void wait_for(uint64_t offset, uint32_t bytes, int is_write) {
  double now = now_ms(), until = now;
  int mine = atomic_fetch_add(&under_way, 1) + 1;
  if (!seed) seed = (unsigned) (now * 1000) ^ (unsigned) (size_t) &until;
  pthread_mutex_lock(&lock);
  read_control(now);
  if (value[TAIL_SHARE] > 0 && rand_r(&seed) / (double) RAND_MAX < value[TAIL_SHARE]) until += value[TAIL_MS];
  if (!is_write && value[REGION_SHARE] > 0
      && ((offset >> 20) * 2654435761u % 1000) / 1000.0 < value[REGION_SHARE]) until += value[REGION_MS];
  if (value[STAND_EVERY_MS] > 0) {
    double at = now - begun_ms, of = value[STAND_EVERY_MS];
    double within = at - of * (long) (at / of);
    if (at > of && within < value[STAND_MS]) until += value[STAND_MS] - within;
  }
  if (value[IOPS] > 0) {
    double rate = credits > 0 ? value[BURST_IOPS] : value[IOPS];
    double start = next_ms > now ? next_ms : now;
    if (value[BUCKET] > 0) {
      credits += (start - next_ms) * value[IOPS] / 1000 - (credits > 0 ? 1 - value[IOPS] / rate : 0);
      if (credits > value[BUCKET]) credits = value[BUCKET];
    }
    next_ms = start + 1000 / rate;
    if (start > until) until = start;
  }
  if (value[CACHE_MIB] > 0) {
    unwritten_mib -= (now - drained_ms) * value[DRAIN_MIB] / 1000;
    drained_ms = now;
    if (unwritten_mib < 0) unwritten_mib = 0;
    if (is_write) unwritten_mib += bytes / 1048576.0;
    if (is_write && unwritten_mib > value[CACHE_MIB])
      until += (unwritten_mib - value[CACHE_MIB]) / value[DRAIN_MIB] * 1000;
  }
  if (value[KNEE] > 0 && mine > value[KNEE]) until += value[KNEE_MS] * (mine - value[KNEE]);
  until += value[KIB_MS] * bytes / 1024 + value[is_write ? WRITE_RISE_MS : READ_RISE_MS] * (now - begun_ms) / 1000;
  until = later(until, queued(now, is_write));
  count(now, until - now);
  pthread_mutex_unlock(&lock);
  sleep_until(until);
}

static int shapes_config(const char *key, const char *text) {
  if (!strcmp(key, "file")) file = nbdkit_absolute_path(text);
  else if (!strcmp(key, "control")) control = nbdkit_absolute_path(text);
  else { nbdkit_error("unknown parameter %s", key); return -1; }
  return 0;
}

static int shapes_get_ready(void) {
  fd = file ? open(file, O_RDWR) : -1;
  if (fd < 0) nbdkit_error("cannot open the file: %s", strerror(errno));
  return fd < 0 ? -1 : 0;
}

static void *shapes_open(int readonly) { (void) readonly; return NBDKIT_HANDLE_NOT_NEEDED; }

static int64_t shapes_get_size(void *handle) {
  struct stat status;
  (void) handle;
  return fstat(fd, &status) ? -1 : status.st_size;
}

static int shapes_pread(void *handle, void *buffer, uint32_t bytes, uint64_t offset, uint32_t flags) {
  (void) handle; (void) flags;
  wait_for(offset, bytes, 0);
  for (uint32_t done = 0; done < bytes;) {
    ssize_t got = pread(fd, (char *) buffer + done, bytes - done, offset + done);
    if (got <= 0) { atomic_fetch_sub(&under_way, 1); nbdkit_error("pread: %m"); return -1; }
    done += got;
  }
  atomic_fetch_sub(&under_way, 1);
  return 0;
}

static int shapes_pwrite(void *handle, const void *buffer, uint32_t bytes, uint64_t offset, uint32_t flags) {
  (void) handle; (void) flags;
  wait_for(offset, bytes, 1);
  for (uint32_t done = 0; done < bytes;) {
    ssize_t put = pwrite(fd, (const char *) buffer + done, bytes - done, offset + done);
    if (put <= 0) { atomic_fetch_sub(&under_way, 1); nbdkit_error("pwrite: %m"); return -1; }
    done += put;
  }
  atomic_fetch_sub(&under_way, 1);
  return 0;
}

static int shapes_flush(void *handle, uint32_t flags) {
  (void) handle; (void) flags;
  return fdatasync(fd);
}

/* All connections share one file descriptor, so that a flush by one is a flush for all. */
static int shapes_can_multi_conn(void *handle) { (void) handle; return 1; }

static struct nbdkit_plugin plugin = {
  .name = "shapes", .version = "1", .config = shapes_config, .get_ready = shapes_get_ready, .open = shapes_open,
  .get_size = shapes_get_size, .pread = shapes_pread, .pwrite = shapes_pwrite, .flush = shapes_flush,
  .can_multi_conn = shapes_can_multi_conn,
};
NBDKIT_REGISTER_PLUGIN(plugin)
