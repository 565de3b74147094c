// SPDX-License-Identifier: Apache-2.0
#include "text/line_tag.h"

#include <string.h>

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
           c == '-' || c == '.';
}

// The end of the letters of a name, from `at` on.
static size_t end_of_name(const char *p, size_t at, size_t end) {
    while (at < end && is_name(p[at]))
        at++;
    return at;
}

// Reads digits at `at`. Returns where they end, or `at`: there are none, or more than a number has.
static size_t read_number(const char *p, size_t at, size_t end, uint64_t *number) {
    enum { MOST_DIGITS = 18 };
    size_t n = at;
    uint64_t value = 0;
    for (; n < end && is_digit(p[n]) && n - at <= MOST_DIGITS; n++)
        value = value * 10 + (uint64_t)(p[n] - '0');
    if (n == at || n - at > MOST_DIGITS)
        return at;
    *number = value;
    return n;
}

// Where a word begins between two places; SIZE_MAX: nowhere.
static size_t find(const char *p, size_t at, size_t end, const char *word) {
    const char *found = at < end ? memmem(p + at, end - at, word, strlen(word)) : NULL;
    return found ? (size_t)(found - p) : SIZE_MAX;
}

// Adds a name of where the process ran (FNV-1a).
static void add_source(struct ct_line_tag *tag, const char *p, size_t at, size_t end) {
    uint32_t hash = tag->source ? tag->source : 2166136261U;
    for (; at < end; at++)
        hash = (hash ^ (unsigned char)p[at]) * 16777619U;
    tag->source = hash ? hash : 1;
}

// "(Worker_TP0 pid=456)", "(RayWorkerWrapper pid=9, ip=10.0.0.2)". `at`: after the bracket.
static void read_tag(const char *p, size_t at, size_t end, struct ct_line_tag *tag) {
    static const char pid[] = "pid=", ip[] = "ip=";
    const size_t name_end = end_of_name(p, at, end), pid_at = find(p, at, end, pid);
    uint64_t number = 0;
    size_t n = name_end - at;
    if (pid_at == SIZE_MAX ||
        read_number(p, pid_at + sizeof pid - 1, end, &number) == pid_at + sizeof pid - 1)
        return;
    tag->has_pid = 1;
    tag->pid = number;
    n = pid_at == at ? 0 : n < sizeof tag->name ? n : sizeof tag->name - 1;
    memcpy(tag->name, p + at, n);
    tag->name[n] = 0;
    const size_t ip_at = find(p, pid_at, end, ip);
    if (ip_at != SIZE_MAX && p[ip_at - 1] == ' ')
        add_source(tag, p, ip_at, end_of_name(p, ip_at + sizeof ip - 1, end));
}

// "[rank0]", "[pod/vllm-0/server]", "[resource.labels.pod_name: vllm-0]": what stands between the
// brackets.
static void read_bracket(const char *p, size_t at, size_t end, struct ct_line_tag *tag) {
    static const char rank[] = "rank", *const sources[] = {"pod/", "resource.labels."};
    uint64_t number = 0;
    if (end - at >= sizeof rank && memcmp(p + at, rank, sizeof rank - 1) == 0 &&
        read_number(p, at + sizeof rank - 1, end, &number) == end) {
        tag->has_rank = 1;
        tag->rank = number;
    }
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (end - at > strlen(sources[i]) && memcmp(p + at, sources[i], strlen(sources[i])) == 0)
            add_source(tag, p, at, end);
}

// "vllm-1  | ". `at`: the bar.
static void read_service(const char *p, size_t at, struct ct_line_tag *tag) {
    size_t end = at, from;
    while (end && p[end - 1] == ' ')
        end--;
    for (from = end; from && is_name(p[from - 1]);)
        from--;
    if (from < end)
        add_source(tag, p, from, end);
}

void ct_line_tag_read(const char *line, size_t prefix, struct ct_line_tag *tag) {
    *tag = (struct ct_line_tag){0};
    for (size_t at = 0; at < prefix; at++) {
        const char closing = line[at] == '(' ? ')' : ']';
        if (line[at] == '|')
            read_service(line, at, tag);
        if (line[at] != '(' && line[at] != '[')
            continue;
        const char *end = memchr(line + at, closing, prefix - at);
        if (end && closing == ')')
            read_tag(line, at + 1, (size_t)(end - line), tag);
        else if (end)
            read_bracket(line, at + 1, (size_t)(end - line), tag);
    }
}

int ct_line_tag_is_known(const struct ct_line_tag *tag) {
    return tag->has_pid || tag->has_rank;
}

int ct_line_tag_is_same(const struct ct_line_tag *a, const struct ct_line_tag *b) {
    if (a->has_pid != b->has_pid || a->source != b->source)
        return 0;
    return a->has_pid ? a->pid == b->pid : a->has_rank == b->has_rank && a->rank == b->rank;
}
