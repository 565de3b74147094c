// SPDX-License-Identifier: Apache-2.0
// The templates, the cleaning of lines, the sentences of rules, and the arithmetic of the KV cache
// and of request sizes.
#include <string.h>

#include "../lib/unit.h"
#include "diagnose/kv_arithmetic.h"
#include "diagnose/rules.h"
#include "text/clean.h"
#include "text/facts.h"
#include "text/read_text.h"

#define GIB (INT64_C(1) << 30)

static struct ct_template_match match(const char *text) {
    struct ct_template_match m = {.kind = CT_TEXT_KINDS};
    if (!ct_template_match(text, strlen(text), 0, &m))
        m.kind = CT_TEXT_KINDS;
    return m;
}

TEST(each_template_matches_itself_in_pieces) {
    // Blanks and line ends anywhere, also where the template has none; capitals or none.
    const char *texts[] = {"No available memory for the cache blocks",
                           "Noavailablememoryforthecacheblocks",
                           "No av\nailable mem\vory for the  cache b\n locks",
                           "no available Memory for THE cache blocks"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(match(texts[i]).kind, CT_TEXT_KIND_NO_CACHE_BLOCKS);
    assert_int_equal(match("No available memory for the cache block").kind, CT_TEXT_KINDS);
}

TEST(every_template_begins_with_four_letters) {
    static const char *const templates[] = {
#define CT_TEMPLATE(KIND, text, source) text,
#include "text/templates.def"
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        size_t letters = 0;
        for (const char *t = templates[i]; *t && !strchr("[]{}<>|", *t); t++)
            letters += *t != ' ';
        if (letters < 4)
            fail_msg("%s: the search begins with four letters", templates[i]);
    }
}

TEST(sizes_have_units_and_steps) {
    const struct {
        const char *text;
        int64_t bytes, step;
    } sizes[] = {{"1.74 GiB", 1868310773, GIB / 100},
                 {"2.00 MiB", 2 << 20, (1 << 20) / 100},
                 {"0 bytes", 0, 1},
                 {"1024.00 MiB", GIB, (1 << 20) / 100},
                 {"448.00 KiB", 448 << 10, 10},
                 {"14 GB", 14 * GIB, GIB},
                 {"1.7\n4 GiB", 1868310773, GIB / 100},
                 {"17179869184.00 GiB", CT_TEXT_MOST, GIB / 100},
                 {"99999999999999999999 bytes", CT_TEXT_MOST, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[100];
        (void)snprintf(text, sizeof text, "CUDA out of memory. Tried to allocate %s. GPU",
                       sizes[i].text);
        const struct ct_template_match m = match(text);
        assert_int_equal(m.kind, CT_TEXT_KIND_TORCH_OOM);
        assert_true(m.values[CT_TEXT_TRIED].known);
        assert_int_equal(m.values[CT_TEXT_TRIED].value, sizes[i].bytes);
        assert_int_equal(m.values[CT_TEXT_TRIED].step, sizes[i].step);
    }
    // A number of two lines that were not wrapped is none of both; a size needs a unit.
    assert_false(
        match("CUDA out of memory. Tried to allocate 2.0\v0 MiB").values[CT_TEXT_TRIED].known);
    assert_false(match("CUDA out of memory. Tried to allocate 17").values[CT_TEXT_TRIED].known);
}

TEST(optional_parts_leave_nothing_behind) {
    // The optional part sets the device before it fails.
    const struct ct_template_match m = match(
        "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 3 has a total capacity of 7 cats");
    assert_int_equal(m.values[CT_TEXT_TRIED].value, 2 << 20);
    assert_false(m.values[CT_TEXT_GPU].known);
    assert_false(m.values[CT_TEXT_TOTAL].known);
    // A message that was cut has what stands before the cut.
    const struct ct_template_match cut = match(
        "CUDA out of memory. Tried to allocate 2.00 MiB (GPU 3; 8.00 GiB total capacity; 7 cats");
    assert_int_equal(cut.values[CT_TEXT_TOTAL].value, INT64_C(8) << 30);
    assert_false(cut.values[CT_TEXT_ALLOCATED].known);
    assert_int_equal(match("Available KV cache memory: -2.14 GiB").values[CT_TEXT_KV].value,
                     -2297807503);
    assert_int_equal(match("GPU KV cache size: 1,338,448 tokens").values[CT_TEXT_TOKENS].value,
                     1338448);
    assert_int_equal(
        match(
            "Error in memory profiling. Initial free memory 21474836480, current free memory 2.5 GiB")
            .values[CT_TEXT_FREE]
            .value,
        21474836480);
}

TEST(a_longer_sentence_comes_before_a_shorter_one) {
    assert_int_equal(
        match("CUDA out of memory occurred when warming up sampler with 256 dummy requests").kind,
        CT_TEXT_KIND_SAMPLER_WARMUP);
    assert_int_equal(
        match("Free memory on device (1.5/2.0 GiB) on startup is less than desired GPU memory "
              "utilization (0.9, 1.8 GiB)")
            .kind,
        CT_TEXT_KIND_LESS_THAN_DESIRED);
    assert_int_equal(
        match(
            "Free memory on device (1.5/2.0 GiB) on startup. Desired GPU memory utilization is (0.9, "
            "1.8 GiB). Actual usage is 1.0 GiB for weight, 0.1 GiB for peak activation, 0.1 GiB for "
            "non-torch memory, and 0.0 GiB for CUDAGraph memory.")
            .kind,
        CT_TEXT_KIND_SUGGESTION);
    assert_int_equal(match("If out-of-memory error occurs during cudagraph capture").kind,
                     CT_TEXT_KINDS);
}

TEST(prefixes_are_skipped) {
    const char *prefixes[] = {
        "",
        "INFO 05-14 09:31:02 [core.py:12] ",
        "INFO 05-14 09:31:02 worker.py:12] ",
        "(EngineCore_DP0 pid=12) ",
        "\033[1;36m(EngineCore pid=12)\033[0;0m ERROR 05-14 09:31:02 [v1/engine/core.py:842] ",
        "vllm-1  | ",
        "[rank0]: ",
        "2026-02-24T20:21:58.120Z [resource.labels.pod_name: x] ",
        "[2026-02-24T20:21:58Z] ",
        "> > ",
        "WARN  PyProcess W-252-model-stderr: ",
        "(APIServer pid=4) (EngineCore pid=5) ",
        "\xe2\x94\x82 "};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char line[200];
        (void)snprintf(line, sizeof line, "%sValueError: x", prefixes[i]);
        const size_t at = ct_clean_skip_prefix(line, strlen(line));
        assert_string_equal(line + at, "ValueError: x");
    }
}

TEST(letters_are_plain) {
    const char text[] = "a\x1b[0;31mb\\x1b[0mc 'd' \\\"e\\\" f\\ng \xe2\x80\x9ch\x07 &gt;&quot;";
    char to[sizeof text + 1];
    const size_t n = ct_clean_letters(text, sizeof text - 1, to);
    to[n] = 0;
    assert_string_equal(to, "abc d e f\vg h >");
}

static void read_text(const char *text, size_t length, struct ct_text_facts *f) {
    FILE *in = fmemopen((void *)(uintptr_t)text, length, "r");
    assert_non_null(in);
    assert_int_equal(ct_read_text_rest("", 0, in, f), 0);
    fclose(in);
}

TEST(lines_and_offsets_are_those_of_the_text) {
    struct ct_text_facts f;
    const char text[] =
        "\n\nsome words\nRuntimeError: CUDA error: out of mem\nory\r\nEngineDeadError";
    ct_text_facts_init(&f);
    read_text(text, sizeof text - 1, &f);
    assert_int_equal(f.lines, 6);
    assert_int_equal(f.bytes, sizeof text - 1);
    assert_int_equal(f.count, 2);
    assert_int_equal(f.list[0].kind, CT_TEXT_KIND_CUDA_OOM);
    assert_int_equal(f.list[0].line, 4);
    assert_int_equal(f.list[0].offset, 13);
    assert_int_equal(f.list[1].line, 6);
    ct_text_facts_free(&f);
}

TEST(a_setting_is_a_whole_name) {
    struct ct_text_facts f;
    const char text[] =
        "x_max_num_seqs=7 'max_num_seqs': 64, --max-model-len 32k max_model_len=1 gpu_memory_utilization=x\n"
        "vllm serve m \\\n  --gpu-memory-utilization=0.85 --enforce-eager";
    ct_text_facts_init(&f);
    read_text(text, sizeof text - 1, &f);
    assert_string_equal(f.settings[CT_TEXT_FLAG_MAX_NUM_SEQS].value, "64");
    assert_string_equal(f.settings[CT_TEXT_FLAG_MAX_MODEL_LEN].value, "32k");
    assert_int_equal(f.settings[CT_TEXT_FLAG_MAX_MODEL_LEN].number.value, INT64_C(32000000000));
    assert_string_equal(f.settings[CT_TEXT_FLAG_GPU_MEMORY_UTILIZATION].value, "0.85");
    assert_string_equal(f.settings[CT_TEXT_FLAG_ENFORCE_EAGER].value, "True");
    ct_text_facts_free(&f);
}

// What a sentence says last, "" if it has said nothing.
static const char *say(struct ct_verdicts *l, const struct ct_figures *n, const char *sentence) {
    const struct ct_rule_source source = {.to = l, .device = -1, .figures = n};
    struct ct_verdict *v = ct_rule_add(&source, CT_RULE_TEXT_EMPTY);
    ct_rule_say(&source, v, sentence);
    return v->evidence_count ? v->evidence[v->evidence_count - 1].text : "";
}

TEST(a_sentence_says_what_is_known) {
    static const char limit[] = "its limit is <limit:bytes!>[ of <total:bytes>]",
                      times[] = "{<free:bytes>|nothing} for <count:int> time<count:-s>|never";
    struct ct_verdicts l = {0};
    struct ct_figures n;
    ct_figures_clear(&n);
    assert_string_equal(say(&l, &n, limit), "");
    assert_string_equal(say(&l, &n, times), "never");
    n.limit = GIB;
    n.count = 1;
    assert_string_equal(say(&l, &n, limit), "its limit is 1.00 GiB");
    assert_int_equal(l.list[l.count - 1].evidence[0].bytes, GIB);
    assert_string_equal(say(&l, &n, times), "nothing for 1 time");
    n.total = 2 * GIB;
    n.free = 0;
    n.count = 2000;
    assert_string_equal(say(&l, &n, limit), "its limit is 1.00 GiB of 2.00 GiB");
    assert_string_equal(say(&l, &n, times), "0 B for 2000 times");
    ct_verdicts_free(&l);
}

TEST(every_rule_names_figures_that_there_are) {
    struct ct_verdicts l = {0};
    struct ct_figures n;
    const struct ct_rule_source source = {.to = &l, .device = -1, .figures = &n};
    ct_figures_clear(&n);
    for (int i = 0; i < CT_RULES; i++)
        (void)ct_rule_add_as(&source, (enum ct_rule)i, CT_SCENARIO_UNKNOWN, 0.5, "");
#define CT_TEXT_FIELD(ID, name) n.name = 1;
#include "text/fields.def"
#define CT_FIGURE(name) n.name = 1;
#define CT_WORD(name) n.name = "word";
#include "diagnose/figures.def"
    for (int i = 0; i < CT_RULES; i++)
        (void)ct_rule_add_as(&source, (enum ct_rule)i, CT_SCENARIO_UNKNOWN, 0.5, "");
    ct_verdicts_free(&l);
}

TEST(kv_cache) {
    assert_int_equal(ct_kv_blocks_of(17, 16), 2);
    assert_int_equal(ct_kv_blocks_of(16, 16), 1);
    assert_int_equal(ct_kv_blocks_of(0, 16), 0);
    assert_int_equal(ct_kv_blocks_of(UINT64_MAX, 16), UINT64_MAX / 16 + 1);
    assert_int_equal(ct_kv_last_block_empty(17, 16), 937500);
    assert_int_equal(ct_kv_last_block_empty(32, 16), 0);
    struct ct_kv_waste w = {0};
    const uint64_t lengths[] = {17, 32, 1, 0};
    ct_kv_waste_add(&w, lengths, 4, 16);
    assert_int_equal(w.tokens, 50);
    assert_int_equal(w.blocks, 5);
    assert_int_equal(w.empty_tokens, 30);
    assert_int_equal(w.partly_blocks, 2);
}

TEST(sizes_of_requests) {
    struct ct_request_size r;
    // 1.74 GiB is what four threads asked for: 1024 sequences of Qwen2's vocabulary, sorted.
    assert_true(ct_request_size_find(1868310773, GIB / 100, 1024, 151936, &r));
    assert_int_equal(r.bytes, 12);
    assert_true(ct_request_size_find(252 << 20, (1 << 20) / 100, 256, 0, &r));
    assert_int_equal(r.vocabulary, 128256);
    assert_int_equal(r.bytes, 8);
    assert_false(ct_request_size_find(300 << 20, (1 << 20) / 100, 256, 128256, &r));
    assert_false(ct_request_size_find(INT64_MAX, 1, INT64_MAX, INT64_MAX, &r));
}
