// SPDX-License-Identifier: Apache-2.0
// The version of a package is in the name of a folder that installers put beside it:
// vllm/... and vllm-0.33.0.dist-info. Nothing is known of code that lies elsewhere than its
// dist-info (editable installs), of packages with an .egg-info only, and where two versions are
// installed.
//
// Entries are added by the drainer and never change: the writer thread reads those below `noted`
// without a lock. Both counts survive a fork, so that a child reads what its parent had not.
#define _GNU_SOURCE
#include "write/package_versions.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include <cutrace/format/assert.h>

#include "base/files.h"
#include "base/options.h"
#include "base/print.h"
#include "base/read_file.h"
#include "write/drain_lock.h"
#include "write/info_table.h"

#define MAX_NOTED 64u
#define ROOT_BYTES 1024u
#define VERSION_BYTES 64u
#define MAX_ENTRIES 20000u // of a folder

static const struct package {
    const char *name;
    enum { RUNS, LIES } kind;
    const char *folder;
    const char *distributions; // separated by spaces
} packages[] = {
#define CT_PACKAGE(name, kind, folder, distributions, why) {name, kind, folder, distributions},
#include "write/packages.def"
};
enum { PACKAGES = sizeof packages / sizeof *packages };

// A package, and the folder that its own folder lies in.
static struct {
    uint32_t package, root_bytes;
    char root[ROOT_BYTES];
} entries[MAX_NOTED];
static _Atomic uint32_t noted, read_up_to;

// ---- noting -----------------------------------------------------------------------------------

static int is_noted(uint32_t package, const char *root, size_t n) {
    for (uint32_t i = 0; i < atomic_load(&noted); i++)
        if (entries[i].package == package && entries[i].root_bytes == n &&
            !memcmp(entries[i].root, root, n))
            return 1;
    return 0;
}

static void note_package(uint32_t package, const char *root, size_t n) {
    const uint32_t i = atomic_load(&noted);
    if (i == MAX_NOTED || n >= ROOT_BYTES || is_noted(package, root, n))
        return;
    entries[i].package = package;
    entries[i].root_bytes = (uint32_t)n;
    memcpy(entries[i].root, root, n);
    entries[i].root[n] = 0;
    atomic_store_explicit(&noted, i + 1, memory_order_release);
}

// Notes the package whose folder begins at path + i, if there is one.
static void note_at(const char *path, size_t n, size_t i) {
    for (uint32_t k = 0; k < PACKAGES; k++) {
        const size_t length = strlen(packages[k].folder);
        if (i + length < n && path[i] == *packages[k].folder && path[i + length] == '/' &&
            !memcmp(path + i, packages[k].folder, length))
            note_package(k, path, i - 1);
    }
}

// The place after the last folder of installed packages in a path; 0: there is none.
static size_t find_installed(const char *path, size_t n) {
    static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
    enum { LENGTH = sizeof "/site-packages/" - 1 };
    for (size_t i = n; i >= LENGTH; i--)
        for (size_t k = 0; k < sizeof folders / sizeof *folders; k++)
            if (!memcmp(path + i - LENGTH, folders[k], LENGTH))
                return i;
    return 0;
}

void ct_package_versions_note(const char *path, size_t n) {
    CT_ASSERT(ct_drain_lock_is_held());
    if (!n || *path != '/')
        return;
    const size_t installed = find_installed(path, n);
    if (installed) {
        note_at(path, n, installed);
        return;
    }
    for (size_t i = 1; i < n; i++)
        if (path[i - 1] == '/')
            note_at(path, n, i);
}

// ---- names of folders -------------------------------------------------------------------------

static int is_joint(char c) {
    return c == '-' || c == '_' || c == '.';
}

