// SPDX-License-Identifier: Apache-2.0
// Draws a whole screen after each look and each key, and sends it with one write: over ssh that is
// a few KiB, and nothing flickers, because no line is cleared before it is written. Another thread
// looks, and has the list unlocked while it reads details, so that keys are answered meanwhile.
#include "watch/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/now.h"
#include "cli/terminal.h"
#include "watch/looker.h"
#include "watch/tty.h"

#define END_NS UINT64_C(100000000)            // for a look that is under way
#define KEEPER_END_NS UINT64_C(3600000000000) // that of a keeper may be in the midst of its work

enum mode { LIST, DETAILS, HELP };

struct screen {
    struct ct_watch_list *list;
    const struct ct_watch_options *options;
    struct ct_tty tty;
    struct ct_terminal terminal;
    struct ct_rows rows;
    enum mode mode;
    int has_ended;
    uint64_t chosen; // trace_id of the process; 0: the first row
    size_t first;    // the first row of the list that is shown
    size_t top;      // the first line of the details that is shown
    size_t lines;    // that they have
    struct ct_looker looker;
    int was_told; // of this look, that the headers were read
};

static const char help[] =
    "\n"
    "  up, down, k, j      choose a process; in the details: a line up or down\n"
    "  PgUp, PgDn          a page up or down; Home, End: the first, the last\n"
    "  Enter               the details of the process on the whole screen, and back\n"
    "  < > F6              the column by which the list is sorted (marked *)\n"
    "  m                   from now on count what call sites gain\n"
    "  space               pause, and go on\n"
    "  h F1 ?              this text, and back\n"
    "  q F10               end\n"
    "\n"
    "  In the bar of a GPU each letter is a part of its memory; the lines below it\n"
    "  say which. GROWTH is of the process's allocations, FULL IN by what all use of\n"
    "  the GPU: the linear trend of the last ten minutes, where there is one for\n"
    "  certain. OOM counts requests that failed. Nothing is written, no process is\n"
    "  stopped.\n";

// ---- lines --------------------------------------------------------------------------------------

// Writes a line up to the screen's width: escape sequences have none.
static void put_line(FILE *out, const char *line, size_t n, size_t width) {
    size_t column = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)line[i];
        if (c == '\033') {
            do
                putc(line[i], out);
            while (line[i] != 'm' && ++i < n);
            continue;
        }
        column += (c & 0xC0) != 0x80; // not the rest of a character
        if (column > width)
            break;
        putc(c, out);
    }
    // After the last column the cursor is still on it: nothing is left to clear.
    fputs(column < width ? "\033[0m\033[K\r\n" : "\033[0m\r\n", out);
}

// Writes the lines of a text from `first` on, at most `most`. Returns how many the text has.
static size_t put_lines(FILE *out, const char *text, size_t first, size_t most, size_t width) {
    size_t line = 0;
    for (const char *at = text; *at; line++) {
        const size_t n = strcspn(at, "\n");
        if (line >= first && line < first + most)
            put_line(out, at, n, width);
        at += n + (at[n] == '\n');
    }
    return line;
}

static const char *sgr(const struct screen *s, const char *sequence) {
    return s->terminal.color ? sequence : "";
}

// ---- parts --------------------------------------------------------------------------------------

static const struct ct_watch_entry *find_chosen(const struct screen *s, size_t *row) {
    *row = 0;
    for (size_t i = 0; i < s->rows.count; i++)
        if (s->list->entries[s->rows.order[i]].process.head.trace_id == s->chosen)
            *row = i;
    return s->rows.count ? &s->list->entries[s->rows.order[*row]] : NULL;
}

// A third of the screen; of a high one, all but what details usually need.
static size_t list_height(const struct screen *s) {
    const size_t third = s->tty.rows > 12 ? (s->tty.rows - 4) / 3 : 3,
                 rest = s->tty.rows > 24 ? s->tty.rows - 24 : 0, most = third > rest ? third : rest;
    return s->rows.count < most ? s->rows.count : most;
}

