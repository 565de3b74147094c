// SPDX-License-Identifier: Apache-2.0
#include "base/wrap.h"

#include <string.h>

#include "base/heap.h"
#include "base/utf8.h"

enum { LONGEST = 40 }; // a longer word is no number, unit or noun that matters here

static const char *const units[] = {"B",  "KiB", "MiB", "GiB", "TiB", "KB", "MB",
                                    "GB", "TB",  "s",   "ms",  "us",  "ns", "%"};
static const char *const nouns[] = {"GPU",    "event",  "events",  "thread", "process",
                                    "offset", "column", "version", "device"};

struct wrap {
    struct ct_wrap_style style;
    FILE *out;
    char *line; // what was written since the last end of a line
    size_t length, capacity;
};

// What no line break divides; a name may have spaces. Positions are offsets in the line.
struct word {
    size_t at, end, columns, spaces; // spaces: before it
    size_t name, name_end;           // the name within the word; equal: it has none
    int joined;                      // to the word before
};

struct line {
    char *text; // without marks
    size_t bytes;
    struct word *words;
    size_t count, capacity;
    size_t hang; // where continuation lines begin
    int is_row;
};

// Returns the length of an escape sequence (a colour), 0 if none begins there.
static size_t measure_escape(const char *at, size_t left) {
    if (left < 2 || at[0] != '\033' || at[1] != '[')
        return 0;
    size_t n = 2;
    while (n < left && at[n] != 'm')
        n++;
    return n < left ? n + 1 : n;
}

static size_t count_columns(const char *text, size_t n) {
    size_t columns = 0;
    for (size_t i = 0; i < n;) {
        const size_t escape = measure_escape(text + i, n - i);
        columns += !escape && ((unsigned char)text[i] & 0xC0) != 0x80;
        i += escape ? escape : 1;
    }
    return columns;
}

// ---- words of one figure ------------------------------------------------------------------------

// Copies a word without escape sequences; "" if it is too long.
static void copy_word(char *to, const char *from, size_t n) {
    size_t used = 0;
    for (size_t i = 0; i < n && used + 1 < LONGEST;) {
        const size_t escape = measure_escape(from + i, n - i);
        if (!escape)
            to[used++] = from[i];
        i += escape ? escape : 1;
    }
    to[used + 1 < LONGEST ? used : 0] = 0;
}

static size_t count_digits(const char *s) {
    return strspn(s, "0123456789");
}

static int is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int is_unit(const char *word) {
    const size_t n = strcspn(word, ".,;:)");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i]) == n && strncmp(word, units[i], n) == 0)
            return 1;
    return 0;
}

static int is_noun(const char *word) {
    for (size_t i = 0; i < sizeof nouns / sizeof *nouns; i++)
        if (strcmp(word, nouns[i]) == 0)
            return 1;
    return 0;
}

// What follows a number: its unit, what it counts, three more digits of it, or the time after days.
static int follows_number(const char *number, const char *second) {
    const size_t all = strlen(number), digits = count_digits(number);
    if (digits == all)
        return is_letter(*second) || (all <= 3 && count_digits(second) == 3);
    if (digits && digits + 1 == all && number[digits] == 'd')
        return count_digits(second) == 2;
    return count_digits(number + all - 1) && is_unit(second);
}

// Whether the second word, one space after the first, belongs to it: "8.19" and "MiB", "GPU" and
// "0", "63" and "blocks". Both may have escape sequences around them.
static int belong_together(const char *first, size_t first_bytes, const char *second,
                           size_t second_bytes) {
    char a[LONGEST], b[LONGEST];
    copy_word(a, first, first_bytes);
    copy_word(b, second, second_bytes);
    if (!*a || !*b)
        return 0;
    if (strcmp(a, "<-") == 0) // the arrow stays with the caller
        return 1;
    const char *word = a + strspn(a, "(+<>");
    if (is_noun(word) && count_digits(b))
        return 1;
    if (*b == '(' && count_digits(b + 1) && strchr(b, ')')) // a result: "NAME (2)"
        return 1;
    return *word && follows_number(word, b);
}

