// SPDX-License-Identifier: Apache-2.0
// The settings of a server stand at the beginning of its log, and its error at the end.
#include "bundle/bundle_text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/input_file.h"

enum { FIRST = 1 << 20, LAST = 4 << 20 };

static void append_part(FILE *in, struct ct_buffer *to, size_t most) {
    const size_t n = fread(ct_buffer_reserve(to, most), 1, most, in);
    to->n += n;
}

// Cuts what is behind the last whole line.
static void end_with_line(struct ct_buffer *text) {
    while (text->n && text->at[text->n - 1] != '\n')
        text->n--;
}

static void skip_line(FILE *in) {
    int c;
    while ((c = getc(in)) != EOF && c != '\n')
        ;
}

static void read_long(FILE *in, long bytes, struct ct_buffer *to) {
    char note[80];
    append_part(in, to, FIRST);
    end_with_line(to);
    const int n =
        snprintf(note, sizeof note, "[lines of the log are left out: it has %ld bytes]\n", bytes);
    ct_buffer_append(to, note, (size_t)n);
    (void)fseek(in, bytes - LAST, SEEK_SET);
    skip_line(in);
    append_part(in, to, LAST);
}

static int read_one(struct ct_bundle_log *l, const char *path, struct ct_error *error) {
    const char *why;
    FILE *in = ct_input_file_open_seekable(path, &why);
    if (!in)
        return ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: cannot be opened: %s", path, why);
    (void)fseek(in, 0, SEEK_END);
    const long bytes = ftell(in);
    rewind(in);
    if (bytes > FIRST + LAST)
        read_long(in, bytes, &l->text);
    else
        append_part(in, &l->text, FIRST + LAST);
    const int failed = ferror(in);
    fclose(in);
    return failed ? ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: %s", path, strerror(errno)) : 0;
}

static struct ct_string text_of(const struct ct_bundle_log *l) {
    return (struct ct_string){(const char *)l->text.at, (uint32_t)l->text.n};
}

int ct_bundle_logs_read(struct ct_bundle_logs *l, const struct ct_arguments *o, struct ct_scrub *s,
                        struct ct_error *error) {
    for (; l->count < 2 && o->log[l->count]; l->count++) {
        struct ct_bundle_log *log = &l->list[l->count];
        *log = (struct ct_bundle_log){.fd = -1};
        (void)snprintf(log->name, sizeof log->name, "log-%d.txt", l->count + 1);
        if (read_one(log, o->log[l->count], error)) {
            free(log->text.at);
            return -1;
        }
        ct_scrub_learn_text(s, text_of(log));
    }
    return 0;
}

// Line by line: what is left in one costs this line, not the bundle.
static void scrub_lines(struct ct_scrub *s, struct ct_string text, struct ct_buffer *to) {
    static const char left[] = "[a line with a name is left out]\n";
    const char *at = text.at, *const end = text.at + text.length, *behind;
    for (; at < end; at = behind) {
        const size_t before = to->n;
        behind = memchr(at, '\n', (size_t)(end - at));
        behind = behind ? behind + 1 : end;
        ct_scrub_text(s, to, (struct ct_string){at, (uint32_t)(behind - at)});
        if (!ct_scrub_find(s, to->at + before, to->n - before, 1))
            continue;
        to->n = before;
        ct_buffer_append(to, left, sizeof left - 1);
    }
}

void ct_bundle_logs_scrub(struct ct_bundle_logs *l, struct ct_scrub *s) {
    for (int i = 0; i < l->count; i++) {
        struct ct_bundle_log *log = &l->list[i];
        struct ct_buffer made = {0};
        if (s->level != CT_SCRUB_NO) {
            scrub_lines(s, text_of(log), &made);
            free(log->text.at);
            log->text = made;
        }
        log->fd = ct_memory_file_make(log->text.at, log->text.n, log->path);
    }
}

void ct_bundle_logs_free(struct ct_bundle_logs *l) {
    for (int i = 0; i < l->count; i++) {
        free(l->list[i].text.at);
        if (l->list[i].fd >= 0)
            close(l->list[i].fd);
    }
    l->count = 0;
}
