// SPDX-License-Identifier: Apache-2.0
// What a search found and could not read, as "PATH: why", sanitized. Each search begins anew: a
// journal that was skipped because its process had only begun it is not told of for ever.
#ifndef CT_WATCH_SKIPS_H
#define CT_WATCH_SKIPS_H

#include <stddef.h>
#include <sys/types.h>

enum { CT_WATCH_SKIPS = 8 };

struct ct_watch_skips {
    char *text[CT_WATCH_SKIPS]; // the first ones
    struct {
        dev_t device;
        ino_t inode;
    } file[CT_WATCH_SKIPS]; // of each
    size_t count;           // of all
};

void ct_watch_skips_clear(struct ct_watch_skips *s);
// Whether the file is told of already, maybe by another path. `name` is that of the trace.
int ct_watch_skips_has(const struct ct_watch_skips *s, const char *folder, const char *name);
void ct_watch_skips_add(struct ct_watch_skips *s, const char *folder, const char *name,
                        const char *why);

#endif
