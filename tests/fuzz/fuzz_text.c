// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary text to what reads logs, messages and metrics: verdicts, as text and as JSON,
// come to an end, and nothing that is printed has a control character of the input.
//
// Put into the seeds are other letters, lines elsewhere, numbers at their limits, and sentences of
// templates.def cut anywhere.
#include "diagnose/metrics_verdicts.h"
#include "diagnose/text_verdicts.h"
#include "print/companions_print.h"
#include "print/verdict.h"
#include "seeds.h"
#include "text/metrics.h"
#include "text/read_text.h"

enum { INPUT_MAX = 1 << 17 };

static const char *const sentences[] = {
#define CT_TEMPLATE(KIND, text, source) text,
#include "text/templates.def"
#define CT_TEXT_FLAG(ID, name, dashed, source) name, dashed,
#include "text/flags.def"
#define CT_METRIC(FIELD, name) name,
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
    ct_verdicts_add_json(j, l, NULL);
    ct_log_add_json(j, f, &o);
    ct_json_close(j, '}');
    fclose(v.out);
    check_printed(text, n);
    free(text);
}

static void read_input(const uint8_t *bytes, size_t n) {
    struct ct_text_facts f;
    struct ct_verdicts l = {0};
    struct ct_metrics m;
    FILE *in = fmemopen((void *)(uintptr_t)bytes, n, "r");
    ct_text_facts_init(&f);
    if (in)
        (void)ct_read_text_rest("", 0, in, &f);
    ct_text_verdicts_find(&f, &l);
    if (!l.count)
        abort();
    if (in) {
        rewind(in);
        (void)ct_metrics_read(in, &m);
        ct_metrics_verdicts_find(&m, &(struct ct_facts){.program = NULL}, &l);
        ct_metrics_free(&m);
        fclose(in);
    }
    show(&f, &l);
    ct_verdicts_free(&l);
    ct_text_facts_free(&f);
}

static void load(const char *path) {
    static uint8_t bytes[INPUT_MAX / 2];
    add_seed(bytes, read_seed(path, bytes, sizeof bytes));
}

static size_t mutate(uint8_t *at, size_t n) {
    static const char letters[] = "\n\r\t\033[;m\\>|(){}<%\"'`*&\0\x7f\x80\xff,.:-09";
    for (uint64_t times = 1 + draw(12); times--;) {
        const size_t place = draw(n + 1);
        const char *sentence = sentences[draw(sizeof sentences / sizeof *sentences)];
        const char *number = numbers[draw(sizeof numbers / sizeof *numbers)];
        const size_t length = 1 + draw(60);
        switch (draw(6)) {
        case 0:
            n = insert(at, n, INPUT_MAX, place, &letters[draw(sizeof letters - 1)], 1);
            break;
        case 1:
            n = insert(at, n, INPUT_MAX, place, sentence, draw(strlen(sentence) + 1));
            break;
        case 2:
            n = insert(at, n, INPUT_MAX, place, number, strlen(number));
            n = insert(at, n, INPUT_MAX, place, draw(2) ? "=" : " ", 1);
            break;
        case 3: // a number of the text becomes another
            for (size_t i = place; i < n; i++)
                if (at[i] >= '0' && at[i] <= '9') {
                    n = insert(at, n, INPUT_MAX, i, number, strlen(number));
                    break;
                }
            break;
        case 4: // cut out
            n = cut_out(at, n, place, length);
            break;
        default: // copy from elsewhere
            if (place + length < n)
                memmove(at + place, at + draw(n - length), length);
        }
    }
    return n;
}

static void run(uint64_t number) {
    static uint8_t input[INPUT_MAX + 64];
    begin_draws(number);
    const struct seed *s = &seeds[draw(seed_count)];
    memcpy(input, s->bytes, s->size);
    read_input(input, number ? mutate(input, s->size) : s->size);
}

int main(int argc, char **argv) {
    return fuzz(argc, argv, load, run);
}
