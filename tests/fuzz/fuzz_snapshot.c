// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary pickles to what reads PyTorch's memory snapshots: the verdicts, as text and as
// JSON, come to an end, or one line says what is wrong; nothing that is printed has a control
// character of the input.
//
// Mutated are opcodes, numbers at their limits, words of the format, pieces of other seeds.
#include <inttypes.h>

#include "base/pickle_opcodes.h"
#include "seeds.h"
#include "views/explain.h"

enum { INPUT_MAX = 1 << 16 };

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

static size_t answers; // how many inputs were snapshots

// Both forms go to memory, in the place of standard output.
static void explain(const uint8_t *bytes, size_t n, int json) {
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
    check_printed(text, size);
    free(text);
}

static void load(const char *path) {
    static uint8_t bytes[INPUT_MAX / 2];
    add_seed(bytes, read_seed(path, bytes, sizeof bytes));
}

static size_t mutate(uint8_t *at, size_t n) {
    const int keeps_shape = draw(2) != 0;
    for (uint64_t times = 1 + draw(8); times--;) {
        const struct seed *other = &seeds[draw(seed_count)];
        const size_t place = draw(n + 1), length = 1 + draw(40);
        const unsigned number = (unsigned)draw(sizeof number_lengths);
        const char *word = words[draw(sizeof words / sizeof *words)];
        switch (keeps_shape ? 6 : draw(7)) {
        case 0:
            n = insert(at, n, INPUT_MAX, place, &opcodes[draw(sizeof opcodes)], 1);
            break;
        case 1:
            n = insert(at, n, INPUT_MAX, place, numbers[number], number_lengths[number]);
            break;
        case 2:
            n = insert(at, n, INPUT_MAX, place, word, strlen(word));
            break;
        case 3: // a bit
            if (place < n)
                at[place] = (uint8_t)(at[place] ^ 1 << draw(8));
            break;
        case 4: // cut out
            n = cut_out(at, n, place, length);
            break;
        case 5:
            if (length < other->size)
                n = insert(at, n, INPUT_MAX, place, other->bytes + draw(other->size - length),
                           length);
            break;
        default: // the argument of an opcode: a number, or another value of the memo
            for (size_t i = place; i + 1 < n; i++)
                if (memchr("KMJh", at[i], 4)) {
                    at[i + 1] = (uint8_t)draw(256);
                    break;
                }
        }
    }
    return n;
}

static void run(uint64_t number) {
    static uint8_t input[INPUT_MAX + 64];
    begin_draws(number);
    const struct seed *s = &seeds[draw(seed_count)];
    memcpy(input, s->bytes, s->size);
    const size_t n = number ? mutate(input, s->size) : s->size;
    explain(input, n, 0);
    explain(input, n, 1);
}

int main(int argc, char **argv) {
    const int status = fuzz(argc, argv, load, run);
    printf("%zu answers\n", answers);
    return status ? status : !answers;
}
