// SPDX-License-Identifier: Apache-2.0
// Programs that depend on the numbers of their descriptors, on who shares them, and on their locks.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

// ---- started with closed standard descriptors, and prints all the same
static atomic_int printing, stop, printed;
static int is_closed[3];

static void *print(void *unused) {
    char junk[512];
    memset(junk, 0xee, sizeof junk);
    atomic_store(&printing, 1);
    while (!atomic_load(&stop))
        for (int fd = 0; fd < 3; fd++)
            if (is_closed[fd] && write(fd, junk, sizeof junk) > 0)
                atomic_fetch_add(&printed, 1);
    return unused;
}

static int prints_nowhere(const char *unused) {
    pthread_t printer;
    (void)unused;
    for (int fd = 0; fd < 3; fd++)
        is_closed[fd] = fcntl(fd, F_GETFD) < 0;
    pthread_create(&printer, NULL, print, NULL);
    while (!atomic_load(&printing))
        sched_yield();
    begin();
    for (int i = 0; i < 10; i++)
        run_threads(20, 0, use_in_thread, (void *)10);
    atomic_store(&stop, 1);
    pthread_join(printer, NULL);
    note("printed %d times to closed descriptors\n", atomic_load(&printed));
    return 0;
}

// ---- locks of files that others read, too: one close by this process, and a lock is gone
static const char *locked[] = {"/proc/self/exe",     "/proc/self/maps", "/proc/self/mem",
                               "/proc/self/cmdline", "/proc/meminfo",   "/proc/self/cgroup",
                               "the driver"};
enum { LOCKED = sizeof locked / sizeof *locked };

static void take_locks(int *fd) {
    Dl_info driver;
    if (dladdr((void *)(uintptr_t)cuInit, &driver))
        locked[LOCKED - 1] = driver.dli_fname;
    for (int i = 0; i < LOCKED; i++) {
        struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
        fd[i] = open(locked[i], O_RDONLY | O_CLOEXEC);
        if (fcntl(fd[i], F_SETLK, &whole))
            note("%s cannot be locked: %s\n", locked[i], strerror(errno));
    }
}

// Another process is asked: what this one holds itself is no obstacle for it.
static int note_held(const int *fd) {
    const pid_t pid = fork();
    for (int i = 0; i < LOCKED && !pid; i++) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        const int bad = fcntl(fd[i], F_GETLK, &whole);
        note("%s %s\n", locked[i], bad || whole.l_type == F_UNLCK ? "is not locked" : "is locked");
    }
    if (!pid)
        _exit(write_notes());
    return waitpid(pid, NULL, 0) != pid;
}

static int locks(const char *unused) {
    int fd[LOCKED];
    (void)unused;
    take_locks(fd);
    begin();
    run_threads(4, 0, use_in_thread, (void *)10);
    refuse(); // its line has the caller's name
    return write_notes() || note_held(fd);
}

