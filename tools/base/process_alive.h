// SPDX-License-Identifier: Apache-2.0
// Whether the process that wrote a journal is still there: a pid alone may have been given to another one.
#ifndef CT_ALIVE_H
#define CT_ALIVE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cutrace/format/journal.h>

// Bytes read of a small file of /proc, with a NUL behind them; 0 if it cannot be read.
static inline size_t ct_process_alive_read_file(const char *path, char *to, size_t size) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);
    if (fd >= 0)
        close(fd);
    to[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

// Field 22 of /proc/PID/stat, 0 if there is no such process or only its remains.
static inline uint64_t ct_process_alive_start_time(uint32_t pid) {
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%u/stat", pid);
    ct_process_alive_read_file(path, text, sizeof text);
    return ct_journal_process_start(text);
}

// Whether a process is called `pid` in its own namespace: the last number of NSpid.
static inline int ct_process_alive_has_inner_pid(uint32_t here, uint32_t pid) {
    char path[64], text[4096];
    (void)snprintf(path, sizeof path, "/proc/%u/status", here);
    ct_process_alive_read_file(path, text, sizeof text);
    const char *at = strstr(text, "\nNSpid:"), *last = NULL;
    for (at = at ? at + 7 : ""; *at && *at != '\n'; at++)
        if ((*at == '\t' || *at == ' ') && at[1] >= '0' && at[1] <= '9')
            last = at + 1;
    return last && strtoul(last, NULL, 10) == pid;
}

// The process's pid as it is seen from here, 0 if it has ended. In a container it may have another one in the
// journal; when it started is the same everywhere.
static inline uint32_t ct_process_alive_pid(const struct ct_journal *j) {
    char boot[64] = "";
    if (!j->pid || !j->process_start ||
        ct_process_alive_read_file("/proc/sys/kernel/random/boot_id", boot, sizeof boot) < sizeof j->boot_id ||
        memcmp(boot, j->boot_id, sizeof j->boot_id) != 0)
        return 0;
    if (ct_process_alive_start_time(j->pid) == j->process_start)
        return j->pid;
    uint32_t found = 0;
    DIR *all = opendir("/proc");
    for (const struct dirent *one; all && !found && (one = readdir(all));) {
        const uint32_t pid = (uint32_t)strtoul(one->d_name, NULL, 10);
        if (pid && ct_process_alive_start_time(pid) == j->process_start && ct_process_alive_has_inner_pid(pid, j->pid))
            found = pid;
    }
    if (all)
        closedir(all);
    return found;
}

// Where a journal lies: `path`, or what it leads to (`to`) if the recorder has put it elsewhere. Such a link is followed by hand:
// in a folder that all may write to, the kernel does not follow other users' links.
static inline const char *ct_journal_probe_path(const char *path, char *to, size_t size) {
    const ssize_t n = readlink(path, to, size - 1);
    to[n > 0 ? n : 0] = 0;
    return ct_journal_links_to_shm(to) ? to : path;
}

// NULL, or why a head is no journal that this program understands, as the end of a sentence.
static inline const char *ct_journal_probe_mismatch(const struct ct_journal *j) {
    if (memcmp(j->magic, CT_JOURNAL_MAGIC, sizeof j->magic) != 0)
        return "is no journal, or its process ended while making it";
    if (j->version != CT_JOURNAL_VERSION || j->header_bytes < sizeof *j)
        return "is of another version";
    if (j->layout_hash != ct_journal_layout())
        return "has other events than this version";
    return NULL;
}

#endif
