// SPDX-License-Identifier: Apache-2.0
#include "analyze/coverage.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/heap.h"
#include "base/human.h"
#include "base/utf8.h"

static const char *const way_names[CT_COVERAGE_WAYS] = {"dlsym", "cuGetProcAddress",
                                                        "cudaGetDriverEntryPoint"};

const char *ct_coverage_way_name(enum ct_coverage_way way) {
    return way_names[way];
}

const char *ct_coverage_kind_name(enum ct_coverage_kind kind) {
    static const char *const names[] = {"calls", "calls-interposer", "look-ups", "runtime"};
    return names[kind];
}

// ---- the facts ------------------------------------------------------------------------------

// Whether a key begins so, and what follows.
static int begins(struct ct_string key, const char *prefix, struct ct_string *rest) {
    const size_t n = strlen(prefix);
    if (key.length <= n || memcmp(key.at, prefix, n) != 0)
        return 0;
    *rest = (struct ct_string){key.at + n, key.length - (uint32_t)n};
    return 1;
}

static int ends(struct ct_string s, const char *suffix) {
    const size_t n = strlen(suffix);
    return s.length > n && !memcmp(s.at + s.length - n, suffix, n);
}

// Decimal digits up to another character; as much as fits.
static uint64_t number_of(struct ct_string s) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < s.length && s.at[i] >= '0' && s.at[i] <= '9'; i++)
        n = n > (UINT64_MAX - 9) / 10 ? UINT64_MAX / 10 : n * 10 + (uint64_t)(s.at[i] - '0');
    return n;
}

// The libraries whose functions are those that the hooks stand before. Any other one is an
// interposer.
static int is_cuda_or_libc(struct ct_string to) {
    static const char *const names[] = {"libcuda.so", "libcudart.so", "libc.so", "libdl.so"};
    struct ct_string rest;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(to, names[i], &rest))
            return 1;
    return 0;
}

// Whether one of "LIBRARY COUNT, LIBRARY COUNT" is such a library.
static int has_cuda_or_libc(struct ct_string list) {
    for (uint32_t i = 0; i < list.length; i++) {
        const struct ct_string rest = {list.at + i, list.length - i};
        if ((!i || list.at[i - 1] == ' ') && is_cuda_or_libc(rest))
            return 1;
    }
    return 0;
}

// What the module of a key has in KEY.to; "" if that is missing.
static struct ct_string find_target(const struct ct_definitions *n, struct ct_string key) {
    char to[64];
    const int length =
        snprintf(to, sizeof to, "%.*s.to", (int)(key.length < 56 ? key.length : 56), key.at);
    const struct ct_string *found = length > 0 ? ct_definitions_info(n, to) : NULL;
    return found ? *found : (struct ct_string){"", 0};
}

static void add_module(struct ct_coverage *c, size_t *room, enum ct_coverage_kind kind,
                       struct ct_string name, struct ct_string to) {
    if (kind == CT_COVERAGE_CALLS && !has_cuda_or_libc(to))
        kind = CT_COVERAGE_FIRST;
    CT_HEAP_GROW(c->list, c->count, *room);
    c->list[c->count++] = (struct ct_coverage_module){kind, name, to};
}

// NAME.VERSION
static void add_passed(struct ct_coverage *c, size_t *room, struct ct_string of, uint64_t count,
                       int is_hooked) {
    uint32_t n = of.length;
    while (n && of.at[n - 1] != '.')
        n--;
    if (n < 2)
        return;
    const struct ct_string version = {of.at + n, of.length - n};
    const int is_negative = version.length && *version.at == '-';
    CT_HEAP_GROW(c->passed, c->passed_count, *room);
    c->passed[c->passed_count++] =
        (struct ct_coverage_passed){.name = {of.at, n - 1},
                                    .version = is_negative ? -1 : (int64_t)number_of(version),
                                    .count = count,
                                    .is_hooked = is_hooked};
}

static int compare_passed(const void *a, const void *b) {
    const struct ct_coverage_passed *x = a, *y = b;
    if (x->is_hooked != y->is_hooked)
        return y->is_hooked - x->is_hooked;
    const int c = ct_string_compare(x->name, y->name);
    return c ? c : (x->version > y->version) - (x->version < y->version);
}

static int compare_modules(const void *a, const void *b) {
    const struct ct_coverage_module *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return ct_string_compare(x->name, y->name);
}

// Every hooked name is among those that passed, too: one of each pair stays.
static void sort_passed(struct ct_coverage *c) {
    size_t hooked = 0, kept;
    if (!c->passed_count)
        return;
    qsort(c->passed, c->passed_count, sizeof *c->passed, compare_passed);
    while (hooked < c->passed_count && c->passed[hooked].is_hooked)
        hooked++;
    kept = hooked;
    for (size_t i = hooked, k = 0; i < c->passed_count; i++) {
        struct ct_coverage_passed as_hooked = c->passed[i];
        as_hooked.is_hooked = 1;
        while (k < hooked && compare_passed(&c->passed[k], &as_hooked) < 0)
            k++;
        if (k == hooked || compare_passed(&c->passed[k], &as_hooked) != 0)
            c->passed[kept++] = c->passed[i];
    }
    c->passed_count = kept;
}

