/* Stands between a node and the system's fsync and clocks (LD_PRELOAD).
 *
 * CHAOS_SHIM names a file of 64-bit numbers that chaos/targets/shim.py writes while the node runs: the number of the set of
 * orders that counts, and two sets. A set has the delay of each fsync in nanoseconds, the errno that each fsync fails with
 * (0: none), an offset in nanoseconds for all clocks, a further one for the time of day, the time (CLOCK_MONOTONIC,
 * nanoseconds) since which all clocks run faster, and by how many billionths. The set that counts never changes, so that a
 * node never reads half of a change.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

struct orders {
    int64_t fsync_delay, fsync_errno, all_offset, day_offset, since, rate;
};

struct file {
    _Atomic int64_t counts;
    struct orders sets[2];
};

static struct file none;
static struct file *given = &none;

static const struct orders *orders(void) {
    return &given->sets[given->counts & 1];
}

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("CHAOS_SHIM");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *at = mmap(NULL, sizeof(struct file), PROT_READ, MAP_SHARED, file, 0);
    if (at != MAP_FAILED) given = at;
    close(file);
}

static int64_t true_monotonic(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

/* How far a clock is off now. */
static int64_t off(clockid_t clock) {
    const struct orders *now = orders();
    int64_t by = now->all_offset;
    if (now->rate) by += (int64_t)((__int128)(true_monotonic() - now->since) * now->rate / SECOND);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) by += now->day_offset;
    return by;
}

static int skewed(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC ||
           clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
}

static struct timespec moved(const struct timespec *from, int64_t by) {
    int64_t all = from->tv_sec * SECOND + from->tv_nsec + by;
    if (all < 0) all = 0;
    return (struct timespec){.tv_sec = all / SECOND, .tv_nsec = all % SECOND};
}

/* -- fsync ---------------------------------------------------------------------------------- */

static int sync_with(long number, int file) {
    int64_t delay = orders()->fsync_delay, failure = orders()->fsync_errno;
    if (delay) {
        struct timespec pause = {.tv_sec = delay / SECOND, .tv_nsec = delay % SECOND};
        nanosleep(&pause, NULL);
    }
    if (failure) {
        errno = (int)failure;
        return -1;
    }
    return (int)syscall(number, file);
}

int fsync(int file) { return sync_with(SYS_fsync, file); }
int fdatasync(int file) { return sync_with(SYS_fdatasync, file); }

/* -- clocks --------------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && skewed(clock)) {
        int64_t by = off(clock);
        if (by) *now = moved(now, by);
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec fine;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &fine)) return -1;
    now->tv_sec = fine.tv_sec;
    now->tv_usec = fine.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

/* -- waits until a time that the skewed clocks told, which the kernel must be told in its own -- */

static struct timespec true_time(clockid_t clock, const struct timespec *until) {
    return moved(until, -off(clock));
}

int sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict until) {
    static int (*real)(sem_t *, clockid_t, const struct timespec *);
    if (!real) real = (int (*)(sem_t *, clockid_t, const struct timespec *))dlsym(RTLD_NEXT, "sem_clockwait");
    struct timespec at = true_time(clock, until);
    return real(sem, clock, &at);
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict until) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real) real = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec at = true_time(CLOCK_REALTIME, until);
    return real(sem, &at);
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict until) {
    typedef int wait_t(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    static wait_t *real;
    if (!real) real = (wait_t *)dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    struct timespec at = true_time(clock, until);
    return real(cond, mutex, clock, &at);
}

/* Which clock a condition waits by is the second bit of its state (glibc, nptl/pthread_cond_common.c). */
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    clockid_t clock = cond->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return pthread_cond_clockwait(cond, mutex, clock, until);
}
