// SPDX-License-Identifier: Apache-2.0
// Reads files of /proc and folders without stdio and readdir(3).
#define _GNU_SOURCE
#include "base/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/files.h"

size_t ct_read_file(const char *path, char *out, size_t size) {
    const int fd = ct_open(path, O_RDONLY);
    size_t n = 0;
    if (fd < 0)
        return 0;
    for (ssize_t got; n < size && (got = ct_read(fd, out + n, size - n)) > 0;)
        n += (size_t)got;
    ct_close(fd);
    return n;
}

const char *ct_base_name(const char *path) {
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int ct_read_number_after(const char *text, const char *label, uint64_t *number) {
    const size_t n = strlen(label);
    while (text && strncmp(text, label, n) != 0) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    if (!text)
        return 0;
    for (text += n; *text == ' ' || *text == '\t'; text++)
        ;
    const char *const digits = text;
    for (*number = 0; *text >= '0' && *text <= '9' && *number < UINT64_MAX >> 20; text++)
        *number = *number * 10 + (uint64_t)(*text - '0');
    return text > digits;
}

// ---- folders ----------------------------------------------------------------------------------

// As getdents64(2) returns it.
struct name_entry {
    uint64_t inode, offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

void ct_read_folder(int fd, struct ct_folder_room *room,
                    int (*visit)(void *user, const char *name, unsigned type), void *user) {
    const char *const from = room->bytes;
    long n;
    while ((n = ct_getdents(fd, room->bytes, sizeof room->bytes)) > 0)
        for (long at = 0; at < n; at += ((const struct name_entry *)(from + at))->bytes) {
            const struct name_entry *const e = (const void *)(from + at);
            if (visit(user, e->name, e->type))
                return;
        }
}

// ---- mappings ---------------------------------------------------------------------------------

enum { LINE_BYTES = 4096 + 128 };

struct number {
    uint64_t value;
    const char *behind;
};

static struct number parse(const char *at, unsigned base) {
    struct number n = {0, at};
    for (;; n.behind++) {
        const char c = *n.behind;
        const unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                               : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                      : base;
        if (digit >= base)
            return n;
        n.value = n.value * base + digit;
    }
}

// "START-END rwxp OFFSET MAJOR:MINOR INODE   PATH". Returns whether it is a mapping of a file.
static int parse_line(const char *line, struct ct_mapping *m) {
    struct number n = parse(line, 16);
    m->start = n.value;
    if (*n.behind != '-')
        return 0;
    n = parse(n.behind + 1, 16);
    m->end = n.value;
    const char *access = n.behind; // " rwxp "
    if (memchr(access, 0, sizeof " rwxp " - 1))
        return 0;
    m->is_executable = access[3] == 'x';
    n = parse(access + 6, 16);
    m->offset = n.value;
    if (*n.behind != ' ')
        return 0;
    n = parse(n.behind + 1, 16);
    m->device = n.value << 32;
    if (*n.behind != ':')
        return 0;
    n = parse(n.behind + 1, 16);
    m->device |= n.value;
    if (*n.behind != ' ')
        return 0;
    n = parse(n.behind + 1, 10);
    m->inode = n.value;
    m->path = n.behind + strspn(n.behind, " ");
    return *m->path == '/';
}

// A line as far as it has been read; what is too long is cut.
struct line {
    char text[LINE_BYTES];
    size_t used;
};

static void append(struct line *line, const char *from, size_t n) {
    const size_t room = sizeof line->text - 1 - line->used;
    const size_t kept = n < room ? n : room;
    memcpy(line->text + line->used, from, kept);
    line->used += kept;
    line->text[line->used] = 0;
}

int ct_maps_read(const char *file, int (*visit)(void *user, const struct ct_mapping *m),
                 void *user) {
    char block[4096];
    struct line line = {.used = 0};
    ssize_t got = 0;
    const int fd = ct_open(file, O_RDONLY);
    int is_end = 0;
    if (fd < 0)
        return -errno;
    while (!is_end && (got = ct_read(fd, block, sizeof block)) > 0)
        for (const char *at = block, *const end = block + got; at < end && !is_end;) {
            struct ct_mapping m;
            const char *const newline = memchr(at, '\n', (size_t)(end - at));
            append(&line, at, (size_t)((newline ? newline : end) - at));
            at = newline ? newline + 1 : end;
            if (!newline)
                continue;
            line.used = 0;
            is_end = parse_line(line.text, &m) && visit(user, &m);
        }
    const int rc = got < 0 ? -errno : 0;
    ct_close(fd);
    return rc;
}
