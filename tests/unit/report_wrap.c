// SPDX-License-Identifier: Apache-2.0
// Text laid out in lines, and names elided, as written down by hand.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/unit.h"
#include "base/utf8.h"
#include "base/wrap.h"

#define BOLD "\033[1m"
#define RESET "\033[0m"

// Lays out a text. `elides`: as on a terminal.
static void check(size_t width, int elides, const char *text, const char *want) {
    char *got = NULL;
    size_t size;
    const struct ct_wrap_style style = {.width = width, .mark = elides ? "…" : NULL};
    FILE *out = open_memstream(&got, &size);
    FILE *stream = ct_wrap_open(&style, out);
    fputs(text, stream);
    fclose(stream);
    fclose(out);
    assert_string_equal(got, want);
    free(got);
}

TEST(lines_that_fit_stay) {
    check(20, 1, "12345678901234567890\n", "12345678901234567890\n");
    check(20, 1, "  a    b\n\nc", "  a    b\n\nc");
    check(20, 1, "  plot   |          \n", "  plot   |          \n");
    check(10, 1, BOLD "1234567890" RESET "\n", BOLD "1234567890" RESET "\n");
    check(10, 1, "äöüßäöüß€€\n", "äöüßäöüß€€\n");
    check(10, 1, "\001a\002 b\003c\n", "a bc\n");
}

TEST(words_wrap) {
    check(20, 1, "the quick brown fox jumps over it\n", "the quick brown fox\n  jumps over it\n");
    check(20, 1, "    one two three four five\n", "    one two three\n      four five\n");
    check(20, 1, "  key    \001one two three four\n", "  key    one two\n         three four\n");
    check(10, 1, BOLD "eins" RESET " " BOLD "zwei drei" RESET "\n",
          BOLD "eins" RESET " " BOLD "zwei\n  drei" RESET "\n");
    check(10, 1, "ääää öööö üü ß\n", "ääää öööö\n  üü ß\n");
    check(10, 1, "two  gaps  here and\n", "two  gaps\n  here and\n");
    // A mark too far right leaves no room for text.
    check(12, 1, "long key 7 \001a bb ccc\n", "long key 7 a\n  bb ccc\n");
}

TEST(figures_stay_whole) {
    check(12, 1, "it was 8.19 MiB.\n", "it was\n  8.19 MiB.\n");
    check(14, 1, "it was at +5.944 s.\n", "it was at\n  +5.944 s.\n");
    check(14, 1, "it was on GPU 0, then\n", "it was on\n  GPU 0, then\n");
    check(16, 1, "up to +3d 05:49:47 or\n", "up to\n  +3d 05:49:47\n  or\n");
    check(16, 1, "with 12 345 678 B\n", "with\n  12 345 678 B\n");
    check(16, 1, "lies in the 63 free blocks\n", "lies in the\n  63 free blocks\n");
    check(16, 1, "a share of <0.1 % of\n", "a share of\n  <0.1 % of\n");
    check(22, 1, "result cudaErrorOom (2) then\n", "result\n  cudaErrorOom (2)\n  then\n");
    check(16, 1, "it is " BOLD "2.00 MiB" RESET " (at most)\n",
          "it is " BOLD "2.00 MiB" RESET "\n  (at most)\n");
    check(12, 1, "it is " BOLD "2.00 MiB" RESET " now\n",
          "it is\n  " BOLD "2.00 MiB" RESET "\n  now\n");
    // What is joined but fits into no line is broken, after all.
    check(12, 1, "GPU 0 12 345 678 911 B\n", "GPU 0 12 345\n  678 911 B\n");
}

TEST(names_stay_whole) {
    check(24, 1, "at \002a.py:1 f\003 <- \002long_name.py:22 gg\003 <- \002c.py:3 h\003\n",
          "at a.py:1 f\n  <- long_name.py:22 gg\n  <- c.py:3 h\n");
    check(25, 1, "at \002torch/nn/modules/module.py:12 f\003; then\n",
          "at\n  torch/…/module.py:12 f;\n  then\n");
    check(24, 0, "at \002torch/nn/modules/module.py:12 f\003; then\n",
          "at\n  torch/nn/modules/module.py:12 f;\n  then\n");
    check(24, 1, "is /usr/local/share/cuda/lib64/libcudart.so\n", "is\n  /usr/…/libcudart.so\n");
    check(12, 1, "the antidisestablishmentarian way\n",
          "the\n  antidisestablishmentarian\n  way\n");
    check(8, 1, "a row \004of a table\n", "a row of a table\n");
}

