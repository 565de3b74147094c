// SPDX-License-Identifier: Apache-2.0
#include "watch/http_request.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

// Which of the two formats of metrics a client wants. Weights are thousandths; the most of each
// kind.
struct accept {
    unsigned openmetrics; // asked for by its name
    unsigned text;        // text/plain, or whatever there is
};

struct head {
    struct ct_http_request *to;
    struct accept accept;
    int minor; // of the version
    int hosts, has_body, closes, keeps;
};

// The length of the line at `at` with its end; 0: it has none yet.
static size_t measure_line(const char *at, size_t n) {
    const char *end = memchr(at, '\n', n);
    return end ? (size_t)(end - at) + 1 : 0;
}

static int is_empty(const char *line, size_t n) {
    return n == 1 || (n == 2 && *line == '\r');
}

size_t ct_http_request_measure(const char *bytes, size_t n) {
    size_t at = 0, line;
    int has_begun = 0; // empty lines before the first one are ignored
    while ((line = measure_line(bytes + at, n - at))) {
        const int empty = is_empty(bytes + at, line);
        at += line;
        if (empty && has_begun)
            return at;
        has_begun |= !empty;
    }
    return 0;
}

// Ends the line without what ends it. Returns what follows.
static char *cut_line(char *line, const char *end) {
    const size_t n = measure_line(line, (size_t)(end - line));
    char *next = line + n;
    line[n - 1] = 0;
    if (n > 1 && line[n - 2] == '\r')
        line[n - 2] = 0;
    return next;
}

// ---- the first line -----------------------------------------------------------------------------

// Ends the word at the next blank. Returns what follows, or NULL: there is none.
static char *cut_word(char *word) {
    char *blank = strchr(word, ' ');
    if (!blank || blank == word)
        return NULL;
    *blank = 0;
    return blank + 1;
}

static int read_version(struct head *h, const char *text) {
    if (strncmp(text, "HTTP/", 5) != 0)
        return 400;
    if (strcmp(text, "HTTP/1.1") != 0 && strcmp(text, "HTTP/1.0") != 0)
        return 505;
    h->minor = text[7] - '0';
    return 0;
}

static enum ct_http_method read_method(const char *word) {
    if (strcmp(word, "GET") == 0)
        return CT_HTTP_GET;
    return strcmp(word, "HEAD") == 0 ? CT_HTTP_HEAD_ONLY : CT_HTTP_OTHER;
}

// A target is a path, or what a proxy is asked for: http://host/path.
static void read_path(struct ct_http_request *r, const char *target) {
    if (strncasecmp(target, "http://", 7) == 0)
        target += 7 + strcspn(target + 7, "/?");
    size_t n = strcspn(target, "?#");
    n = n < sizeof r->path ? n : sizeof r->path - 1;
    memcpy(r->path, target, n);
    r->path[n] = 0;
}

static int read_first(struct head *h, char *line) {
    if (strchr(line, '\t')) // (fields may have tabs)
        return 400;
    char *target = cut_word(line), *version = target ? cut_word(target) : NULL;
    if (!version)
        return 400;
    h->to->method = read_method(line);
    read_path(h->to, target);
    return read_version(h, version);
}

// ---- the field Accept (RFC 9110, 12.5.1) --------------------------------------------------------

// "1", "0.75": thousandths. What is no weight is none.
static unsigned read_weight(const char *text) {
    unsigned weight = *text == '1' ? 1000 : 0, place = 100;
    if ((*text != '0' && *text != '1') || text[1] != '.')
        return weight;
    for (text += 2; isdigit((unsigned char)*text) && place; text++, place /= 10)
        weight += (unsigned)(*text - '0') * place;
    return weight < 1000 ? weight : 1000;
}

