// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary text to what reads logs, messages and metrics: verdicts, as text and as JSON,
// come to an end, and nothing that is printed has a control character of the input.
//
// fuzz_text RUNS SEED-FILE... mutates the seeds, always in the same way: other letters, lines
// elsewhere, numbers at their limits, and sentences of templates.def cut anywhere. The number of a
// run that fails is in the file named by CT_FUZZ_LAST, and "fuzz_text =RUN SEED-FILE..." repeats it
// alone.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/draw.h"
#include "diagnose/metrics_verdicts.h"
#include "diagnose/text_verdicts.h"
#include "text/metrics.h"
#include "text/read_text.h"
#include "views/log_json.h"
#include "views/log_text.h"
#include "views/verdicts_json.h"
#include "views/verdicts_text.h"

enum { INPUT_MAX = 1 << 17, MAX_SEEDS = 1024 };

static const char *const sentences[] = {
#define CT_TEMPLATE(KIND, text, source) text,
#include "text/templates.def"
#define CT_TEXT_FLAG(ID, name, dashed) name "=",
#include "text/flags.def"
#define CT_METRIC(FIELD, name) name " ",
#include "base/metrics.def"
};
static const char *const numbers[] = {"0",
                                      "-1",
                                      "9223372036854775807",
                                      "9223372036854775808 GiB",
                                      "-99999999999999999999 bytes",
                                      "1e999",
                                      "17179869184.00 GiB",
                                      "0.00000000000000000001 KiB",
                                      "1,024,000,000,000,000,000,000 tokens",
                                      "nan",
                                      "4194304 TiB"};

static struct seed {
    char *bytes;
    size_t size;
} seeds[MAX_SEEDS];
static size_t seed_count;

static void check_output(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        // (1 to 4 are marks of the layout; the view's own line ends)
        if ((c < ' ' && c != '\n' && c > 4) || c == 0x7f || c == 0x1b)
            abort();
    }
}

static void show(const struct ct_text_facts *f, const struct ct_verdicts *l) {
    struct ct_arguments o = {.device = -1};
    const struct ct_terminal terminal = {
        .width = 80, .bold = "", .red = "", .dim = "", .reset = ""};
    char *text = NULL;
    size_t n = 0;
    struct ct_view v = {.options = &o, .terminal = &terminal, .out = open_memstream(&text, &n)};
    if (!v.out)
        abort();
    ct_verdicts_print(&v, l, 9);
    (void)ct_log_print(&v, f);
    struct ct_json json = {.out = v.out}, *j = &json;
    ct_json_open(j, NULL, '{');
    ct_verdicts_add_json(j, "verdicts", l, NULL);
    ct_log_add_json(j, "log", f, &o);
    ct_json_close(j, '}');
    fclose(v.out);
    check_output(text, n);
    free(text);
}

static void read_input(const char *bytes, size_t n) {
    struct ct_text_facts f;
    struct ct_verdicts l = {0};
    struct ct_metrics m;
    ct_text_facts_init(&f);
    ct_read_text_bytes(bytes, n, &f);
    ct_text_verdicts_find(&f, &l);
    if (!l.count)
        abort();
    FILE *in = fmemopen((void *)(uintptr_t)bytes, n, "r");
    if (in) {
        (void)ct_metrics_read(in, &m);
        ct_metrics_verdicts_find(&m, &l);
        ct_metrics_free(&m);
        fclose(in);
    }
    show(&f, &l);
    ct_verdicts_free(&l);
    ct_text_facts_free(&f);
}

static void load(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    struct seed *s = &seeds[seed_count < MAX_SEEDS ? seed_count++ : 0];
    free(s->bytes);
    s->bytes = malloc(INPUT_MAX / 2);
    if (!s->bytes)
        abort();
    s->size = fread(s->bytes, 1, INPUT_MAX / 2, f);
    fclose(f);
}

// Puts letters at a place, over or between what is there.
static size_t insert(char *at, size_t n, size_t place, const char *letters, size_t length) {
    if (n + length < INPUT_MAX && draw(2)) {
        memmove(at + place + length, at + place, n - place);
        n += length;
    }
    if (place + length <= n)
        memcpy(at + place, letters, length);
    return n;
}

static size_t mutate(char *at, size_t n) {
    static const char letters[] = "\n\r\t\033[;m\\>|(){}<%\"'`*&\0\x7f\x80\xff,.:-09";
    for (uint64_t times = 1 + draw(12); times--;) {
        const size_t place = draw(n + 1);
        const char *sentence = sentences[draw(sizeof sentences / sizeof *sentences)];
        const char *number = numbers[draw(sizeof numbers / sizeof *numbers)];
        const size_t length = 1 + draw(60);
        switch (draw(6)) {
        case 0:
            n = insert(at, n, place, &letters[draw(sizeof letters - 1)], 1);
            break;
        case 1:
            n = insert(at, n, place, sentence, draw(strlen(sentence) + 1));
            break;
        case 2:
            n = insert(at, n, place, number, strlen(number));
            break;
        case 3: // a number of the text becomes another
            for (size_t i = place; i < n; i++)
                if (at[i] >= '0' && at[i] <= '9') {
                    n = insert(at, n, i, number, strlen(number));
                    break;
                }
            break;
        case 4: // cut out
            if (place + length < n) {
                memmove(at + place, at + place + length, n - place - length);
                n -= length;
            }
            break;
        default: // copy from elsewhere
            if (place + length < n)
                memmove(at + place, at + draw(n - length), length);
        }
    }
    return n;
}

static void run(uint64_t number) {
    static char input[INPUT_MAX + 64];
    chance = number;
    const struct seed *s = &seeds[draw(seed_count)];
    memcpy(input, s->bytes, s->size);
    read_input(input, number ? mutate(input, s->size) : s->size);
}

int main(int argc, char **argv) {
    const char *last = getenv("CT_FUZZ_LAST");
    if (argc < 3) {
        fputs("usage: fuzz_text RUNS|=RUN SEED-FILE...\n", stderr);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        load(argv[i]);
    if (argv[1][0] == '=') {
        run(strtoull(argv[1] + 1, NULL, 10));
        return 0;
    }
    for (uint64_t i = 0, runs = strtoull(argv[1], NULL, 10); i < runs; i++) {
        FILE *f = last ? fopen(last, "w") : NULL;
        if (f) {
            fprintf(f, "%llu\n", (unsigned long long)i);
            fclose(f);
        }
        run(i);
    }
    return 0;
}
