// SPDX-License-Identifier: Apache-2.0
// Finds a journal, and compares its header with this version.
#include "base/journal_probe.h"

#include <string.h>
#include <unistd.h>

// The link is followed by hand: in a folder that everybody may write to (/tmp), the kernel does not
// follow other users' links.
const char *ct_journal_probe_path(const char *path, char *to, size_t size) {
    const ssize_t n = readlink(path, to, size - 1);
    to[n > 0 ? n : 0] = 0;
    return ct_journal_links_to_shm(to) ? to : path;
}

const char *ct_journal_probe_mismatch(const struct ct_journal *j) {
    if (memcmp(j->magic, CT_JOURNAL_MAGIC, sizeof j->magic) != 0)
        return "is no journal, or its process ended while making it";
    if (j->version != CT_JOURNAL_VERSION || j->header_bytes < sizeof *j)
        return "is of another version";
    if (j->layout_hash != ct_journal_layout())
        return "has other events than this version";
    return NULL;
}
