// SPDX-License-Identifier: Apache-2.0
#include "page/html.h"

#include <inttypes.h>
#include <string.h>
#include <sys/types.h>

#include "base/heap.h"
#include "print/label.h"

void ct_html_text(FILE *out, const char *text) {
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '<')
            fputs("&lt;", out);
        else if (c == '>')
            fputs("&gt;", out);
        else if (c == '&')
            fputs("&amp;", out);
        else if (c == '"')
            fputs("&quot;", out);
        else if (c == '\'')
            fputs("&#39;", out);
        else if ((c < ' ' && c != '\n') || c == 0x7f)
            fputs("\xef\xbf\xbd", out);
        else
            putc(c, out);
    }
}

void ct_html_cell(FILE *out, const char *class, const char *text) {
    fprintf(out, class ? "<td class=\"%s\">" : "<td>%s", class ? class : "");
    ct_html_text(out, text);
    fputs("</td>", out);
}

// ---- JSON --------------------------------------------------------------------------------------

struct json_stream {
    FILE *to;
    unsigned char held[2]; // of U+2028 or U+2029, whose third byte is not here yet
    unsigned count;
};

static void release(struct json_stream *s) {
    fwrite(s->held, 1, s->count, s->to);
    s->count = 0;
}

// They are the bytes E2 80 A8 and E2 80 A9.
static int is_separator(struct json_stream *s, unsigned char c) {
    static const unsigned char begin[] = {0xE2, 0x80};
    if (s->count == 2 && (c == 0xA8 || c == 0xA9)) {
        fputs(c == 0xA8 ? "\\u2028" : "\\u2029", s->to);
        s->count = 0;
        return 1;
    }
    if (s->count < 2 && c == begin[s->count]) {
        s->held[s->count++] = c;
        return 1;
    }
    release(s);
    if (c != begin[0])
        return 0;
    s->held[s->count++] = c;
    return 1;
}

static ssize_t write_json(void *cookie, const char *bytes, size_t n) {
    struct json_stream *s = cookie;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (is_separator(s, c))
            continue;
        if (c == '<' || c == '>' || c == '&')
            fprintf(s->to, "\\u%04x", c);
        else
            putc(c, s->to);
    }
    return ferror(s->to) ? 0 : (ssize_t)n;
}

static int close_json(void *cookie) {
    struct json_stream *s = cookie;
    release(s);
    free(s);
    return 0;
}

FILE *ct_html_open_json(FILE *to) {
    struct json_stream *s = ct_heap_alloc_zeroed(1, sizeof *s);
    s->to = to;
    FILE *stream =
        fopencookie(s, "w", (cookie_io_functions_t){.write = write_json, .close = close_json});
    if (!stream)
        ct_heap_exhausted();
    return stream;
}

// ---- links to moments ---------------------------------------------------------------------------

void ct_page_moment_link(FILE *out, const struct ct_view *v, uint64_t t_ns, int device) {
    const uint64_t start = v->trace->start_ns;
    fprintf(out, "<a class=\"moment\" href=\"#t=%" PRIu64, t_ns > start ? t_ns - start : 0);
    if (device >= 0 && device < CT_MAX_DEVICES)
        fprintf(out, "&amp;gpu=%d", device);
    fputs("\">", out);
    ct_html_text(out, ct_label_time(v, t_ns).text);
    fputs("</a>", out);
}