// The length of a distribution's name at the start of a folder's name; 0: it is another one's.
// Upper case, and which of - _ . joins words, do not matter.
static size_t match_distribution(const char *name, const char *distribution, size_t n) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const char c = distribution[i];
        if (c == '*') {
            while (name[at] >= '0' && name[at] <= '9')
                at++;
            continue;
        }
        if (is_joint(c) ? !is_joint(name[at]) : strncasecmp(&name[at], &c, 1) != 0)
            return 0;
        at++;
    }
    return name[at] == '-' && name[at + 1] >= '0' && name[at + 1] <= '9' ? at : 0;
}

// The part of NAME-VERSION.dist-info that is the version of a package; NULL: it is another one's.
static const char *find_version(const char *name, const char *distributions) {
    for (const char *at = distributions; *at; at += *at == ' ') {
        const size_t n = strcspn(at, " "), matched = match_distribution(name, at, n);
        if (matched)
            return name + matched + 1;
        at += n;
    }
    return NULL;
}

static int is_version(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'z') ||
              (text[i] >= 'A' && text[i] <= 'Z') || strchr(".+!_-", text[i])))
            return 0;
    return n && n < VERSION_BYTES;
}

// ---- folders ----------------------------------------------------------------------------------

// The versions in the folder that is being read. `count`: how many dist-info folders say one.
static struct {
    char version[VERSION_BYTES];
    uint32_t count;
} found[PACKAGES];

static void add_name(const char *name) {
    static const char suffix[] = ".dist-info";
    const size_t n = strlen(name), s = sizeof suffix - 1;
    if (n <= s || memcmp(name + n - s, suffix, s) != 0)
        return;
    for (uint32_t k = 0; k < PACKAGES; k++) {
        const char *version = find_version(name, packages[k].distributions);
        const size_t length = version ? (size_t)(name + n - s - version) : 0;
        if (!version || !is_version(version, length))
            continue;
        found[k].count++;
        ct_print(found[k].version, sizeof found[k].version, "%.*s", (int)length, version);
    }
}

static int add_counted_name(void *names, const char *name, unsigned type) {
    (void)type;
    if (++*(uint32_t *)names > MAX_ENTRIES)
        return 1;
    add_name(name);
    return 0;
}

static void read_names(int fd) {
    struct ct_folder_room room;
    uint32_t names = 0;
    memset(found, 0, sizeof found);
    ct_read_folder(fd, &room, add_counted_name, &names);
}

void ct_package_versions_publish(const char *key, const char *version) {
    const size_t n = CT_OPTION_NUMBER(PRIVATE) ? strcspn(version, "+") : strlen(version);
    ct_info_set(key, "%.*s", (int)n, version);
}

// Whether a folder is a package's, not one that happens to have its name.
static int is_package(int fd, const char *folder) {
    char path[128];
    ct_print(path, sizeof path, "%s/__init__.py", folder);
    return !ct_faccessat(fd, path);
}

// A package that was seen counts, whatever lies beside another one.
static void publish_found(int fd, uint32_t seen) {
    static uint8_t was_seen[PACKAGES];
    was_seen[seen] |= (uint8_t)is_package(fd, packages[seen].folder);
    for (uint32_t k = 0; k < PACKAGES; k++) {
        char key[64];
        if (found[k].count != 1 || (k != seen && (packages[k].kind == RUNS || was_seen[k])) ||
            ct_faccessat(fd, packages[k].folder))
            continue;
        ct_print(key, sizeof key, "version.%s", packages[k].name);
        ct_package_versions_publish(key, found[k].version);
    }
}

void ct_package_versions_read(void) {
    for (uint32_t i; (i = atomic_load(&read_up_to)) < atomic_load(&noted);) {
        const char *root = *entries[i].root ? entries[i].root : "/";
        const int fd = ct_open(root, O_RDONLY | O_DIRECTORY);
        if (fd >= 0) {
            read_names(fd);
            publish_found(fd, entries[i].package);
            ct_close(fd);
        }
        atomic_store(&read_up_to, i + 1);
    }
}

int ct_package_versions_has_unread(void) {
    return atomic_load(&read_up_to) < atomic_load(&noted);
}
