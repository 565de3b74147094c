// SPDX-License-Identifier: Apache-2.0
// The lines of a text become one cleaned text, of which a window is in memory: templates are looked
// for in all of it but its end, which stays until more is read.
#include "text/read_text.h"

#include <cutrace/format/assert.h>
#include <string.h>

#include "base/heap.h"
#include "text/clean.h"

// ---- tags before lines --------------------------------------------------------------------------

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

// Reads what was put before the sentence of a line, `prefix` letters. Of two tags in a row the last
// one counts: a process that passes lines on puts its own tag before theirs.
static void line_tag_read(const char *line, size_t prefix, struct ct_line_tag *tag) {
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

// Whether two name the same process.
static int line_tag_is_same(const struct ct_line_tag *a, const struct ct_line_tag *b) {
    if (a->has_pid != b->has_pid || a->source != b->source)
        return 0;
    return a->has_pid ? a->pid == b->pid : a->has_rank == b->has_rank && a->rank == b->rank;
}

// ---- the lines of a text ------------------------------------------------------------------------

enum {
    PART = 1 << 15,           // the longest part of a line that is cleaned at once
    WINDOW = 1 << 18,         // cleaned text
    PROCESS_WINDOW = 1 << 14, // the same of the lines of one process
    REACH = 1 << 13,          // no match is longer
    WRAPPED_FROM = 60,        // columns: a line as long as this may be wrapped within a word
    MOST_PROCESSES = 256,     // lines of more are as those without a tag
};

// Where a line's text begins in the window.
struct line {
    size_t at;
    uint64_t number, offset;
    int is_continued;               // it may be the rest of a line of another process
    char stamp[CT_TEXT_STAMP_SIZE]; // when it was written, "": not known
};

struct window {
    struct ct_text_facts *facts;
    char *text;
    size_t room, length, scanned;
    struct line *lines;
    size_t line_count, line_room;
};

// Reads lines into the window of all of them and, if that is wanted, into that of their process.
struct reader {
    struct window all;
    struct ct_process_lines *by_process; // NULL: not wanted
    struct window *parts;                // in their order
    size_t part_room;
    uint64_t number, offset; // of the line that is read
    int in_line;             // a part of it was read
    size_t part;             // the process of the line
    size_t continued;        // that of a line before it, which it may continue; 0: none
};

// The line that a place belongs to.
static const struct line *find_line(const struct window *w, size_t at) {
    size_t low = 0, high = w->line_count;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (w->lines[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    return &w->lines[low];
}

// What may stand in the rest of a line.
static int is_rest(const struct ct_template_match *m) {
    const enum ct_text_role role = ct_template_role(m->kind);
    return role == CT_TEXT_ROLE_CLAUSE || role == CT_TEXT_ROLE_FRAME;
}

static void take(void *cookie, size_t at, const struct ct_template_match *m) {
    struct window *w = cookie;
    const struct line *l = find_line(w, at);
    if (l->is_continued && !is_rest(m))
        return;
    w->facts->stamp = l->stamp;
    ct_text_facts_add(w->facts, w->text, w->length, at, m, l->number, l->offset);
}

// Forgets the text before `from`.
static void slide(struct window *w, size_t from) {
    size_t first = (size_t)(find_line(w, from) - w->lines);
    memmove(w->text, w->text + from, w->length - from);
    w->length -= from;
    w->line_count -= first;
    memmove(w->lines, w->lines + first, w->line_count * sizeof *w->lines);
    for (size_t i = 0; i < w->line_count; i++)
        w->lines[i].at = w->lines[i].at > from ? w->lines[i].at - from : 0;
}

static void scan(struct window *w, int is_end) {
    const size_t to = is_end ? w->length : w->length - REACH;
    if (!w->line_count)
        return;
    ct_template_find_all(w->text, w->length, w->scanned, to, take, w);
    // (one letter before stays, so that the end of a longer name is known as one)
    slide(w, to ? to - 1 : 0);
    w->scanned = to ? 1 : 0;
}

// ---- one window ---------------------------------------------------------------------------------

static void begin_window(struct window *w, struct ct_text_facts *f, size_t room) {
    *w = (struct window){.facts = f, .room = room};
    w->text = ct_heap_resize(NULL, room + 2 * PART, 1);
}

static void finish_window(struct window *w) {
    scan(w, 1);
    ct_text_facts_end(w->facts);
    w->facts->stamp = NULL;
    free(w->text);
    free(w->lines);
}

// Notes where a line begins. Of lines without a letter only the last one is kept.
static void begin_line(struct window *w, const struct line *line) {
    if (w->line_count && w->lines[w->line_count - 1].at == w->length)
        w->line_count--;
    CT_HEAP_GROW(w->lines, w->line_count, w->line_room);
    w->lines[w->line_count] = *line;
    w->lines[w->line_count++].at = w->length;
    w->facts->lines += !line->is_continued;
}

static void add_letters(struct window *w, const char *part, size_t n) {
    w->length += ct_clean_letters(part, n, w->text + w->length);
    if (w->length >= w->room)
        scan(w, 0);
}

// Ends a line that had `columns`. The mark of an empty line is that of the line before. In the
// frame of a box (its right side is no ASCII) blanks only fill the line up.
static void end_line(struct window *w, const char *line, size_t columns) {
    const unsigned char last = columns ? (unsigned char)line[columns - 1] : ' ';
    const char mark = columns >= WRAPPED_FROM && last != ' ' ? CT_TEXT_WRAP : CT_TEXT_BREAK;
    char *end = w->length ? &w->text[w->length - 1] : NULL;
    if (end && *end == ' ')
        *end = last >= 0x80 ? mark : CT_TEXT_BREAK;
    else if (end && *end != CT_TEXT_WRAP && *end != CT_TEXT_BREAK)
        w->text[w->length++] = mark;
}

// ---- the processes of a log ---------------------------------------------------------------------

// Returns the part of a process; 0, that of lines without a tag, where there are too many.
static size_t find_part(struct reader *r, const struct ct_line_tag *tag) {
    struct ct_process_lines *l = r->by_process;
    if (l->count && !ct_line_tag_is_known(tag))
        return 0;
    for (size_t i = 1; i < l->count; i++)
        if (line_tag_is_same(&l->list[i]->tag, tag)) {
            if (*tag->name)
                l->list[i]->tag = *tag; // (workers of vLLM get their names late)
            return i;
        }
    if (l->count > MOST_PROCESSES)
        return 0;
    CT_HEAP_GROW(l->list, l->count, l->room);
    l->list[l->count] = ct_heap_alloc_zeroed(1, sizeof **l->list);
    l->list[l->count]->tag = *tag;
    ct_text_facts_init(&l->list[l->count]->facts);
    size_t parts = l->count;
    CT_HEAP_GROW(r->parts, parts, r->part_room);
    begin_window(&r->parts[l->count], &l->list[l->count]->facts, PROCESS_WINDOW);
    return l->count++;
}

// The windows that the line goes to, besides that of all lines.
static void begin_line_of_process(struct reader *r, const char *text, size_t prefix,
                                  struct line *line) {
    struct ct_line_tag tag;
    line_tag_read(text, prefix, &tag);
    r->part = find_part(r, &tag);
    if (r->part || prefix)
        r->continued = 0;
    begin_line(&r->parts[r->part], line);
    if (!r->continued)
        return;
    line->is_continued = 1;
    begin_line(&r->parts[r->continued], line);
}

// A line that is as wide as a terminal may go on in the next one, which then has no tag.
static void end_line_of_process(struct reader *r, const char *text, size_t columns) {
    end_line(&r->parts[r->part], text, columns);
    if (r->continued)
        end_line(&r->parts[r->continued], text, columns);
    if (columns < WRAPPED_FROM)
        r->continued = 0;
    else if (r->part)
        r->continued = r->part;
}

// ---- lines --------------------------------------------------------------------------------------

// Begins the line; returns how many letters were put before its sentence.
static size_t begin_text(struct reader *r, const char *text, size_t n) {
    const size_t prefix = ct_clean_skip_prefix(text, n);
    struct line line = {.number = r->number, .offset = r->offset};
    size_t at, stamp = ct_clean_find_stamp(text, prefix, &at);
    if (stamp && stamp < sizeof line.stamp)
        memcpy(line.stamp, text + at, stamp);
    if (ct_clean_has_vllm_tag(text, prefix))
        r->all.facts->programs |= UINT32_C(1) << CT_FRAMEWORK_VLLM;
    begin_line(&r->all, &line);
    if (r->by_process)
        begin_line_of_process(r, text, prefix, &line);
    return prefix;
}

// Adds a part of a line: its begin, or what follows.
static void add_part(struct reader *r, const char *part, size_t n) {
    const size_t from = r->in_line ? 0 : begin_text(r, part, n);
    add_letters(&r->all, part + from, n - from);
    if (r->by_process) {
        add_letters(&r->parts[r->part], part + from, n - from);
        if (r->continued)
            add_letters(&r->parts[r->continued], part + from, n - from);
    }
    r->in_line = 1;
}

static size_t trim(const char *line, size_t n) {
    n = n && line[n - 1] == '\r' ? n - 1 : n;
    return ct_clean_skip_suffix(line, n);
}

// Adds bytes of the text. `is_end`: no more follow. Returns how many were used: a line whose end is
// not there yet is left, unless it is longer than a part.
static size_t feed(struct reader *r, const char *bytes, size_t n, int is_end) {
    size_t at = 0;
    while (at < n) {
        const char *end = memchr(bytes + at, '\n', n - at);
        size_t length = end ? (size_t)(end - bytes) - at : n - at;
        const int is_long = length > PART;
        if (!end && !is_long && !is_end)
            break;
        if (is_long)
            length = PART;
        if (!r->in_line)
            r->offset = r->all.facts->bytes + at, r->number++;
        add_part(r, bytes + at, trim(bytes + at, length));
        if (end && !is_long) {
            const size_t columns = trim(bytes + at, length);
            end_line(&r->all, bytes + at, columns);
            if (r->by_process)
                end_line_of_process(r, bytes + at, columns);
            r->in_line = 0;
            length++;
        }
        at += length;
    }
    r->all.facts->bytes += at;
    return at;
}

// `by_process`: NULL, or where the lines of each process go.
static void begin(struct reader *r, struct ct_text_facts *f, struct ct_process_lines *by_process) {
    *r = (struct reader){.by_process = by_process};
    begin_window(&r->all, f, WINDOW);
    if (by_process)
        (void)find_part(r, &(struct ct_line_tag){0});
}

static void finish(struct reader *r) {
    finish_window(&r->all);
    for (size_t i = 0; r->by_process && i < r->by_process->count; i++)
        finish_window(&r->parts[i]);
    free(r->parts);
}

static int read_stream(const char *ahead, size_t n, FILE *in, struct ct_text_facts *f,
                       struct ct_process_lines *by_process) {
    enum { BUFFER = 4 * PART };
    struct reader r;
    char *buffer = ct_heap_resize(NULL, BUFFER, 1);
    size_t got;
    CT_ASSERT(n <= CT_READ_TEXT_AHEAD);
    memcpy(buffer, ahead, n);
    begin(&r, f, by_process);
    while ((got = fread(buffer + n, 1, BUFFER - n, in)) > 0) {
        n += got;
        const size_t used = feed(&r, buffer, n, 0);
        memmove(buffer, buffer + used, n - used);
        n -= used;
    }
    (void)feed(&r, buffer, n, 1);
    finish(&r);
    free(buffer);
    return ferror(in) ? -1 : 0;
}

int ct_read_text_by_process(FILE *in, struct ct_text_facts *f, struct ct_process_lines *l) {
    *l = (struct ct_process_lines){0};
    return read_stream("", 0, in, f, l);
}

int ct_read_text_rest(const char *ahead, size_t n, FILE *in, struct ct_text_facts *f) {
    return read_stream(ahead, n, in, f, NULL);
}

void ct_process_lines_free(struct ct_process_lines *l) {
    for (size_t i = 0; i < l->count; i++) {
        ct_text_facts_free(&l->list[i]->facts);
        free(l->list[i]);
    }
    free(l->list);
    *l = (struct ct_process_lines){0};
}