struct rooms {
    size_t modules, passed;
};

static void read_look_ups(struct ct_coverage *c, struct ct_string key, struct ct_string value) {
    for (int way = 0; way < CT_COVERAGE_WAYS; way++) {
        const size_t n = strlen(way_names[way]);
        if (key.length < n || memcmp(key.at, way_names[way], n) != 0)
            continue;
        if (key.length == n)
            c->look_ups[way].seen = number_of(value);
        else if (ends(key, ".wrapped"))
            c->look_ups[way].wrapped = number_of(value);
    }
}

// Keys that are many, by what they begin with.
static void read_pair(struct ct_coverage *c, struct rooms *r, const struct ct_definitions *n,
                      const struct ct_info_pair *pair) {
    const struct ct_string key = n->strings[pair->key], value = n->strings[pair->value];
    struct ct_string rest;
    if (ends(key, ".to"))
        return;
    if (begins(key, "coverage.bound_elsewhere.", &rest))
        add_module(c, &r->modules, CT_COVERAGE_CALLS, value, find_target(n, key));
    else if (begins(key, "coverage.looks_up_elsewhere.", &rest))
        add_module(c, &r->modules, CT_COVERAGE_LOOK_UPS, value, find_target(n, key));
    else if (begins(key, "look_ups.resolver.", &rest))
        add_module(c, &r->modules, CT_COVERAGE_RUNTIME, value, (struct ct_string){"", 0});
    else if (begins(key, "look_ups.hooked_passed.", &rest))
        add_passed(c, &r->passed, rest, number_of(value), 1);
    else if (begins(key, "unwrapped.", &rest))
        add_passed(c, &r->passed, rest, number_of(value), 0);
    else if (begins(key, "look_ups.", &rest))
        read_look_ups(c, rest, value);
    else if (begins(key, "audit.both.", &rest))
        c->audit_both += number_of(value);
    else if (begins(key, "audit.only_cupti.", &rest))
        c->audit_only_cupti += number_of(value);
    else if (begins(key, "audit.only_preload.", &rest))
        c->audit_only_preload += number_of(value);
    else if (begins(key, "hook.", &rest) && ends(rest, ".calls")) {
        c->calls += number_of(value);
        c->functions++;
    }
}

static int is_text(const struct ct_string *s, const char *text) {
    return s && s->length == strlen(text) && !memcmp(s->at, text, s->length);
}

void ct_coverage_read(struct ct_coverage *c, const struct ct_trace *t) {
    const struct ct_definitions *n = &t->definitions;
    struct rooms r = {0, 0};
    *c = (struct ct_coverage){.children_names = {"", 0}};
    c->is_recorded = ct_definitions_info_number(n, "coverage.looks", &c->looks);
    for (size_t i = 1; i < n->info_count; i++)
        read_pair(c, &r, n, &n->info[i]);
    sort_passed(c);
    if (c->count)
        qsort(c->list, c->count, sizeof *c->list, compare_modules);
    c->modules_known =
        c->looks && ct_definitions_info_number(n, "coverage.modules", &c->modules) && c->modules;
    (void)ct_definitions_info_number(n, "coverage.modules_unreadable", &c->modules_unreadable);
    (void)ct_definitions_info_number(n, "coverage.drivers", &c->drivers);
    (void)ct_definitions_info_number(n, "look_ups.names_dropped", &c->names_dropped);
    (void)ct_definitions_info_number(n, "nvtx.modules", &c->nvtx_modules);
    (void)ct_definitions_info_number(n, "recorder.switched_off", &c->switched_off);
    // A forked child has its parent's facts until it looks itself.
    c->children_known =
        c->looks && ct_definitions_info_number(n, "coverage.children", &c->children) &&
        ct_definitions_info_number(n, "coverage.children_without_library", &c->children_untraced);
    (void)ct_definitions_info_number(n, "coverage.children_unreadable", &c->children_unreadable);
    const struct ct_string *names =
        ct_definitions_info(n, "coverage.children_without_library_names");
    if (names && c->children_known && c->children_untraced)
        c->children_names = *names;
    c->cupti = ct_definitions_info(n, "cupti.state");
    c->cupti_hears = is_text(c->cupti, "on") && c->drivers <= 1;
    c->torch = ct_definitions_info(n, "torch.version");
    const struct ct_string *audit = ct_definitions_info(n, "option.AUDIT");
    c->is_audited = audit && !is_text(audit, "0");
}

void ct_coverage_free(struct ct_coverage *c) {
    free(c->passed);
    free(c->list);
    *c = (struct ct_coverage){0};
}

size_t ct_coverage_count(const struct ct_coverage *c, enum ct_coverage_kind kind) {
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++)
        n += c->list[i].kind == kind;
    return n;
}

