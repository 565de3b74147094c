// SPDX-License-Identifier: Apache-2.0
// Identifies a process among all others: by its start and the boot of its machine, from /proc.
#include "base/process_id.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cutrace/format/journal.h>

#include "base/print.h"
#include "base/read_file.h"

uint64_t ct_process_id_read_start_ticks(unsigned pid) {
    char path[32], stat[1024];
    ct_print(path, sizeof path, "/proc/%u/stat", pid);
    stat[ct_read_file(path, stat, sizeof stat - 1)] = 0;
    return ct_journal_process_start(stat);
}

static void read_boot_id(uint64_t boot_id[2]) {
    char text[16] = "";
    (void)ct_read_file("/proc/sys/kernel/random/boot_id", text, sizeof text);
    memcpy(boot_id, text, sizeof text);
}

void ct_process_id_read(uint64_t *now_ns, uint64_t *start_ticks, uint64_t boot_id[2]) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    *start_ticks = ct_process_id_read_start_ticks((unsigned)getpid());
    read_boot_id(boot_id);
}

int ct_process_id_is_alive(unsigned pid, uint64_t start_ticks, const uint64_t boot_id[2]) {
    uint64_t boot[2];
    read_boot_id(boot);
    if (!ct_process_id_read_start_ticks((unsigned)getpid()))
        return 1; // without /proc
    return !memcmp(boot, boot_id, sizeof boot) && start_ticks &&
           ct_process_id_read_start_ticks(pid) == start_ticks;
}

void ct_process_id_get_program_name(char *out, size_t size) {
    static char exe[4096]; // static: the host's thread may have a small stack
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = 0;
    char *deleted = strstr(exe, " (deleted)");
    if (deleted && !deleted[10])
        *deleted = 0;
    const char *const name = ct_base_name(exe);
    ct_print(out, size, "%.64s", *name ? name : *exe ? exe : "unknown");
}