// The list stands still as long as the chosen row is one of those that are shown.
static void scroll_list(struct screen *s) {
    const size_t height = list_height(s);
    size_t row;
    (void)find_chosen(s, &row);
    if (s->first > row)
        s->first = row;
    if (s->first + height <= row)
        s->first = row - height + 1;
    if (s->first + height > s->rows.count)
        s->first = s->rows.count - height;
}

static void put_title(const struct screen *s, FILE *out) {
    char title[400];
    size_t alive = 0;
    for (size_t i = 0; i < s->list->count; i++)
        alive += (size_t)ct_watch_is_alive(&s->list->entries[i].process);
    int n =
        snprintf(title, sizeof title, "%scutrace watch%s  %zu process%s alive of %zu, every %s",
                 s->terminal.bold, s->terminal.reset, alive, alive == 1 ? "" : "es", s->list->count,
                 ct_human_seconds(s->options->interval_ms * UINT64_C(1000000)).text);
    if (s->looker.is_paused)
        n += snprintf(title + n, sizeof title - (size_t)n, "  PAUSED");
    if (s->mode == LIST && list_height(s) < s->rows.count)
        n += snprintf(title + n, sizeof title - (size_t)n, "  %zu-%zu shown", s->first + 1,
                      s->first + list_height(s));
    if (s->list->skips)
        n += snprintf(title + n, sizeof title - (size_t)n, "  %zu skipped (h)", s->list->skips);
    put_line(out, title, (size_t)n, s->tty.columns);
}

static void put_list(const struct screen *s, FILE *out) {
    const size_t height = list_height(s), width = s->tty.columns;
    size_t row, n = 0;
    char *lines = NULL;
    FILE *text = ct_heap_open_text(&lines, &n);
    (void)find_chosen(s, &row);
    fputs(s->terminal.bold, text);
    ct_rows_print_head(text, &s->rows, width);
    for (size_t i = s->first; i < s->first + height; i++) {
        fprintf(text, "\n%s%c", i == row ? sgr(s, "\033[7m") : "", i == row ? '>' : ' ');
        ct_rows_print(text, &s->list->entries[s->rows.order[i]].process, width);
    }
    ct_heap_close_text(text);
    (void)put_lines(out, lines, 0, height + 1, width);
    free(lines);
}

// What stands below the list, or in its place. `e`: the chosen process; NULL: there is none.
static char *format_body(const struct screen *s, const struct ct_watch_entry *e) {
    char *text = NULL;
    size_t n = 0;
    const struct ct_wrap_style wrap = {.width = s->tty.columns,
                                       .mark = s->terminal.utf8 ? "…" : "..."};
    const struct ct_watch_style style = {.width = s->tty.columns,
                                         .color = s->terminal.color,
                                         .sites = s->mode == DETAILS ? CT_WATCH_SITES : 10,
                                         .incidents = s->mode == DETAILS ? CT_WATCH_INCIDENTS : 3,
                                         .now_ns = ct_now_ns(CLOCK_MONOTONIC)};
    FILE *memory = ct_heap_open_text(&text, &n), *out = ct_wrap_open(&wrap, memory);
    if (s->mode == HELP) {
        fputs(help, out);
        fputs(s->list->skips ? "\n" : "", out);
        ct_watch_text_skipped(out, s->list);
    } else if (e) {
        ct_watch_text_process(out, &e->process, &style);
    } else {
        fputs(CT_WRAP_ROW "\n" CT_WRAP_ROW "  no traced process yet\n", out);
    }
    ct_heap_close_text(out);
    ct_heap_close_text(memory);
    return text;
}

// ---- the screen ---------------------------------------------------------------------------------

