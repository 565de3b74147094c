// SPDX-License-Identifier: Apache-2.0
// File names from patterns.
#define _GNU_SOURCE
#include "store/file_pattern.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/print.h"

struct out {
    char *at, *end; // end: place of the NUL
    int full;
};

static void put(struct out *o, char c) {
    if (o->at == o->end)
        o->full = 1;
    else
        *o->at++ = c;
}

static void put_text(struct out *o, const char *text) {
    for (; *text; text++)
        put(o, *text);
}

static void put_tame(struct out *o, const char *text) {
    const char *start = o->at;
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        // A leading dot could make a name "." or ".." or hide the file.
        put(o, c < 0x20 || c == 0x7f || c == '/' || (c == '.' && o->at == start) ? '_' : *text);
    }
}

static void put_number(struct out *o, uint64_t v) {
    char digits[24];
    ct_print(digits, sizeof digits, "%lu", v);
    put_text(o, digits);
}

void ct_process_id_get_program_name(char *out, size_t size) {
    static char exe[4096]; // drainer only; a host's thread may have a small stack
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = 0;
    char *deleted = strstr(exe, " (deleted)");
    if (deleted && !deleted[10])
        *deleted = 0;
    const char *slash = strrchr(exe, '/');
    const char *name = slash && slash[1] ? slash + 1 : *exe ? exe : "unknown";
    ct_print(out, size, "%.64s", name);
}

// The rank of this process among those that run together, as their launchers tell it.
static const char *rank(void) {
    static const char *const names[] = {"RANK",      "LOCAL_RANK", "OMPI_COMM_WORLD_RANK",
                                        "PMIX_RANK", "PMI_RANK",   "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return value;
    }
    return "x";
}

// %q{VAR}: returns what follows it, or NULL if it is not closed.
static const char *put_variable(struct out *o, const char *at) {
    char name[128];
    const char *end = *at == '{' ? strchr(at, '}') : NULL;
    if (!end || (size_t)(end - at) > sizeof name)
        return NULL;
    ct_print(name, sizeof name, "%.*s", (int)(end - at - 1), at + 1);
    const char *value = getenv(name);
    if (value)
        put_tame(o, value);
    return end + 1;
}

static void put_letter(struct out *o, char letter, unsigned number) {
    char name[65];
    struct utsname host;
    switch (letter) {
    case 'p':
        put_number(o, (uint64_t)getpid());
        break;
    case 'P':
        put_number(o, (uint64_t)getppid());
        break;
    case 'e':
        ct_process_id_get_program_name(name, sizeof name);
        put_tame(o, name);
        break;
    case 'h':
        put_tame(o, uname(&host) ? "unknown" : host.nodename);
        break;
    case 't':
        put_number(o, (uint64_t)time(NULL));
        break;
    case 'n':
        put_number(o, number);
        break;
    case 'r':
        put_tame(o, rank());
        break;
    case '%':
        put(o, '%');
        break;
    default:
        put(o, '%');
        if (letter)
            put(o, letter);
    }
}

size_t ct_file_pattern_expand(const char *pattern, unsigned number, char *out, size_t size) {
    struct out o = {out, out + size - 1, 0};
    for (const char *at = pattern; *at; at++) {
        const char *behind;
        if (*at != '%')
            put(&o, *at);
        else if (at[1] == 'q' && (behind = put_variable(&o, at + 2)))
            at = behind - 1;
        else {
            put_letter(&o, at[1], number);
            at += at[1] != 0;
        }
    }
    *o.at = 0;
    return o.full ? 0 : (size_t)(o.at - out);
}

int ct_file_pattern_has_counter(const char *pattern) {
    for (const char *at = strchr(pattern, '%'); at && at[1]; at = strchr(at + 2, '%'))
        if (at[1] == 'n')
            return 1;
    return 0;
}
