// SPDX-License-Identifier: Apache-2.0
// The library's files are not in the program's table: compared with what the kernel says of it.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/unit.h"
#include "base/files.h"

#define PATH "/proc/self/exe"

#ifdef __SANITIZE_THREAD__
#define THREADS_OF_SANITIZER 1 // from the first thread on
#else
#define THREADS_OF_SANITIZER 0
#endif

static int lowest_free(void) {
    const int fd = dup(STDERR_FILENO);
    close(fd);
    return fd;
}

// Whether another process could lock all of the file, that is, this one holds no lock on it.
static int is_unlocked(void) {
    const pid_t child = fork();
    if (!child) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        const int fd = open(PATH, O_RDONLY);
        _exit(fcntl(fd, F_GETLK, &l) ? 2 : l.l_type == F_UNLCK);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

static int is_emulated(void) {
    const char *const run = getenv("CUTRACE_RUN");
    return run && strstr(run, "qemu");
}

// qemu aborts when a forked child creates a thread, ThreadSanitizer ends the child.
static int may_thread_in_a_child(void) {
    return !THREADS_OF_SANITIZER && !is_emulated();
}

// Old kernels refuse the table; an emulator of programs lies between it and the kernel.
static int has_tables(void) {
    if (is_emulated())
        return 0;
    const pid_t child = fork();
    if (!child)
        _exit(syscall(436 /* close_range */, 0u, ~0u, 2 /* CLOSE_RANGE_UNSHARE */) != 0);
    int status = 1;
    return waitpid(child, &status, 0) == child && !status;
}

TEST(before_the_start_the_caller_opens) {
    assert_false(ct_files_are_apart());
    assert_non_null(ct_files_get_reason());
    const int free_one = lowest_free(), fd = ct_open(PATH, O_RDONLY);
    assert_int_equal(fd, free_one);
    ct_close(fd);
    assert_int_equal(lowest_free(), free_one);
    const int saved = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    const int high = ct_open(PATH, O_RDONLY);
    assert_true(high > STDERR_FILENO);
    assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
    ct_close(high);
    assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
    close(saved);
}

static void *open_often(void *wrong) {
    for (int i = 0; i < 5000; i++) {
        const int fd = ct_open(PATH, O_RDONLY);
        *(int *)wrong += fd <= STDERR_FILENO;
        ct_close(fd);
    }
    return NULL;
}

// In a child, whose descriptor 0 nobody uses.
TEST(two_callers_open_at_once) {
    int status = 1;
    if (!may_thread_in_a_child())
        skip();
    const pid_t child = fork();
    if (!child) {
        pthread_t thread[2];
        int wrong[2] = {0};
        close(STDIN_FILENO);
        for (int i = 0; i < 2; i++)
            pthread_create(&thread[i], NULL, open_often, &wrong[i]);
        for (int i = 0; i < 2; i++)
            pthread_join(thread[i], NULL);
        _exit(wrong[0] || wrong[1] || fcntl(STDIN_FILENO, F_GETFD) >= 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(no_number_of_the_programs) {
    char text[4] = "";
    struct stat st, same;
    if (!has_tables())
        skip();
    const unsigned threads = ct_files_count_other_threads(); // an emulator has its own
    assert_true(threads >= 1);
    ct_files_start();
    assert_true(ct_files_are_apart());
    assert_null(ct_files_get_reason());
    assert_int_equal(ct_files_count_other_threads(), threads + THREADS_OF_SANITIZER);
    const int free_one = lowest_free(), fd = ct_open(PATH, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(lowest_free(), free_one);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(ct_pread(fd, text, sizeof text, 0), sizeof text);
    assert_memory_equal(text, "\177ELF", sizeof text);
    assert_int_equal(ct_fstat(fd, &st), 0);
    assert_int_equal(stat(PATH, &same), 0);
    assert_int_equal(st.st_ino, same.st_ino);
    ct_close(fd);
    assert_int_equal(ct_fstat(fd, &st), -1);
    assert_int_equal(errno, EBADF);
    assert_int_equal(ct_open("/proc/nowhere", O_RDONLY), -1);
    assert_int_equal(errno, ENOENT);
}

TEST(a_lock_is_kept) {
    if (!ct_files_are_apart())
        skip();
    const int fd = open(PATH, O_RDONLY);
    struct flock l = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(fd, F_SETLK, &l), 0);
    ct_close(ct_open(PATH, O_RDONLY));
    assert_false(is_unlocked());
    close(open(PATH, O_RDONLY)); // what POSIX says of any descriptor of the file
    assert_true(is_unlocked());
    close(fd);
}

TEST(a_child_has_no_keepers) {
    if (!ct_files_are_apart())
        skip();
    const int fd = ct_open(PATH, O_RDONLY);
    const pid_t child = fork();
    if (!child) {
        struct stat st;
        ct_files_reinit_child();
        if (ct_files_are_apart() || !ct_fstat(fd, &st) || errno != EBADF)
            _exit(1);
        if (may_thread_in_a_child()) {
            ct_files_start();
            if (!ct_files_are_apart() || ct_open(PATH, O_RDONLY) < 0)
                _exit(2);
        }
        _exit(0);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ct_close(fd);
}

static sem_t begun, may_end;

static long waits(void *unused) {
    (void)unused;
    sem_post(&begun);
    while (sem_wait(&may_end))
        ;
    return 7;
}

static void *ask(void *result) {
    *(long *)result = ct_files_run(waits, NULL);
    return NULL;
}

// One keeper in a call that does not return leaves the other one; both do not hold a third caller
// for ever.
TEST(busy_keepers) {
    pthread_t thread[2];
    long result[2] = {0};
    if (!ct_files_are_apart())
        skip();
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    for (int i = 0; i < 2; i++) {
        const int fd = ct_open(PATH, O_RDONLY);
        assert_true(fd >= 0);
        ct_close(fd);
        assert_int_equal(pthread_create(&thread[i], NULL, ask, &result[i]), 0);
        sem_wait(&begun);
    }
    assert_int_equal(ct_open(PATH, O_RDONLY), -1);
    assert_int_equal(errno, EBUSY);
    for (int i = 0; i < 2; i++)
        sem_post(&may_end);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(result[i], 7);
    }
}