// Lines that do not fit are scrolled to, but for those below the list: there one says how many.
static void put_text(struct screen *s, FILE *out, const char *text, size_t left) {
    const size_t most = left < s->lines ? s->lines - left : 0;
    if (s->mode == LIST && most && left) {
        char more[64];
        const int n = snprintf(more, sizeof more, "  %zu more lines: Enter", s->lines - left + 1);
        (void)put_lines(out, text, 0, left - 1, s->tty.columns);
        put_line(out, more, (size_t)n, s->tty.columns);
        return;
    }
    if (s->top > most)
        s->top = most;
    (void)put_lines(out, text, s->top, left, s->tty.columns);
}

static void put_body(struct screen *s, FILE *out) {
    size_t row;
    const struct ct_watch_entry *e = find_chosen(s, &row);
    const size_t height = s->mode == LIST ? list_height(s) + 2 : 0;
    const size_t left = s->tty.rows > height + 2 ? s->tty.rows - height - 2 : 0;
    if (s->mode == LIST)
        put_list(s, out);
    if (s->mode == LIST && e)
        put_line(out, "", 0, s->tty.columns);
    char *text = format_body(s, e);
    s->lines = put_lines(out, text, 0, 0, s->tty.columns); // none is written yet
    put_text(s, out, text, left);
    free(text);
}

static void put_keys(const struct screen *s, FILE *out) {
    static const char keys[] =
        "q end  h help  arrows choose  Enter details  <> sort  m mark gains  space pause";
    fprintf(out, "\033[J\033[%u;1H%s%.*s%s", s->tty.rows, s->terminal.dim, (int)s->tty.columns,
            keys, s->terminal.reset);
}

// Before the first look nothing can be said. Returns the screen as text, for free().
static char *draw(struct screen *s, size_t *n) {
    char *text = NULL;
    FILE *out = ct_heap_open_text(&text, n);
    if (s->list->tick_ns) {
        fputs("\033[H", out);
        ct_rows_sort(&s->rows, s->list);
        scroll_list(s);
        put_title(s, out);
        put_body(s, out);
        put_keys(s, out);
    }
    ct_heap_close_text(out);
    return text;
}

// ---- looks --------------------------------------------------------------------------------------

// What the headers say is shown before details are read.
static void unlock(void *user) {
    struct screen *s = user;
    if (!s->was_told)
        ct_looker_tell(&s->looker);
    s->was_told = 1;
    ct_looker_unlock(&s->looker);
}

static void lock(void *user) {
    struct screen *s = user;
    ct_looker_lock(&s->looker);
}

static int look(void *user) {
    struct screen *s = user;
    size_t row;
    const struct ct_watch_entry *e;
    lock(s);
    s->was_told = 0;
    ct_watch_list_find(s->list, 0);
    ct_watch_list_tick(s->list);
    ct_rows_sort(&s->rows, s->list);
    e = find_chosen(s, &row);
    ct_watch_list_read_some(s->list, e ? (int)(e - s->list->entries) : -1);
    ct_looker_unlock(&s->looker);
    return CT_WATCH_DONE;
}

// ---- keys ---------------------------------------------------------------------------------------

static size_t add(size_t at, int by) {
    return by < 0 && at < (size_t)-by ? 0 : (size_t)((long)at + by);
}

// Moves by rows in the list, by lines in the details.
static void move(struct screen *s, int by) {
    size_t row;
    if (s->mode != LIST) {
        s->top = add(s->top, by);
        return;
    }
    if (!find_chosen(s, &row))
        return;
    long to = (long)row + by;
    to = to < 0 ? 0 : to >= (long)s->rows.count ? (long)s->rows.count - 1 : to;
    s->chosen = s->list->entries[s->rows.order[to]].process.head.trace_id;
    if (by < -1 || by > 1) // a page: the list moves with it
        s->first = add(s->first, by);
}

static void sort_by(struct screen *s, int step) {
    const int n = (int)ct_rows_fit(s->tty.columns);
    s->rows.sorted_by = (enum ct_row_column)(((int)s->rows.sorted_by + step + n) % n);
}