// Whether one of the parameters after a type, ";name=value;...", is this one; NULL, or its value.
static const char *find_parameter(const char *at, size_t n, const char *name) {
    const char *end = at + n;
    const size_t length = strlen(name);
    while ((at = memchr(at, ';', (size_t)(end - at)))) {
        at++;
        while (at < end && (*at == ' ' || *at == '\t'))
            at++;
        if ((size_t)(end - at) > length && strncasecmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    }
    return NULL;
}

static void add_range(struct accept *a, const char *range, size_t n) {
    const char *q = find_parameter(range, n, "q");
    const char *version = find_parameter(range, n, "version");
    const unsigned weight = q ? read_weight(q) : 1000;
    const size_t type = strcspn(range, ";, \t");
    // Version 1.0.0 is what 0.0.1 was made into; others are not written.
    const int is_known = !version || strncmp(version, "1.", 2) == 0 || *version == '0';
    unsigned *of = NULL;
    if (type == 28 && strncasecmp(range, "application/openmetrics-text", 28) == 0 && is_known)
        of = &a->openmetrics;
    else if ((type == 10 && strncasecmp(range, "text/plain", 10) == 0) ||
             (type == 6 && strncasecmp(range, "text/*", 6) == 0) ||
             (type == 3 && strncmp(range, "*/*", 3) == 0))
        of = &a->text;
    if (of && weight > *of)
        *of = weight;
}

static void add_accept(struct accept *a, const char *value) {
    for (const char *at = value; *at;) {
        at += strspn(at, ", \t");
        const size_t n = strcspn(at, ",");
        if (n)
            add_range(a, at, n);
        at += n;
    }
}

// Only who names it gets it, and not who would rather have the older text.
static int wants_openmetrics(const struct accept *a) {
    return a->openmetrics && a->openmetrics >= a->text;
}

// ---- fields -------------------------------------------------------------------------------------

// Whether a list of words has this one.
static int has_word(const char *list, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = list; *at;) {
        at += strspn(at, ", \t");
        const size_t length = strcspn(at, ", \t");
        if (length == n && strncasecmp(at, word, n) == 0)
            return 1;
        at += length;
    }
    return 0;
}

// Of a host that is too long the begin, which is no name of ours.
static void read_host(struct head *h, const char *value) {
    const size_t bracket = *value == '[' ? strcspn(value, "]") : 0;
    const size_t n = bracket + strcspn(value + bracket, ": \t");
    h->hosts++;
    (void)snprintf(h->to->host, sizeof h->to->host, "%.*s", (int)n, value);
}

static int read_field(struct head *h, char *line) {
    char *colon = strchr(line, ':');
    if (!colon || colon == line || strcspn(line, " \t") < (size_t)(colon - line))
        return 400;
    *colon = 0;
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    if (strcasecmp(line, "Host") == 0)
        read_host(h, value);
    else if (strcasecmp(line, "Accept") == 0)
        add_accept(&h->accept, value);
    else if (strcasecmp(line, "Transfer-Encoding") == 0)
        h->has_body = 1;
    else if (strcasecmp(line, "Content-Length") == 0)
        h->has_body |= strspn(value, "0 \t") != strlen(value);
    else if (strcasecmp(line, "Connection") == 0) {
        h->closes |= has_word(value, "close");
        h->keeps |= has_word(value, "keep-alive");
    }
    return 0;
}

// No control character but tabs belongs into a head.
static int is_clean(const char *line) {
    for (; *line; line++)
        if (((unsigned char)*line < ' ' && *line != '\t') || *line == 0x7f)
            return 0;
    return 1;
}

static int read_lines(struct head *h, char *at, const char *end) {
    int is_first = 1, status = 0;
    while (at < end && !status) {
        char *line = at;
        at = cut_line(line, end);
        if (!is_clean(line))
            return 400;
        if (!*line)
            continue; // before the first line, or at the end
        status = is_first ? read_first(h, line) : read_field(h, line);
        is_first = 0;
    }
    return status;
}

int ct_http_request_parse(struct ct_http_request *r, char *head, size_t n) {
    struct head h = {.to = r};
    *r = (struct ct_http_request){.method = CT_HTTP_OTHER};
    if (memchr(head, 0, n))
        return 400;
    const int status = read_lines(&h, head, head + n);
    if (status)
        return status;
    if (h.minor ? h.hosts != 1 : h.hosts > 1)
        return 400;
    r->wants_openmetrics = wants_openmetrics(&h.accept);
    // A body is not read: what follows it cannot be found.
    r->keeps_open = !h.closes && !h.has_body && (h.minor || h.keeps);
    return 0;
}
