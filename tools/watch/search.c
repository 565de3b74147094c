// SPDX-License-Identifier: Apache-2.0
#include "watch/search.h"

#include <cutrace/format/journal.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/utf8.h"

// ---- folders ------------------------------------------------------------------------------------

enum { MOST_FILES = 1 << 16, PATH_SIZE = 4200 };
#define MOST_MAPS (UINT64_C(64) << 20) // bytes of /proc/PID/maps

const char *ct_watch_search_default(char *to, size_t size) {
    const char *pattern = getenv("CUTRACE_OUTPUT");
    if (!pattern || strlen(pattern) >= size)
        pattern = "";
    (void)snprintf(to, size, "%s", pattern);
    to[strcspn(to, "%")] = 0; // what is after it differs between processes
    char *slash = strrchr(to, '/');
    if (!slash)
        (void)snprintf(to, size, ".");
    else
        slash[slash == to] = 0;
    return to;
}

// Cuts ".journal" off. Returns 0 if the name has no such ending.
static int cut_suffix(char *name) {
    const size_t n = strlen(name), suffix = sizeof CT_JOURNAL_SUFFIX - 1;
    if (n <= suffix || strcmp(name + n - suffix, CT_JOURNAL_SUFFIX) != 0)
        return 0;
    name[n - suffix] = 0;
    return 1;
}

void ct_watch_search_folder(const char *folder, ct_watch_found *found, void *user) {
    DIR *d = opendir(folder);
    const struct dirent *one;
    for (int i = 0; d && i < MOST_FILES && (one = readdir(d)); i++) {
        char name[sizeof one->d_name];
        (void)snprintf(name, sizeof name, "%s", one->d_name); // (the record is as long as its name)
        if (cut_suffix(name))
            found(user, folder, name);
    }
    if (d)
        (void)closedir(d);
}

// ---- processes ----------------------------------------------------------------------------------

// The path is as the process sees it: this program may be in another container.
static void found_path(uint32_t pid, char *path, ct_watch_found *found, void *user) {
    char folder[PATH_SIZE + 64], trace[PATH_SIZE];
    struct stat here, there;
    char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof folder, "/proc/%u/root%s", pid, path);
    const int is_there = lstat(folder, &there) == 0,
              is_here = lstat(path, &here) == 0 && is_there && here.st_ino == there.st_ino &&
                        here.st_dev == there.st_dev;
    *slash = 0;
    (void)snprintf(trace, sizeof trace, "%s", slash + 1);
    if (!cut_suffix(trace))
        return;
    if (is_here)
        found(user, *path ? path : "/", trace);
    else if (is_there) {
        (void)snprintf(folder, sizeof folder, "/proc/%u/root%s", pid, path);
        found(user, folder, trace);
    }
}

// A line of /proc/PID/maps: range, rights, offset, device, inode, path.
static char *find_path(char *line) {
    char *path = strchr(line, '/');
    line[strcspn(line, "\n")] = 0;
    const size_t n = path ? strlen(path) : 0, suffix = sizeof CT_JOURNAL_SUFFIX - 1;
    return n > suffix && n < PATH_SIZE && strcmp(path + n - suffix, CT_JOURNAL_SUFFIX) == 0 ? path
                                                                                            : NULL;
}

void ct_watch_search_process(uint32_t pid, ct_watch_found *found, void *user) {
    char maps[64], last[PATH_SIZE] = "", *line = NULL, *path;
    size_t size = 0;
    uint64_t bytes = 0;
    ssize_t n;
    (void)snprintf(maps, sizeof maps, "/proc/%u/maps", pid);
    FILE *f = fopen(maps, "re");
    while (f && bytes < MOST_MAPS && (n = getline(&line, &size, f)) > 0) {
        bytes += (uint64_t)n;
        path = find_path(line);
        if (!path || strcmp(path, last) == 0)
            continue;
        (void)snprintf(last, sizeof last, "%s", path);
        found_path(pid, path, found, user);
    }
    free(line);
    if (f)
        (void)fclose(f);
}

void ct_watch_search_processes(ct_watch_found *found, void *user) {
    char path[64];
    struct stat st;
    DIR *all = opendir("/proc");
    for (const struct dirent *one; all && (one = readdir(all));) {
        const unsigned long pid = strtoul(one->d_name, NULL, 10);
        (void)snprintf(path, sizeof path, "/proc/%lu", pid);
        if (pid && pid <= UINT32_MAX && stat(path, &st) == 0 &&
            (geteuid() == 0 || st.st_uid == geteuid()))
            ct_watch_search_process((uint32_t)pid, found, user);
    }
    if (all)
        (void)closedir(all);
}

// ---- what could not be read ---------------------------------------------------------------------

void ct_watch_skips_clear(struct ct_watch_skips *s) {
    for (size_t i = 0; i < CT_WATCH_SKIPS; i++)
        free(s->text[i]);
    *s = (struct ct_watch_skips){.count = 0};
}

static int stat_journal(const char *folder, const char *name, struct stat *st) {
    char path[5000];
    return snprintf(path, sizeof path, "%s/%s%s", folder, name, CT_JOURNAL_SUFFIX) <
                   (int)sizeof path
               ? lstat(path, st)
               : -1;
}

int ct_watch_skips_has(const struct ct_watch_skips *s, const char *folder, const char *name) {
    struct stat st;
    if (stat_journal(folder, name, &st))
        return 0;
    for (size_t i = 0; i < s->count && i < CT_WATCH_SKIPS; i++)
        if (s->file[i].device == st.st_dev && s->file[i].inode == st.st_ino)
            return 1;
    return 0;
}

void ct_watch_skips_add(struct ct_watch_skips *s, const char *folder, const char *name,
                        const char *why) {
    char raw[700];
    struct stat st;
    const size_t i = s->count++;
    if (i >= CT_WATCH_SKIPS)
        return;
    (void)snprintf(raw, sizeof raw, "%.400s/%.100s%s: %s", folder, name, CT_JOURNAL_SUFFIX, why);
    s->text[i] = ct_heap_resize(NULL, sizeof raw, 1);
    ct_utf8_sanitize(s->text[i], sizeof raw, raw, strlen(raw));
    if (stat_journal(folder, name, &st) == 0) {
        s->file[i].device = st.st_dev;
        s->file[i].inode = st.st_ino;
    }
}
