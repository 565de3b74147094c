// SPDX-License-Identifier: Apache-2.0
// The lines of a text become one cleaned text, of which a window is in memory: templates are looked
// for in all of it but its end, which stays until more is read.
#include "text/read_text.h"

#include <cutrace/format/assert.h>
#include <string.h>

#include "base/heap.h"
#include "text/clean.h"

enum {
    PART = 1 << 15,    // the longest part of a line that is cleaned at once
    WINDOW = 1 << 18,  // cleaned text
    REACH = 1 << 13,   // no match is longer
    WRAPPED_FROM = 60, // columns: a line as long as this may be wrapped within a word
};

// Where a line's text begins in the window.
struct line {
    size_t at;
    uint64_t number, offset;
    char stamp[CT_TEXT_STAMP_SIZE]; // when it was written, "": not known
};

struct window {
    struct ct_text_facts *facts;
    char *text;
    size_t length, scanned;
    struct line *lines;
    size_t line_count, line_room;
    uint64_t number, offset; // of the line that is read
    int in_line;             // a part of it was read
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

static void take(void *cookie, size_t at, const struct ct_template_match *m) {
    struct window *w = cookie;
    const struct line *l = find_line(w, at);
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

// Notes where a line begins. Of lines without a letter only the last one is kept.
static void begin_line(struct window *w, const char *line, size_t prefix) {
    size_t at, n = ct_clean_find_stamp(line, prefix, &at);
    if (w->line_count && w->lines[w->line_count - 1].at == w->length)
        w->line_count--;
    CT_HEAP_GROW(w->lines, w->line_count, w->line_room);
    struct line *made = &w->lines[w->line_count++];
    *made = (struct line){.at = w->length, .number = w->number, .offset = w->offset};
    if (ct_clean_has_vllm_tag(line, prefix))
        w->facts->programs |= CT_TEXT_OF_VLLM;
    n = n < sizeof made->stamp ? n : 0;
    if (n)
        memcpy(made->stamp, line + at, n);
}

// Adds a part of a line: its begin, or what follows.
static void add_part(struct window *w, const char *part, size_t n) {
    size_t from = 0;
    if (!w->in_line) {
        from = ct_clean_skip_prefix(part, n);
        begin_line(w, part, from);
    }
    w->length += ct_clean_letters(part + from, n - from, w->text + w->length);
    w->in_line = 1;
    if (w->length >= WINDOW)
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
    w->in_line = 0;
}

static size_t trim(const char *line, size_t n) {
    return n && line[n - 1] == '\r' ? n - 1 : n;
}

// Adds bytes of the text. `is_end`: no more follow. Returns how many were used: a line whose end is
// not there yet is left, unless it is longer than a part.
static size_t feed(struct window *w, const char *bytes, size_t n, int is_end) {
    size_t at = 0;
    while (at < n) {
        const char *end = memchr(bytes + at, '\n', n - at);
        size_t length = end ? (size_t)(end - bytes) - at : n - at;
        const int is_long = length > PART;
        if (!end && !is_long && !is_end)
            break;
        if (is_long)
            length = PART;
        if (!w->in_line)
            w->offset = w->facts->bytes + at, w->number++;
        add_part(w, bytes + at, trim(bytes + at, length));
        if (end && !is_long) {
            end_line(w, bytes + at, trim(bytes + at, length));
            length++;
        }
        at += length;
    }
    w->facts->bytes += at;
    return at;
}

static void begin(struct window *w, struct ct_text_facts *f) {
    *w = (struct window){.facts = f};
    w->text = ct_heap_resize(NULL, WINDOW + 2 * PART, 1);
}

static void finish(struct window *w) {
    scan(w, 1);
    w->facts->lines = w->number;
    w->facts->stamp = NULL;
    free(w->text);
    free(w->lines);
}

int ct_read_text(FILE *in, struct ct_text_facts *f) {
    return ct_read_text_rest("", 0, in, f);
}

int ct_read_text_rest(const char *ahead, size_t n, FILE *in, struct ct_text_facts *f) {
    enum { BUFFER = 4 * PART };
    struct window w;
    char *buffer = ct_heap_resize(NULL, BUFFER, 1);
    size_t got;
    CT_ASSERT(n <= CT_READ_TEXT_AHEAD);
    memcpy(buffer, ahead, n);
    begin(&w, f);
    while ((got = fread(buffer + n, 1, BUFFER - n, in)) > 0) {
        n += got;
        const size_t used = feed(&w, buffer, n, 0);
        memmove(buffer, buffer + used, n - used);
        n -= used;
    }
    (void)feed(&w, buffer, n, 1);
    finish(&w);
    free(buffer);
    return ferror(in) ? -1 : 0;
}

void ct_read_text_bytes(const char *text, size_t length, struct ct_text_facts *f) {
    struct window w;
    begin(&w, f);
    (void)feed(&w, text, length, 1);
    finish(&w);
}
