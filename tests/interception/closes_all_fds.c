// SPDX-License-Identifier: Apache-2.0
// Closes all descriptors, as daemons do, and opens files of its own, which must stay its own.
#define _GNU_SOURCE
#include "cu.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES = 20 };

static int begins_with(const char *task, const char *file, const char *want) {
    char path[300], text[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", task, file);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    return n > 0 && !strncmp(text, want, strlen(want));
}

// Whether there are threads of the recorder's name, and all of them wait on a futex.
static int recorder_waits(void) {
    char futex[16];
    int threads = 0, waiting = 0;
    snprintf(futex, sizeof futex, "%d ", SYS_futex);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));)
        if (begins_with(task->d_name, "comm", "cutrace\n")) {
            threads++;
            waiting += begins_with(task->d_name, "syscall", futex);
        }
    if (tasks)
        closedir(tasks);
    return threads && waiting == threads;
}

// The recorder's thread loads NVML and reads of its ancestors before it first waits on its futex:
// until then it has descriptors open, which nobody may close and use. It has its name later than
// it begins.
static void wait_for_recorder(void) {
    while (getenv("LD_PRELOAD") && !recorder_waits())
        usleep(1000);
}

int main(void) {
    int fd[FILES], bad = 0;
    char name[32];
    start(0);
    take(MIB);
    wait_for_recorder();
    for (int i = 3; i < 1024; i++)
        close(i);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "own.%d", i);
        fd[i] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd[i] < 0 || write(fd[i], "mine", 4) != 4)
            return 1;
    }
    for (int i = 0; i < 2000; i++)
        CU(cuMemFree_v2)(take(4096 + (size_t)i));
    CUdeviceptr p;
    T(cuMemAlloc_v2, &p, (size_t)1 << 50); // refused: flushed at once
    usleep(600000);
    for (int i = 0; i < FILES; i++) {
        struct stat st;
        if (fstat(fd[i], &st) || st.st_size != 4)
            bad++;
        snprintf(name, sizeof name, "own.%d", i);
        unlink(name);
    }
    printf("damaged %d\n", bad);
    return bad != 0;
}
