// SPDX-License-Identifier: Apache-2.0
#include "base/elide.h"

#include <string.h>

#include "base/utf8.h"

// A name is not cut to less than SHORT columns as long as there is another one to cut. A cut takes
// at least CUT columns, so that a mark of three bytes is never longer.
enum { SHORT = 12, CUT = 3 };

// A part of the text: offsets of bytes.
struct part {
    size_t from, to;
};

static size_t count_columns(const char *text, struct part p) {
    size_t n = 0;
    for (size_t i = p.from; i < p.to; i++)
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

// Returns where the part's column `n` begins.
static size_t find_column(const char *text, struct part p, size_t n) {
    size_t i = p.from;
    for (; i < p.to; i++)
        if (((unsigned char)text[i] & 0xC0) != 0x80 && n-- == 0)
            break;
    return i;
}

// Follows the brackets of a C++ name. "<-" is an arrow between frames.
static int next_depth(int depth, const char *at) {
    if (strchr("<([{", *at) && strncmp(at, "<- ", 3) != 0)
        return depth + 1;
    return depth && strchr(">)]}", *at) ? depth - 1 : depth;
}

// Returns the end of the name that begins at `from`: a space outside brackets ends it.
static size_t find_name_end(const char *text, size_t from) {
    int depth = 0;
    size_t i = from;
    for (; text[i] && (text[i] != ' ' || depth); i++)
        depth = next_depth(depth, text + i);
    return i;
}

static struct part find_longest_name(const char *text) {
    struct part longest = {0, 0};
    size_t most = 0;
    for (size_t i = 0; text[i];) {
        const struct part p = {i, find_name_end(text, i)};
        const size_t n = count_columns(text, p);
        if (n > most) {
            most = n;
            longest = p;
        }
        i = p.to + (text[p.to] == ' ');
    }
    return longest;
}

static size_t separator_length(const char *at) {
    if (*at == '/')
        return 1;
    return strncmp(at, "::", 2) == 0 ? 2 : 0;
}

// Returns where the last separator of components outside brackets begins that lies in the part;
// p.to if there is none.
static size_t find_separator(const char *text, struct part p) {
    size_t found = p.to, length;
    int depth = 0;
    for (size_t i = p.from; i < p.to; i += length ? length : 1) {
        length = separator_length(text + i);
        if (length && !depth && i + length <= p.to)
            found = i;
        depth = next_depth(depth, text + i);
    }
    return found;
}

// Replaces the part, and marks next to it, by one mark.
static void replace(char *text, size_t from, size_t to, const char *mark) {
    const size_t n = strlen(mark);
    while (from >= n && memcmp(text + from - n, mark, n) == 0)
        from -= n;
    while (strncmp(text + to, mark, n) == 0)
        to += n;
    memmove(text + from + n, text + to, strlen(text + to) + 1);
    memcpy(text + from, mark, n);
}

// Cuts the middle of a name so that at most `columns` are left. Its last component stays whole if
// it fits, and then the first ones as far as they fit.
static void cut_name(char *text, struct part p, size_t columns, const char *mark) {
    const size_t room = columns - ct_utf8_columns(mark), n = count_columns(text, p);
    const size_t last = find_separator(text, p);
    const size_t tail = count_columns(text, (struct part){last, p.to});
    if (last == p.to || tail >= room) {
        replace(text, find_column(text, p, room / 2), find_column(text, p, n - (room - room / 2)),
                mark);
        return;
    }
    const struct part head = {p.from, find_column(text, p, room - tail)};
    const size_t end = find_separator(text, head);
    replace(text, end == head.to ? head.to : end + separator_length(text + end), last, mark);
}

void ct_elide(char *text, size_t columns, const char *mark) {
    if (columns < SHORT)
        columns = SHORT;
    for (size_t all = ct_utf8_columns(text); all > columns; all = ct_utf8_columns(text)) {
        const size_t excess = all - columns > CUT ? all - columns : CUT;
        struct part p = find_longest_name(text);
        size_t n = count_columns(text, p);
        if (n < SHORT + CUT) { // cut the whole text
            p = (struct part){0, strlen(text)};
            n = all;
        }
        const size_t left = n > excess + SHORT ? n - excess : SHORT;
        cut_name(text, p, left + CUT > n ? n - CUT : left, mark);
    }
}
