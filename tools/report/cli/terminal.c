// SPDX-License-Identifier: Apache-2.0
// Follows the conventions of git and other tools: NO_COLOR, CLICOLOR_FORCE, COLUMNS, PAGER.
// How many colors a terminal has is read from the terminfo database as term(5) has it, without
// ncurses.
#include "cli/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/input_file.h"
#include "base/utf8.h"
#include "cli/progress.h"

#define DEFAULT_FOLDERS "/etc/terminfo:/lib/terminfo:/usr/share/terminfo:/usr/lib/terminfo"
enum {
    MAGIC = 0432,       // numbers of two bytes
    MAGIC_WIDE = 01036, // of four
    MAX_COLORS = 13,    // the index of max_colors among the numbers
    ENTRY = 32768,      // the most that an entry has
};

// ---- the terminfo database ----------------------------------------------------------------------

static unsigned get_short(const unsigned char *at) {
    return at[0] | (unsigned)at[1] << 8;
}

// Magic number; sizes of the names, booleans, numbers, strings, and of the strings' text. After
// them names, booleans and, at an even place, numbers; one that is absent or negative is none.
static int read_colors(const unsigned char *entry, size_t size) {
    if (size < 12 || (get_short(entry) != MAGIC && get_short(entry) != MAGIC_WIDE))
        return -1;
    const size_t width = get_short(entry) == MAGIC ? 2 : 4;
    const size_t before = 12 + get_short(entry + 2) + get_short(entry + 4);
    const size_t at = before + before % 2 + MAX_COLORS * width;
    if (get_short(entry + 6) <= MAX_COLORS || at + width > size)
        return 0;
    const int is_negative = entry[at + width - 1] & 0x80;
    const unsigned high = width == 4 ? get_short(entry + at + 2) << 16 : 0;
    return is_negative ? 0 : (int)(get_short(entry + at) | high);
}

static int read_entry(const char *path) {
    static unsigned char entry[ENTRY];
    const char *why;
    FILE *f = ct_input_file_open_stream(path, &why);
    if (!f)
        return -1;
    const size_t n = fread(entry, 1, sizeof entry, f);
    (void)fclose(f);
    return read_colors(entry, n);
}

// In a folder that is called as the first letter, or as its number.
static int read_from(const char *folder, int n, const char *terminal) {
    const unsigned char letter = (unsigned char)*terminal;
    char path[4096];
    (void)snprintf(path, sizeof path, "%.*s/%c/%s", n, folder, letter, terminal);
    const int colors = read_entry(path);
    if (colors >= 0)
        return colors;
    (void)snprintf(path, sizeof path, "%.*s/%02x/%s", n, folder, letter, terminal);
    return read_entry(path);
}

static const char *get_variable(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

// How many colors a terminal has; -1: no description of it is found.
static int count_colors(const char *terminal) {
    char list[8192];
    int colors = -1;
    if (!*terminal || strchr(terminal, '/'))
        return -1;
    (void)snprintf(list, sizeof list, "%s:%s/.terminfo:%s:" DEFAULT_FOLDERS,
                   get_variable("TERMINFO"), get_variable("HOME"), get_variable("TERMINFO_DIRS"));
    for (const char *at = list; *at && colors < 0;) {
        const size_t n = strcspn(at, ":");
        if (n)
            colors = read_from(at, (int)n, terminal);
        at += n + (at[n] == ':');
    }
    return colors;
}

// ---- the terminal -------------------------------------------------------------------------------

static int is_set(const char *name) {
    const char *v = getenv(name);
    return v && *v;
}

static int is_forced(const char *name) {
    const char *v = getenv(name);
    return v && *v && strcmp(v, "0") != 0;
}

// Precedence: --color, NO_COLOR, CLICOLOR_FORCE and FORCE_COLOR, the terminal. One that no terminal
// database describes is taken for one of today, which has colors.
static int wants_color(const struct ct_arguments *o, int is_terminal) {
    const char *term = getenv("TERM");
    if (o->color != CT_AUTO)
        return o->color == CT_ALWAYS;
    if (is_set("NO_COLOR"))
        return 0;
    if (is_forced("CLICOLOR_FORCE") || is_forced("FORCE_COLOR"))
        return 1;
    return is_terminal && term && strcmp(term, "dumb") != 0 && count_colors(term) != 0;
}

void ct_terminal_init(struct ct_terminal *t, const struct ct_arguments *o) {
    struct winsize size = {0};
    const char *columns = getenv("COLUMNS");
    *t = (struct ct_terminal){.is_terminal = isatty(STDOUT_FILENO)};
    t->width = t->is_terminal ? 80 : 100;
    setlocale(LC_CTYPE, "");
    t->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    setlocale(LC_CTYPE, "C");
    if (columns && atoi(columns) > 0)
        t->width = (unsigned)atoi(columns);
    else if (t->is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        t->width = size.ws_col;
    if (t->width < 40)
        t->width = 40;
    else if (t->width > 400)
        t->width = 400;
    if (t->is_terminal)
        t->ellipsis = t->utf8 ? "…" : "...";
    t->color = wants_color(o, t->is_terminal);
    t->bold = t->color ? "\033[1m" : "";
    t->red = t->color ? "\033[1;31m" : "";
    t->dim = t->color ? "\033[2m" : "";
    t->reset = t->color ? "\033[0m" : "";
}

static pid_t pager;

void ct_terminal_start_pager(const struct ct_terminal *t, const struct ct_arguments *o) {
    int ends[2];
    const char *command = is_set("CUTRACE_PAGER") ? getenv("CUTRACE_PAGER") : getenv("PAGER");
    if (!command)
        command = "less";
    if (!t->is_terminal || o->json || !*command || strcmp(command, "cat") == 0)
        return;
    fflush(NULL);
    if (pipe(ends))
        return;
    pager = fork();
    if (pager == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("LESS", "FRX", 0);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (pager > 0)
        dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
}

void ct_terminal_end(void) {
    if (pager <= 0)
        return;
    fflush(stdout);
    close(STDOUT_FILENO);
    waitpid(pager, NULL, 0);
    pager = 0;
}

FILE *ct_terminal_open_text(const struct ct_terminal *t, FILE *out) {
    return ct_wrap_open(&(struct ct_wrap_style){.width = t->width, .mark = t->ellipsis}, out);
}

static _Thread_local struct ct_buffer *keeps_warnings; // of this thread; NULL: prints them

void ct_terminal_keep_warnings(struct ct_buffer *kept) {
    keeps_warnings = kept;
}

void ct_terminal_print_kept(struct ct_buffer *kept) {
    const char *text = (const char *)kept->at;
    for (size_t at = 0; at < kept->n; at += strlen(text + at) + 1)
        ct_terminal_warn(text + at);
    free(kept->at);
    *kept = (struct ct_buffer){0};
}

void ct_terminal_warn(const char *text) {
    if (keeps_warnings) {
        ct_buffer_append(keeps_warnings, text, strlen(text) + 1);
        return;
    }
    ct_progress_clear();
    fputs("cutrace-report: ", stderr);
    ct_utf8_print_sanitized(stderr, text, strlen(text));
    fputc('\n', stderr);
}