// ---- words --------------------------------------------------------------------------------------

// Returns the word that the end of the text so far belongs to: the last one, or a new one.
static struct word *get_word(struct line *l, int *in_word) {
    if (!*in_word) {
        const size_t before = l->count ? l->words[l->count - 1].end : 0;
        CT_HEAP_GROW(l->words, l->count, l->capacity);
        l->words[l->count++] =
            (struct word){.at = l->bytes, .end = l->bytes, .spaces = l->bytes - before};
        *in_word = 1;
    }
    return &l->words[l->count - 1];
}

// Removes the marks from the text, in place, and divides it into words.
static void find_words(struct line *l, size_t length) {
    int in_word = 0, in_name = 0, has_hang = 0;
    for (size_t i = 0; i < length; i++) {
        const char c = l->text[i];
        if (c == *CT_WRAP_HANG) {
            l->hang = count_columns(l->text, l->bytes);
            has_hang = 1;
        } else if (c == *CT_WRAP_ROW) {
            l->is_row = 1;
        } else if (c == *CT_WRAP_NAME) {
            get_word(l, &in_word)->name = l->bytes;
            in_name = 1;
        } else if (c == *CT_WRAP_NAME_END) {
            get_word(l, &in_word)->name_end = l->bytes;
            in_name = 0;
        } else if (c == ' ' && !in_name) {
            in_word = 0;
            l->text[l->bytes++] = c;
        } else {
            struct word *w = get_word(l, &in_word);
            l->text[l->bytes++] = c;
            w->end = l->bytes;
        }
    }
    if (!has_hang)
        l->hang = (l->count ? l->words[0].spaces : 0) + 2;
}

static int is_joined(const struct line *l, const struct word *w) {
    const struct word *before = w - 1;
    return w->spaces == 1 && belong_together(l->text + before->at, before->end - before->at,
                                             l->text + w->at, w->end - w->at);
}

// Whether a word that is not marked names a place in code: a path or a symbol.
static int looks_like_name(const char *text, size_t n) {
    return memchr(text, '/', n) || memmem(text, n, "::", 2);
}

static void measure_words(struct line *l) {
    for (size_t i = 0; i < l->count; i++) {
        struct word *w = &l->words[i];
        w->columns = count_columns(l->text + w->at, w->end - w->at);
        w->joined = i && is_joined(l, w);
        if (w->name_end <= w->name && looks_like_name(l->text + w->at, w->end - w->at)) {
            w->name = w->at;
            w->name_end = w->end;
        }
    }
}

// ---- lines --------------------------------------------------------------------------------------

// Writes a word, in at most `most` columns if it has a name that can be elided. Returns its
// columns.
static size_t write_word(const struct wrap *w, const struct line *l, const struct word *word,
                         size_t most) {
    const char *text = l->text;
    if (word->columns <= most || !w->style.mark || word->name_end <= word->name) {
        fwrite(text + word->at, 1, word->end - word->at, w->out);
        return word->columns;
    }
    const size_t n = word->name_end - word->name, columns = count_columns(text + word->name, n);
    const size_t over = word->columns - most;
    char *name = ct_heap_resize(NULL, n + 1, 1);
    memcpy(name, text + word->name, n);
    name[n] = 0;
    ct_elide(name, columns > over ? columns - over : 0, w->style.mark);
    fwrite(text + word->at, 1, word->name - word->at, w->out);
    fputs(name, w->out);
    fwrite(text + word->name_end, 1, word->end - word->name_end, w->out);
    const size_t left = count_columns(name, strlen(name));
    free(name);
    return word->columns - columns + left;
}