TEST(pieces_of_a_line) {
    char *got = NULL;
    size_t size;
    const struct ct_wrap_style style = {.width = 10};
    FILE *out = open_memstream(&got, &size);
    FILE *stream = ct_wrap_open(&style, out);
    setvbuf(stream, NULL, _IONBF, 0);
    for (const char *c = "one two three\nfour five six"; *c; c++)
        putc(*c, stream);
    fclose(stream);
    fclose(out);
    assert_string_equal(got, "one two\n  three\nfour five\n  six");
    free(got);
}

TEST(fails_with_its_output) {
    const struct ct_wrap_style style = {.width = 10};
    FILE *out = fopen("/dev/full", "w");
    if (!out)
        skip();
    setvbuf(out, NULL, _IONBF, 0);
    FILE *stream = ct_wrap_open(&style, out);
    fputs("text\n", stream);
    assert_int_not_equal(fflush(stream), 0);
    assert_true(ferror(stream));
    fclose(stream);
    fclose(out);
}

static void elided(const char *text, size_t columns, const char *want) {
    char copy[400];
    (void)snprintf(copy, sizeof copy, "%s", text);
    ct_elide(copy, columns, "…");
    assert_string_equal(copy, want);
}

TEST(names_are_elided_in_the_middle) {
    elided("short", 20, "short");
    elided("c10::cuda::CUDACachingAllocator::Native::malloc", 24, "c10::cuda::…::malloc");
    elided("c10::cuda::CUDACachingAllocator::Native::malloc", 18, "c10::…::malloc");
    elided("c10::cuda::CUDACachingAllocator::Native::malloc", 12, "c10…::malloc");
    elided("at::native::resize<at::Tensor, int>::apply (libtorch_cuda.so)", 48,
           "at::native::…::apply (libtorch_cuda.so)");
    elided("vllm/v1/worker/gpu_model_runner.py:1234 GPUModelRunner.load", 52,
           "vllm/…/gpu_model_runner.py:1234 GPUModelRunner.load");
    elided("a_function_whose_name_is_long_and_has_no_components", 21, "a_function…components");
    elided("ää/öööööööööööö/üüüüü.py:1 ß", 20, "ää/…/üüüüü.py:1 ß");
    elided("abcdefghijklmnopqrst uvw", 14, "abcde…st uvw"); // one mark
    elided("one.py:1 f <- two.py:2 g <- three.py:3 h", 20, "one.py:1 …ree.py:3 h");
}

// Whatever is elided: it fits, it is not longer in bytes, it is whole characters, and its ends are
// those of the whole text.
TEST(ends_are_kept) {
    static const char *const texts[] = {
        "torch/nn/functional.py:2935 layer_norm <- transformers/models/gpt2/modeling_gpt2.py:1 f",
        "std::vector<std::pair<int, a::b>, c>::operator<<(x, y) (lib/with/slash.so) <- main",
        "(((((((((((((((((((((((((((((((((((((((((((",
        "::::::::::::::::::::::::::::::::",
        "////////////////////////////////////",
        "€€€€€€€€€€€€€€€€€€€€::€€€€€€€€€€€€€€€€€€€€€€€€",
        "a b c d e f g h i j k l m n o p q r s t u v w x y z",
        "operator->::operator<::x >>>>>>>> y"};
    static const char *const marks[] = {"…", "..."};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t columns = 12; columns < 90; columns++)
            for (size_t m = 0; m < 2; m++) {
                char *copy = strdup(texts[t]); // (the address sanitizer sees a byte too many)
                const size_t whole = strlen(copy);
                uint32_t code;
                ct_elide(copy, columns, marks[m]);
                const size_t n = strlen(copy);
                assert_true(ct_utf8_columns(copy) <= columns);
                assert_true(n <= whole);
                for (size_t i = 0; i < n;) {
                    const unsigned c =
                        ct_utf8_decode((const unsigned char *)copy + i, n - i, &code);
                    assert_int_not_equal(c, 0);
                    i += c;
                }
                const char *first = strstr(copy, marks[m]), *last = first;
                for (const char *p = first; p; p = strstr(p + 1, marks[m]))
                    last = p;
                if (first) {
                    last += strlen(marks[m]);
                    assert_memory_equal(copy, texts[t], first - copy);
                    assert_string_equal(last, texts[t] + whole - strlen(last));
                }
                free(copy);
            }
}
