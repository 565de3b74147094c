// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary pickles to what reads PyTorch's memory snapshots: the verdicts, as text and as
// JSON, come to an end, or one line says what is wrong; nothing that is printed has a control
// character of the input.
//
// fuzz_snapshot RUNS SEED-FILE... mutates the seeds, always in the same way: opcodes, numbers at
// their limits, words of the format, pieces of other seeds. The number of a run that fails is in
// the file named by CT_FUZZ_LAST, and "fuzz_snapshot =RUN SEED-FILE..." repeats it alone.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/draw.h"
#include "base/pickle_opcodes.h"
#include "views/explain_snapshot.h"

enum { INPUT_MAX = 1 << 16, MAX_SEEDS = 256 };

static const uint8_t opcodes[] = {
#define CT_PICKLE_OPCODE(NAME, code) code,
#include "base/pickle_opcodes.def"
    'c', 'R', 'b', 0x93};
static const char *const words[] = {
#define CT_WORD(text) #text,
#include "export/torch_snapshot.def"
    "addr", "history"};
static const char numbers[][10] = {"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
                                   "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", "K\x00",
                                   "J\xff\xff\xff\xff", "\x8a\x05\x00\x00\x00\x00\x01"};
static const uint8_t number_lengths[] = {10, 10, 2, 5, 7};

static struct seed {
    char *bytes;
    size_t size;
} seeds[MAX_SEEDS];
static size_t seed_count;
static size_t answers; // how many inputs were snapshots

static void check_output(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        // (1 to 4 are marks of the layout; the view's own line ends)
        if ((c < ' ' && c != '\n' && c > 4) || c == 0x7f || c == 0x1b)
            abort();
    }
}

// Both forms go to memory, in the place of standard output.
static void explain(const char *bytes, size_t n, int json) {
    struct ct_arguments o = {.device = -1, .json = json};
    const struct ct_terminal terminal = {
        .width = 80, .bold = "", .red = "", .dim = "", .reset = ""};
    struct ct_error error = {.status = CT_EXIT_OK};
    FILE *in = fmemopen((void *)(uintptr_t)bytes, n, "r"), *before = stdout;
    char *text = NULL;
    size_t size = 0;
    struct ct_view v = {.options = &o, .terminal = &terminal};
    FILE *out = open_memstream(&text, &size);
    if (!in || !out)
        abort();
    stdout = out;
    if (ct_explain_snapshot(&v, "seed", "", 0, in, &error)) {
        if (error.status != CT_EXIT_BAD_TRACE || !*error.text)
            abort();
    } else {
        answers++;
    }
    if (v.out && v.out != out)
        fclose(v.out);
    stdout = before;
    fclose(out);
    fclose(in);
    check_output(text, size);
    free(text);
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

// Puts bytes at a place, over or between what is there.
static size_t insert(char *at, size_t n, size_t place, const void *bytes, size_t length) {
    if (n + length < INPUT_MAX && draw(2)) {
        memmove(at + place + length, at + place, n - place);
        n += length;
    }
    if (place + length <= n)
        memcpy(at + place, bytes, length);
    return n;
}

static size_t mutate(char *at, size_t n) {
    const int keeps_shape = draw(2) != 0;
    for (uint64_t times = 1 + draw(8); times--;) {
        const struct seed *other = &seeds[draw(seed_count)];
        const size_t place = draw(n + 1), length = 1 + draw(40);
        const unsigned number = (unsigned)draw(sizeof number_lengths);
        const char *word = words[draw(sizeof words / sizeof *words)];
        switch (keeps_shape ? 6 : draw(7)) {
        case 0:
            n = insert(at, n, place, &opcodes[draw(sizeof opcodes)], 1);
            break;
        case 1:
            n = insert(at, n, place, numbers[number], number_lengths[number]);
            break;
        case 2:
            n = insert(at, n, place, word, strlen(word));
            break;
        case 3: // a bit
            if (place < n)
                at[place] = (char)(at[place] ^ 1 << draw(8));
            break;
        case 4: // cut out
            if (place + length < n) {
                memmove(at + place, at + place + length, n - place - length);
                n -= length;
            }
            break;
        case 5:
            if (length < other->size)
                n = insert(at, n, place, other->bytes + draw(other->size - length), length);
            break;
        default: // the argument of an opcode: a number, or another value of the memo
            for (size_t i = place; i + 1 < n; i++)
                if (memchr("KMJh", at[i], 4)) {
                    at[i + 1] = (char)draw(256);
                    break;
                }
        }
    }
    return n;
}

static void run(uint64_t number) {
    static char input[INPUT_MAX + 64];
    chance = number;
    const struct seed *s = &seeds[draw(seed_count)];
    memcpy(input, s->bytes, s->size);
    const size_t n = number ? mutate(input, s->size) : s->size;
    explain(input, n, 0);
    explain(input, n, 1);
}

int main(int argc, char **argv) {
    const char *last = getenv("CT_FUZZ_LAST");
    if (argc < 3) {
        fputs("usage: fuzz_snapshot RUNS|=RUN SEED-FILE...\n", stderr);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        load(argv[i]);
    if (argv[1][0] == '=') {
        run(strtoull(argv[1] + 1, NULL, 10));
        return 0;
    }
    const uint64_t runs = strtoull(argv[1], NULL, 10);
    for (uint64_t i = 0; i < runs; i++) {
        FILE *f = last ? fopen(last, "w") : NULL;
        if (f) {
            fprintf(f, "%llu\n", (unsigned long long)i);
            fclose(f);
        }
        run(i);
    }
    printf("%zu answers of 2 x %" PRIu64 "\n", answers, runs);
    return answers ? 0 : 1;
}