// From now on gains count: all details are read again.
static void set_mark(struct screen *s) {
    s->list->since_ns = ct_now_ns(CLOCK_MONOTONIC);
    for (size_t i = 0; i < s->list->count; i++)
        s->list->entries[i].is_changed = 1;
    ct_looker_look_now(&s->looker);
}

static void toggle(struct screen *s, enum mode mode) {
    s->mode = s->mode == mode ? LIST : mode;
    s->top = 0;
}

static void press_move(struct screen *s, int key) {
    const int page = s->mode == LIST ? (int)list_height(s) : (int)s->tty.rows - 3;
    const int step = key == CT_KEY_UP || key == 'k'     ? -1
                     : key == CT_KEY_DOWN || key == 'j' ? 1
                     : key == CT_KEY_PAGE_UP            ? -page
                     : key == CT_KEY_PAGE_DOWN          ? page
                     : key == CT_KEY_HOME               ? -(1 << 20)
                     : key == CT_KEY_LAST               ? 1 << 20
                                                        : 0;
    if (step)
        move(s, step);
}

static void press(struct screen *s, int key) {
    switch (key) {
    case 'q':
    case CT_KEY_F10:
    case CT_KEY_END:
        s->has_ended = 1;
        break;
    case '\r':
    case '\n':
        toggle(s, DETAILS);
        break;
    case 'h':
    case '?':
    case CT_KEY_F1:
        toggle(s, HELP);
        break;
    case CT_KEY_ESCAPE:
        s->mode = LIST;
        break;
    case '<':
        sort_by(s, -1);
        break;
    case '>':
    case CT_KEY_F6:
        sort_by(s, 1);
        break;
    case 'm':
        set_mark(s);
        break;
    case ' ':
        s->looker.is_paused = !s->looker.is_paused;
        ct_looker_look_now(&s->looker);
        break;
    default:
        press_move(s, key);
    }
}

// ---- all of it ----------------------------------------------------------------------------------

static int show(struct screen *s) {
    size_t n;
    ct_looker_lock(&s->looker);
    char *text = draw(s, &n);
    ct_looker_unlock(&s->looker);
    const int failed = ct_tty_write(text, n);
    free(text);
    return failed;
}

// A key is of what the list has now: entries may have gone since it was drawn.
static void answer(struct screen *s, int key) {
    ct_looker_lock(&s->looker);
    ct_rows_sort(&s->rows, s->list);
    press(s, key);
    ct_looker_unlock(&s->looker);
}

static int run(struct screen *s) {
    while (!s->has_ended) {
        if (show(s))
            return CT_WATCH_CANNOT_WRITE;
        const int key = ct_tty_wait(&s->tty, s->looker.looked);
        if (key == CT_KEY_NONE)
            (void)ct_looker_listen(&s->looker);
        else
            answer(s, key);
    }
    return CT_WATCH_DONE;
}

static int begin_looking(struct screen *s) {
    s->list->lock_user = s;
    s->list->lock = lock;
    s->list->unlock = unlock;
    return ct_looker_begin(&s->looker, look, s, s->options->interval_ms);
}

int ct_screen_run(struct ct_watch_list *list, const struct ct_watch_options *options) {
    const struct ct_arguments arguments = {.color = (enum ct_choice)options->color};
    struct screen *s = ct_heap_alloc_zeroed(1, sizeof *s);
    s->list = list;
    s->options = options;
    s->rows.sorted_by = CT_ROW_ALLOCATED;
    ct_terminal_init(&s->terminal, &arguments);
    int code = CT_WATCH_CANNOT_WRITE;
    const int can_show = ct_tty_begin(&s->tty) == 0 && begin_looking(s) == 0;
    if (can_show)
        code = run(s);
    ct_tty_end(&s->tty);
    // What is left is reading, of a large trace.
    if (can_show && !ct_looker_end(&s->looker, list->ticked ? KEEPER_END_NS : END_NS))
        _exit(code);
    list->lock = list->unlock = NULL;
    free(s);
    return code;
}