// ---- a descriptor that was stderr is a file now
static int opens_database(const char *unused) {
    (void)unused;
    begin();
    close(STDERR_FILENO);
    const int fd = open("database", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (write(fd, "DATA", 4) != 4)
        return 1;
    for (int i = 0; i < 3; i++)
        refuse();
    return fd != STDERR_FILENO;
}

// ---- threads with descriptors of their own, where others might have theirs
static atomic_int turn;

static void *take_own_table(void *number) {
    char name[32];
    struct stat st;
    if (unshare(CLONE_FILES))
        abort();
    snprintf(name, sizeof name, "own.%d", (int)(intptr_t)number);
    const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (int i = 950; i < 980; i++)
        dup2(fd, i);
    use_in_thread((void *)9000);                        // more than a ring holds
    while (atomic_load(&turn) != (int)(intptr_t)number) // the notes have one order
        sched_yield();
    note("---- thread %d, %s has %d bytes\n", (int)(intptr_t)number, name,
         fstat(fd, &st) ? -1 : (int)st.st_size);
    note_descriptors();
    atomic_fetch_add(&turn, 1);
    return NULL;
}

// The recorder's thread gets hardly any processor: others have to do its work.
static void starve_recorder(void) {
    const struct sched_param none = {0};
    char path[64], name[16] = "";
    for (pid_t tid = getpid(); tid < getpid() + 10; tid++) {
        snprintf(path, sizeof path, "/proc/self/task/%d/comm", tid);
        FILE *f = fopen(path, "re");
        if (f && fgets(name, sizeof name, f) && !strcmp(name, "cutrace\n"))
            sched_setscheduler(tid, SCHED_IDLE, &none);
        if (f)
            fclose(f);
    }
}

static int own_tables(const char *unused) {
    (void)unused;
    begin();
    starve_recorder();
    for (int round = 0; round < 3; round++) {
        atomic_store(&turn, 0);
        run_threads(4, 0, take_own_table, NULL);
    }
    return 0;
}

// ---- a daemon closes what it inherited and opens its own files
enum { FILES = 20 };

static void note_files(const int *fd) {
    for (int i = 0; i < FILES; i++) {
        struct stat st;
        note("file %d is %d: %s", i, fd[i], fstat(fd[i], &st) ? strerror(errno) : "");
        note("%d bytes\n", (int)st.st_size);
    }
}

// The argument, a number, moves the moment.
static int closes_and_opens(const char *when) {
    int fd[FILES];
    char name[32];
    begin();
    use(atoi(when));
    for (int i = 3; i < 1024; i++)
        close(i);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "own.%d", i);
        fd[i] = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    }
    for (int i = 0; i < FILES; i++) {
        if (pwrite(fd[i], "mine", 4, 0) != 4)
            note("file %d: %s\n", i, strerror(errno));
        use(10);
    }
    refuse();
    note_files(fd);
    return 0;
}

// ---- so many descriptors are free, and no more
static int fills_table(const char *free_ones) {
    enum { FEW = 32 };
    struct rlimit few = {FEW, FEW};
    setrlimit(RLIMIT_NOFILE, &few);
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        ;
    for (int i = 0; i < atoi(free_ones); i++)
        close(FEW - 1 - i);
    begin();
    run_threads(4, 0, use_in_thread, (void *)10);
    refuse();
    note("the next one: %d\n", open("/dev/null", O_RDONLY | O_CLOEXEC));
    for (int i = FEW / 2; i < FEW; i++) // for what is noted now
        close(i);
    return 0;
}

// ---- a reader gets end-of-file when the last writer closes
static void close_and_look(const char *what, int reader, int writer) {
    struct pollfd ends = {.fd = reader, .events = POLLIN};
    close(writer);
    const int n = poll(&ends, 1, 0);
    note("%s: %d, events %x\n", what, n, (unsigned)ends.revents);
}

static int closes_pipes(const char *unused) {
    int before[2], after[2], sockets[2];
    (void)unused;
    if (pipe2(before, O_CLOEXEC) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        return 1;
    begin();
    refuse();
    if (pipe2(after, O_CLOEXEC))
        return 1;
    close_and_look("a pipe from before", before[0], before[1]);
    close_and_look("a pipe", after[0], after[1]);
    close_and_look("a socket", sockets[0], sockets[1]);
    return 0;
}

// ---- no file is opened by what it calls (watch_files.c tells of this from outside)
static int opens_nothing(const char *unused) {
    (void)unused;
    void *const late = dlopen("libm.so.6", RTLD_NOW);
    close(-4711); // the watch begins
    begin();
    run_threads(4, 0, use_in_thread, (void *)200);
    refuse();
    dlclose(late);
    run_threads(4, 0, use_in_thread, (void *)10);
    fflush(stdout);
    exit(0);
}

const struct kind descriptor_kinds[] = {{"prints-nowhere", prints_nowhere},
                                        {"locks", locks},
                                        {"opens-database", opens_database},
                                        {"own-tables", own_tables},
                                        {"closes-and-opens", closes_and_opens},
                                        {"fills-table", fills_table},
                                        {"closes-pipes", closes_pipes},
                                        {"opens-nothing", opens_nothing},
                                        {NULL, NULL}};