// Returns the end of the words that stay on one line with this one, and their columns.
static size_t find_group(const struct line *l, size_t first, size_t most, size_t *columns) {
    size_t i = first + 1;
    *columns = l->words[first].columns;
    for (; i < l->count && l->words[i].joined; i++)
        *columns += l->words[i].spaces + l->words[i].columns;
    if (*columns <= most)
        return i;
    *columns = l->words[first].columns; // no line holds them all
    return first + 1;
}

static void write_wrapped(const struct wrap *w, const struct line *l) {
    const size_t width = w->style.width, hang = l->hang <= width * 5 / 8 ? l->hang : 2;
    size_t column = 0, columns;
    for (size_t i = 0, end; i < l->count; i = end) {
        size_t spaces = l->words[i].spaces;
        end = find_group(l, i, width - hang, &columns);
        if (i && column + spaces + columns > width) {
            putc('\n', w->out);
            column = 0;
            spaces = hang;
        }
        for (size_t k = i; k < end; k++) {
            fprintf(w->out, "%*s", (int)(k == i ? spaces : l->words[k].spaces), "");
            column += k == i ? spaces : l->words[k].spaces;
            column += write_word(w, l, &l->words[k], width > column ? width - column : 0);
        }
    }
}

static void write_line(struct wrap *w) {
    struct line l = {.text = w->line};
    find_words(&l, w->length);
    if (l.is_row || count_columns(l.text, l.bytes) <= w->style.width) {
        fwrite(l.text, 1, l.bytes, w->out);
    } else {
        measure_words(&l);
        write_wrapped(w, &l);
    }
    free(l.words);
    w->length = 0;
}

// ---- the stream ---------------------------------------------------------------------------------

static void append(struct wrap *w, const char *text, size_t n) {
    if (w->length + n > w->capacity) {
        w->capacity = 2 * (w->length + n);
        w->line = ct_heap_resize(w->line, w->capacity, 1);
    }
    memcpy(w->line + w->length, text, n);
    w->length += n;
}

static ssize_t write_text(void *cookie, const char *text, size_t n) {
    struct wrap *w = cookie;
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t length = (end ? (size_t)(end - text) : n) - at;
        append(w, text + at, length);
        at += length;
        if (end) {
            write_line(w);
            putc('\n', w->out);
            at++;
        }
    }
    return ferror(w->out) ? 0 : (ssize_t)n;
}

static int close_stream(void *cookie) {
    struct wrap *w = cookie;
    FILE *out = w->out;
    if (w->length)
        write_line(w);
    free(w->line);
    free(w);
    return ferror(out) ? -1 : 0;
}

FILE *ct_wrap_open(const struct ct_wrap_style *style, FILE *out) {
    struct wrap *w = ct_heap_alloc_zeroed(1, sizeof *w);
    *w = (struct wrap){.style = *style, .out = out};
    FILE *stream =
        fopencookie(w, "w", (cookie_io_functions_t){.write = write_text, .close = close_stream});
    if (!stream)
        ct_heap_exhausted();
    return stream;
}

// ---- names that are too long --------------------------------------------------------------------

// A name is not cut to less than SHORT columns as long as there is another one to cut. A cut takes
// at least CUT columns, so that a mark of three bytes is never longer.
enum { SHORT = 12, CUT = 3 };

// A part of the text: offsets of bytes.
struct part {
    size_t from, to;
};

static size_t count_part(const char *text, struct part p) {
    return count_columns(text + p.from, p.to - p.from);
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
        const size_t n = count_part(text, p);
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
    const size_t room = columns - ct_utf8_columns(mark), n = count_part(text, p);
    const size_t last = find_separator(text, p);
    const size_t tail = count_part(text, (struct part){last, p.to});
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
        size_t n = count_part(text, p);
        if (n < SHORT + CUT) { // cut the whole text
            p = (struct part){0, strlen(text)};
            n = all;
        }
        const size_t left = n > excess + SHORT ? n - excess : SHORT;
        cut_name(text, p, left + CUT > n ? n - CUT : left, mark);
    }
}
