// SPDX-License-Identifier: Apache-2.0
#include "text/clean.h"

#include <string.h>

#include "text/template.h"

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}

static int is_letter(char c) {
    return is_upper(c) || (c >= 'a' && c <= 'z');
}

// ---- escape sequences ---------------------------------------------------------------------------

// The letters of an escape character: the byte itself, or how a tool wrote it; 0 if there is none.
static size_t measure_escape(const char *p, size_t left) {
    static const char *const spellings[] = {"\033", "\\x1b", "\\x1B", "\\u001b", "\\033", "^["};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        const size_t n = strlen(spellings[i]);
        if (left >= n && memcmp(p, spellings[i], n) == 0)
            return n;
    }
    return 0;
}

// The length of a sequence like ESC [ 0;36 m, or of a lone escape character.
static size_t measure_sequence(const char *p, size_t left) {
    size_t n = measure_escape(p, left);
    if (!n)
        return 0;
    if (n >= left || p[n] != '[')
        return *p == '\033' ? n : 0;
    for (n++; n < left && n < 24 && (is_digit(p[n]) || strchr(";:?", p[n])); n++) {
    }
    return n < left && is_letter(p[n]) ? n + 1 : n;
}

// The length of "&quot;" and its like, with what it stands for; a quote is nothing (0).
static size_t measure_entity(const char *p, size_t left, char *stands_for) {
    static const struct {
        const char *name;
        char letter;
    } entities[] = {{"&quot;", 0}, {"&#x27;", 0}, {"&#39;", 0},  {"&#34;", 0},
                    {"&gt;", '>'}, {"&lt;", '<'}, {"&amp;", '&'}};
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
        const size_t n = strlen(entities[i].name);
        if (left >= n && memcmp(p, entities[i].name, n) == 0) {
            *stands_for = entities[i].letter;
            return n;
        }
    }
    return 0;
}

// ---- prefixes -----------------------------------------------------------------------------------

// Each of these returns the length of what it knows at `p`, 0 if it is something else.

// Blanks, signs of a quotation, and the left side of a box.
static size_t measure_blanks(const char *p, size_t left) {
    size_t n = 0;
    while (n < left && (p[n] == ' ' || p[n] == '\t' || p[n] == '>' || (unsigned char)p[n] >= 0x80))
        n++;
    return n;
}

// "(EngineCore_DP0 pid=123) ", "(VllmWorker rank=0 pid=1)", "(Process)".
static size_t measure_tag(const char *p, size_t left) {
    size_t n = 1;
    if (*p != '(' || left < 2 || !is_letter(p[1]))
        return 0;
    while (n < left && n < 120 && p[n] != ')' && p[n] != '(')
        n++;
    if (n == left || p[n] != ')')
        return 0;
    const int has_pid = memmem(p, n, "pid=", 4) || memmem(p, n, "rank=", 5);
    return has_pid || (n == 8 && memcmp(p, "(Process", 8) == 0) ? n + 1 : 0;
}

// "[rank0]:", "[2026-02-24T20:21:58Z]", "[Error]", "[resource.labels.pod_name: x]".
static size_t measure_bracket(const char *p, size_t left) {
    size_t n = 1;
    if (*p != '[')
        return 0;
    while (n < left && n < 120 && p[n] != ']' && p[n] != '[' && p[n] != '\'')
        n++;
    if (n == left || p[n] != ']')
        return 0;
    n++;
    return n < left && p[n] == ':' ? n + 1 : n;
}

// "vllm-1  | ".
static size_t measure_service(const char *p, size_t left) {
    size_t n = 0;
    while (n < left && n < 64 && (is_letter(p[n]) || is_digit(p[n]) || strchr("-_.", p[n])))
        n++;
    if (!n)
        return 0;
    while (n < left && p[n] == ' ')
        n++;
    return n + 1 < left && p[n] == '|' && p[n + 1] == ' ' ? n + 2 : 0;
}

// "2026-02-24T20:21:58.123Z", "02-24 20:21:58", "2026-02-24 20:21:58,123": digits between signs.
static size_t measure_stamp(const char *p, size_t left) {
    size_t n = 0, digits = 0;
    int colons = 0, dashes = 0;
    for (; n < left && n < 40; n++) {
        const int is_blank = p[n] == ' ' && n + 1 < left && is_digit(p[n + 1]) && dashes && !colons;
        if (!is_digit(p[n]) && !strchr("-:.,/TZ+", p[n]) && !is_blank)
            break;
        digits += (size_t)is_digit(p[n]);
        colons += p[n] == ':';
        dashes += p[n] == '-' || p[n] == '/';
    }
    return digits >= 6 && colons >= 2 && is_digit(*p) ? n : 0;
}

// "20:21:58".
static int is_time_of_day(const char *p, size_t left) {
    static const char shape[] = "00:00:00";
    for (size_t i = 0; i < sizeof shape - 1; i++)
        if (i >= left || (shape[i] == '0' ? !is_digit(p[i]) : p[i] != shape[i]))
            return 0;
    return left == sizeof shape - 1 || !is_digit(p[sizeof shape - 1]);
}

size_t ct_clean_find_stamp(const char *line, size_t prefix, size_t *at) {
    enum { TIME = 8, DATE = 10 };
    for (size_t i = 0; i + TIME <= prefix; i++) {
        if (!is_time_of_day(line + i, prefix - i) || (i && is_digit(line[i - 1])))
            continue;
        size_t from = i;
        if (i && (line[i - 1] == ' ' || line[i - 1] == 'T'))
            for (from = i - 1; from && i - from <= DATE &&
                               (is_digit(line[from - 1]) || strchr("-/", line[from - 1]));)
                from--;
        *at = i - from > 5 ? from : i; // (less is no date)
        return i + TIME - *at;
    }
    return 0;
}