// ---- the sentence -------------------------------------------------------------------------------

enum { NAME = 48, MOST_PARTS = 3 };

struct sentence {
    char *to;
    size_t used, parts; // parts beyond MOST_PARTS are only counted
};

static void append(struct sentence *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void append(struct sentence *s, const char *format, ...) {
    const size_t left = CT_COVERAGE_LIMITS - s->used;
    va_list arguments;
    if (s->parts > MOST_PARTS)
        return;
    va_start(arguments, format);
    const int n = vsnprintf(s->to + s->used, left, format, arguments);
    va_end(arguments);
    if (n > 0)
        s->used += (size_t)n < left ? (size_t)n : left - 1;
}

static void begin_part(struct sentence *s) {
    s->parts++;
    if (s->used)
        append(s, "; ");
}

static void append_name(struct sentence *s, struct ct_string name) {
    char text[NAME];
    ct_utf8_sanitize(text, sizeof text, name.at, name.length);
    append(s, "%s", text);
}

int ct_coverage_is_past_hooks(const struct ct_coverage_module *m) {
    return m->kind == CT_COVERAGE_CALLS ||
           (m->kind == CT_COVERAGE_LOOK_UPS && has_cuda_or_libc(m->to));
}

// "calls of libplugin.so and 2 more modules bypass cutrace"
static void append_modules(struct sentence *s, const struct ct_coverage *c, int past,
                           const char *what) {
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct ct_coverage_module *m = &c->list[i];
        if (m->kind == CT_COVERAGE_RUNTIME || ct_coverage_is_past_hooks(m) != past)
            continue;
        if (n++)
            continue;
        begin_part(s);
        append(s, "calls of ");
        append_name(s, m->name);
    }
    if (n > 1)
        append(s, " and %zu more module%s", n - 1, n > 2 ? "s" : "");
    if (n)
        append(s, " %s", what);
}

// Of functions that take or give back memory.
static void append_passed(struct sentence *s, const struct ct_coverage *c) {
    struct ct_string rest;
    size_t n = 0;
    for (size_t i = 0; i < c->passed_count && c->passed[i].is_hooked; i++) {
        if (!begins(c->passed[i].name, "cuMem", &rest))
            continue;
        if (n++)
            continue;
        begin_part(s);
        append(s, "look-ups of ");
        append_name(s, c->passed[i].name);
    }
    if (n > 1)
        append(s, " and %zu more function%s", n - 1, n > 2 ? "s" : "");
    if (n)
        append(s, " got no wrapper");
}

static void append_children(struct sentence *s, const struct ct_coverage *c) {
    if (!c->children_untraced)
        return;
    begin_part(s);
    append(s, "%" PRIu64 " child process%s", c->children_untraced,
           c->children_untraced == 1 ? "" : "es");
    if (c->children_names.length) {
        append(s, " (");
        append_name(s, c->children_names);
        append(s, ")");
    }
    append(s, " used CUDA without cutrace");
}

static void append_gaps(struct sentence *s, const struct ct_coverage *c, uint64_t lost) {
    struct ct_string by;
    if (c->cupti && begins(*c->cupti, "given to ", &by)) {
        begin_part(s);
        append(s, "CUPTI was given to ");
        append_name(s, by);
    }
    if (lost) {
        begin_part(s);
        append(s, "%s event%s lost", ct_human_count(lost).text, lost == 1 ? " was" : "s were");
    }
    if (c->switched_off) {
        begin_part(s);
        append(s, "the recording was switched off %" PRIu64 " time%s", c->switched_off,
               ct_human_plural(c->switched_off));
    }
}

int ct_coverage_limits(const struct ct_coverage *c, uint64_t lost, char *to) {
    struct sentence s = {.to = to};
    *to = 0;
    if (!c->cupti_hears)
        append_modules(&s, c, 1, "bypass cutrace");
    append_modules(&s, c, 0, "go to another interposer first");
    append_passed(&s, c);
    append_children(&s, c);
    append_gaps(&s, c, lost);
    const int is_limited = s.parts > 0;
    if (!c->is_recorded || !c->looks) {
        begin_part(&s);
        append(&s, c->is_recorded ? "the process ended before a look for calls that bypass cutrace"
                                  : "this older trace did not record which calls bypassed cutrace");
    } else if (!c->modules_known) {
        begin_part(&s);
        append(&s, "the loaded modules could not be read");
    } else if (c->modules_unreadable) {
        begin_part(&s);
        append(&s, "%" PRIu64 " module%s could not be read", c->modules_unreadable,
               ct_human_plural(c->modules_unreadable));
    }
    const size_t more = s.parts > MOST_PARTS ? s.parts - MOST_PARTS : 0;
    s.parts = 0;
    if (more)
        append(&s, "; %zu more: see info", more);
    if (!s.used)
        append(&s, "no call that bypasses cutrace was found");
    return is_limited;
}
