// SPDX-License-Identifier: Apache-2.0
#include "watch/skips.h"

#include <cutrace/format/journal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/heap.h"
#include "base/utf8.h"

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