// "INFO ", "WARN: ": the level of a logger.
static size_t measure_level(const char *p, size_t left) {
    static const char *const levels[] = {"INFO",     "WARNING", "WARN",     "ERROR",   "DEBUG",
                                         "CRITICAL", "FATAL",   "stderr F", "stdout F"};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const size_t n = strlen(levels[i]);
        if (left > n && memcmp(p, levels[i], n) == 0 && (p[n] == ' ' || p[n] == ':'))
            return n + 1;
    }
    return 0;
}

// "worker.py:123] ", "PyProcess W-252-model-stderr: ".
static size_t measure_source(const char *p, size_t left) {
    static const char process[] = "PyProcess ";
    const size_t most = left < 120 ? left : 120;
    if (left > sizeof process && memcmp(p, process, sizeof process - 1) == 0) {
        const char *end = memchr(p, ':', most);
        return end ? (size_t)(end - p) + 1 : 0;
    }
    size_t n = 0;
    while (n < most && p[n] != ' ' && p[n] != ']')
        n++;
    return n < most && p[n] == ']' && memmem(p, n, ".py:", 4) ? n + 1 : 0;
}

static size_t measure_colour(const char *p, size_t left) {
    return measure_sequence(p, left);
}

size_t ct_clean_skip_prefix(const char *line, size_t length) {
    static size_t (*const parts[])(const char *, size_t) = {
        measure_blanks, measure_colour, measure_tag,    measure_bracket,
        measure_stamp,  measure_level,  measure_source, measure_service};
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && at < length;) {
        const size_t n = parts[i](line + at, length - at);
        at += n;
        i = n ? 0 : i + 1;
    }
    return at < length ? at : length;
}

size_t ct_clean_skip_suffix(const char *line, size_t length) {
    static const char type[] = ".py:";
    size_t at = length;
    while (at && line[at - 1] == ' ')
        at--;
    const size_t end = at;
    while (at && is_digit(line[at - 1]))
        at--;
    if (at == end || at < sizeof type || memcmp(line + at - 4, type, 4) != 0)
        return length;
    for (at -= 4; at && (is_letter(line[at - 1]) || is_digit(line[at - 1]) || line[at - 1] == '_');)
        at--;
    const size_t name = at;
    while (at && line[at - 1] == ' ')
        at--;
    return name - at >= 2 && at ? at : length;
}

int ct_clean_has_vllm_tag(const char *line, size_t prefix) {
    static const char *const tags[] = {
        "(EngineCore", "(APIServer",   "(VllmWorker",      "(RayWorkerVllm",
        "(Worker_",    "(Worker pid=", "(RayWorkerWrapper"};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (memmem(line, prefix, tags[i], strlen(tags[i])))
            return 1;
    return 0;
}

// ---- letters ------------------------------------------------------------------------------------

static int ends_blank(const char *to, size_t n) {
    return n && (to[n - 1] == ' ' || to[n - 1] == CT_TEXT_BREAK);
}

// Adds a blank, or a mark, which stands for the blanks around it.
static size_t add_blank(char *to, size_t n, char blank) {
    if (!ends_blank(to, n))
        to[n++] = blank;
    else if (blank != ' ')
        to[n - 1] = blank;
    return n;
}

// Whether the line has a path of Windows in a frame, whose backslashes are no escapes:
// File "C:\\x\\nodes.py" or File "comfy\\sd.py", and rich's comfy\\sd.py:12 in.
static int has_windows_path(const char *line, size_t length) {
    static const char file[] = "File \"", rich[] = ".py:";
    const char *at = length ? memmem(line, length, file, sizeof file - 1) : NULL,
               *end = line + length;
    if (at)
        at += sizeof file - 1;
    else if (length && (end = memmem(line, length, rich, sizeof rich - 1)))
        at = line;
    else
        return 0;
    for (; at + 1 < end && *at != '"' && *at != '/'; at++)
        if (*at == '\\' && at[1] != '\\' && at[1] != '"')
            return 1;
    return 0;
}

// Adds a letter of the text; those that only quote are nothing.
static size_t add_letter(char *to, size_t n, char c) {
    if (c == '\r')
        return add_blank(to, n, CT_TEXT_BREAK);
    if (c <= ' ' || c > '~')
        return add_blank(to, n, ' ');
    if (!strchr("'\"`\\*", c))
        to[n++] = c;
    return n;
}

size_t ct_clean_letters(const char *line, size_t length, char *to) {
    const int is_windows = has_windows_path(line, length);
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        const char *p = line + i;
        const size_t left = length - i;
        char letter = 0;
        size_t used = 0;
        if (is_windows && *p == '\\') {
            to[n++] = '/';
            used = 1;
        } else if (*p == '\033' || *p == '\\' || *p == '^')
            used = measure_sequence(p, left);
        else if (*p == '&' && (used = measure_entity(p, left, &letter)) && letter)
            to[n++] = letter;
        if (!used && *p == '\\' && left > 1 && strchr("nrt", p[1])) {
            n = add_blank(to, n, p[1] == 'n' ? CT_TEXT_BREAK : ' ');
            used = 2;
        }
        if (!used) {
            n = add_letter(to, n, *p);
            used = 1;
        }
        i += used;
    }
    return n;
}
