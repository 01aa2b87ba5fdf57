/*
 * Gives memory that was freed back to the operating system while the process is quiet.
 *
 * glibc keeps what was freed inside its heaps: after a burst of large requests the process would
 * stay as large as it was at its peak. glibc gives it back when malloc_trim is called. That is a
 * call which Rust lets be made in unsafe code alone, of which this project has none; so this file
 * is C, and runs a thread that does nothing else. It is linked in by build.rs and shares nothing
 * with the program.
 *
 * Static binaries have mimalloc, which needs no thread: it gives free memory back at once, if
 * that option is set.
 *
 * Trimming locks the heaps one after the other, and what is in use again soon has to be fetched
 * anew. So it is done after a pause in which the process had hardly anything to do, if there is
 * something to gain; and now and then all the same, if there is much.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#if defined(__GLIBC__)

/* Seconds between two looks. */
#define PAUSE 5
/* CPU time in a pause up to which the process counts as quiet: a twentieth of a core. */
#define QUIET_CLOCKS (PAUSE * CLOCKS_PER_SEC / 20)
#define MAPPED_MIN (256 << 10)
#define END_FREE_MAX (1 << 20)

/* Bytes that there have to be to gain. */
#define GAIN_MIN (4l << 20)
/* And without a quiet pause, after so many pauses. */
#define BUSY_GAIN_MIN (64l << 20)
#define BUSY_PAUSES 60

/*
 * Bytes that are in use, in heaps and in blocks of their own. mallinfo2 counts beyond 4 GiB and exists
 * since glibc 2.33. The binary of packages runs with older versions, too, so it is looked up while the
 * program runs; mallinfo, which it replaced, is off by multiples of 4 GiB in larger processes. That is
 * the same before and after a trim, so it costs a trim more at most.
 */
struct heap_counts {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
typedef struct heap_counts (*counter)(void);
static counter count_all;

static long used_bytes(void)
{
    if (count_all != 0) {
        struct heap_counts heaps = count_all();
        return (long)(heaps.uordblks + heaps.hblkhd);
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo heaps = mallinfo();
#pragma GCC diagnostic pop
    return (long)(unsigned)heaps.uordblks + (long)(unsigned)heaps.hblkhd;
}

/*
 * Bytes of the process that are in memory though they are not in use: what trimming may give back,
 * and what it never can, such as the program itself.
 */
static long unused_bytes(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "re");
    if (statm == 0)
        return 0;
    if (fscanf(statm, "%*s %ld", &pages) != 1)
        pages = 0;
    fclose(statm);
    return pages * sysconf(_SC_PAGESIZE) - used_bytes();
}

static void *look_again_and_again(void *unused)
{
    (void)unused;
    long settled = 0;
    int busy_pauses = 0;
    clock_t before = clock();
    for (;;) {
        sleep(PAUSE);
        clock_t now = clock();
        int is_quiet = now - before <= QUIET_CLOCKS;
        if (is_quiet || ++busy_pauses >= BUSY_PAUSES) {
            long unused = unused_bytes();
            if (unused > settled + (is_quiet ? GAIN_MIN : BUSY_GAIN_MIN)) {
                malloc_trim(0);
                settled = unused_bytes();
            } else if (unused < settled) {
                settled = unused;
            }
            busy_pauses = 0;
        }
        before = now;
    }
    return 0;
}

__attribute__((constructor)) static void start(void)
{
    sigset_t all, mask;
    pthread_t thread;
    *(void **)&count_all = dlsym(RTLD_DEFAULT, "mallinfo2");
    /*
     * What glibc would raise whenever a large block is freed, up to where it gives nothing back
     * any more: blocks from this size on come from the system, and what is free at the end of a
     * heap goes back from that size on.
     */
    mallopt(M_MMAP_THRESHOLD, MAPPED_MIN);
    mallopt(M_TRIM_THRESHOLD, END_FREE_MAX);
    /* Signals are for the threads of the program. */
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &mask) != 0)
        return;
    if (pthread_create(&thread, 0, look_again_and_again, 0) == 0) {
        pthread_setname_np(thread, "heap-trim");
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &mask, 0);
}

#elif defined(HAS_MIMALLOC)
#include <mimalloc.h>

/* By default it gives memory back a second later, and only if somebody asks for memory then. */
__attribute__((constructor)) static void start(void)
{
    mi_option_set(mi_option_purge_delay, 0);
}

#endif
