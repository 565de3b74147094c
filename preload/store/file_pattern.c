// SPDX-License-Identifier: Apache-2.0
// Expands the pattern of CUTRACE_OUTPUT to a file name.
#define _GNU_SOURCE
#include "store/file_pattern.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/print.h"
#include "base/process_id.h"

struct out {
    char *at;
    char *end; // where the NUL goes at the latest
    int overflow;
};

static void put(struct out *o, char c) {
    if (o->at == o->end)
        o->overflow = 1;
    else
        *o->at++ = c;
}

static void put_text(struct out *o, const char *text) {
    for (; *text; text++)
        put(o, *text);
}

// Replaces what could lead to another folder or hide the file.
static void put_sanitized(struct out *o, const char *text) {
    const char *start = o->at;
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        const int is_unsafe = c < 0x20 || c == 0x7f || c == '/' || (c == '.' && o->at == start);
        put(o, is_unsafe ? '_' : *text);
    }
}

static void put_number(struct out *o, uint64_t v) {
    char digits[24];
    ct_print(digits, sizeof digits, "%lu", v);
    put_text(o, digits);
}

// The rank of this process in a distributed job, from the variables of the usual launchers.
static const char *get_rank(void) {
    static const char *const names[] = {"RANK",      "LOCAL_RANK", "OMPI_COMM_WORLD_RANK",
                                        "PMIX_RANK", "PMI_RANK",   "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return value;
    }
    return "x";
}

// Expands the {VAR} of %q{VAR}. Returns what follows it, or NULL if the brace is not closed.
static const char *put_variable(struct out *o, const char *at) {
    char name[128];
    const char *end = *at == '{' ? strchr(at, '}') : NULL;
    if (!end || (size_t)(end - at) > sizeof name)
        return NULL;
    ct_print(name, sizeof name, "%.*s", (int)(end - at - 1), at + 1);
    const char *value = getenv(name);
    if (value)
        put_sanitized(o, value);
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
        put_sanitized(o, name);
        break;
    case 'h':
        put_sanitized(o, uname(&host) ? "unknown" : host.nodename);
        break;
    case 't':
        put_number(o, (uint64_t)time(NULL));
        break;
    case 'n':
        put_number(o, number);
        break;
    case 'r':
        put_sanitized(o, get_rank());
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
        const char *rest;
        if (*at != '%')
            put(&o, *at);
        else if (at[1] == 'q' && (rest = put_variable(&o, at + 2)))
            at = rest - 1;
        else {
            put_letter(&o, at[1], number);
            at += at[1] != 0;
        }
    }
    *o.at = 0;
    return o.overflow ? 0 : (size_t)(o.at - out);
}

int ct_file_pattern_has_counter(const char *pattern) {
    for (const char *at = strchr(pattern, '%'); at && at[1]; at = strchr(at + 2, '%'))
        if (at[1] == 'n')
            return 1;
    return 0;
}
