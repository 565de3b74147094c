// SPDX-License-Identifier: Apache-2.0
// What a trace knows about flags, versions and the environment, and the order of versions.
#include <stdio.h>
#include <string.h>

#include <cutrace/format/cli_flags.h>

#include "../lib/unit.h"
#include "base/version_order.h"
#include "read/facts.h"

// ---- versions -----------------------------------------------------------------------------------

// Ascending, as packaging.version sorts them.
TEST(versions_in_order) {
    static const char *const sorted[] = {
        "0.6.3.dev1", "0.6.3rc1.dev4", "0.6.3rc1", "0.6.3",    "0.6.3.post1.dev2", "0.6.3.post1",
        "0.6.10",     "0.9.2.dev226",  "0.9.2",    "0.21.0",   "0.29a1",           "0.29b2",
        "0.29rc1",    "0.29rc2",       "0.29.0",   "0.29.0.1", "0.33.0",           "2.9.0",
        "2.14.0",     "24.07",         "1!0.1",
    };
    for (size_t i = 0; i < sizeof sorted / sizeof *sorted; i++)
        for (size_t k = 0; k < sizeof sorted / sizeof *sorted; k++) {
            int order = 99;
            assert_int_equal(ct_version_order(sorted[i], sorted[k], &order), 0);
            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
}

TEST(versions_alike) {
    static const char *const pairs[][2] = {
        {"0.29", "0.29.0"},
        {"0.29", "0.29.0.0.0.0.0.0"},
        {"2.14.0+cu130", "2.14.0"},
        {"2.5.0a0+gitabcdef", "2.5a0"},
        {"v0.6.0", "0.6"},
        {"0.6.0-rc.1", "0.6.0rc1"},
        {"0.6.0_RC1", "0.6.0rc1"},
        {"0.6.0c1", "0.6.0rc1"},
        {"0.6.0alpha2", "0.6.0a2"},
        {"0.6.0preview2", "0.6.0rc2"},
        {"0.6.0b", "0.6.0b0"},
        {"0.4.6.r5", "0.4.6.post5"},
        {"0.9.2.dev226+g9ad0a4588.d20250901", "0.9.2.dev226"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        int order = 99;
        assert_int_equal(ct_version_order(pairs[i][0], pairs[i][1], &order), 0);
        assert_int_equal(order, 0);
    }
}

TEST(no_versions) {
    static const char *const texts[] = {"",     "unknown", "abc", "+cu130", "1.x", "1.2 3",
                                        "1..2", "1.2rc1x", "!1",  "1!",     "dev", "1.2/3"};
    int order = 99;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(ct_version_order(texts[i], "1", &order), -1);
        assert_int_equal(ct_version_order("1", texts[i], &order), -1);
    }
    assert_int_equal(order, 99);
    assert_int_equal(ct_version_order("99999999999999999999999.1", "1", &order), 0);
    assert_true(order > 0);
}

// ---- facts --------------------------------------------------------------------------------------

static void read_pairs(struct ct_facts *f, const char *const (*pairs)[2], size_t count) {
    struct ct_definitions n;
    ct_definitions_init(&n);
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4096];
        struct ct_out o = {bytes, bytes + sizeof bytes, 0};
        ct_put_text(&o, pairs[i][0], strlen(pairs[i][0]));
        ct_put_text(&o, pairs[i][1], strlen(pairs[i][1]));
        assert_false(o.bad);
        assert_int_equal(ct_definitions_read_section(&n, CT_FORMAT_VERSION, CT_SECTION_INFO,
                                                     (struct ct_in){bytes, o.at, 0}),
                         0);
    }
    ct_facts_read(f, &n);
    ct_definitions_free(&n); // the facts outlive it
}
#define READ(f, pairs) read_pairs(f, pairs, sizeof(pairs) / sizeof *(pairs))

TEST(recorded) {
    static const char *const pairs[][2] = {
        {"flag.max-model-len.from", "parent"},
        {"flag.max-model-len", "4096"},
        {"flag.model", "Llama-3-8B"},
        {"flag.model.from", "ancestor 2"},
        {"flag.enforce-eager", "true"},
        {"flag.", "nothing"},
        {"process.argv", "--max-num-seqs 7"}, // not asked, because there are flags
        {"process.program", "vllm"},
        {"process.env.PYTORCH_ALLOC_CONF", "expandable_segments:True"},
        {"version.vllm", "0.29rc1"},
        {"version.torch", "2.13.0"},
        {"torch.version", "2.14.0+cu130"},
        {"flag.max-model-len", "8192"}, // replaces the first
    };
    struct ct_facts f;
    READ(&f, pairs);
    assert_string_equal(ct_facts_find_flag(&f, "max-model-len"), "8192");
    assert_null(ct_facts_find_flag(&f, "max-num-seqs"));
    assert_null(ct_facts_find_flag(&f, "model.from"));
    assert_string_equal(ct_facts_find_variable(&f, "PYTORCH_ALLOC_CONF"),
                        "expandable_segments:True");
    assert_null(ct_facts_find_variable(&f, "PYTORCH_CUDA_ALLOC_CONF"));
    assert_string_equal(ct_facts_find_version(&f, "torch"), "2.14.0+cu130");
    assert_int_equal(ct_facts_has_version(&f, "vllm", "0.21.0"), 1);
    assert_int_equal(ct_facts_has_version(&f, "vllm", "0.29"), 0);
    assert_int_equal(ct_facts_has_version(&f, "sglang", "0.1"), -1);
    assert_string_equal(f.program, "vllm");
    assert_true(ct_facts_has_all_flags(&f));
    ct_facts_free(&f);
}

// What older recorders wrote.
TEST(recorded_as_argv) {
    static const char *const pairs[][2] = {
        {"process.argv", "--gpu-memory-utilization 0.95 --max_model_len=4096 -tp 2 -q awq "
                         "--enforce-eager --no-enable-prefix-caching --dtype -pp 1 -O3 "
                         "--max-model-len 8192 --unknown 5"},
    };
    struct ct_facts f;
    READ(&f, pairs);
    assert_string_equal(ct_facts_find_flag(&f, "gpu-memory-utilization"), "0.95");
    assert_string_equal(ct_facts_find_flag(&f, "max-model-len"), "8192"); // the last one counts
    assert_string_equal(ct_facts_find_flag(&f, "tensor-parallel-size"), "2");
    assert_string_equal(ct_facts_find_flag(&f, "quantization"), "awq");
    assert_string_equal(ct_facts_find_flag(&f, "enforce-eager"), "true");
    assert_string_equal(ct_facts_find_flag(&f, "enable-prefix-caching"), "false");
    assert_string_equal(ct_facts_find_flag(&f, "pipeline-parallel-size"), "1");
    assert_string_equal(ct_facts_find_flag(&f, "optimization-level"), "3");
    assert_null(ct_facts_find_flag(&f, "unknown"));
    assert_false(ct_facts_has_all_flags(&f));
    assert_null(ct_facts_find_version(&f, "torch"));
    ct_facts_free(&f);
}

TEST(nothing_recorded) {
    static const char *const pairs[][2] = {
        {"process.exe", "python3"}, {"process.program", "vllm"}, {"flag.config", "<given>"}};
    struct ct_facts f;
    read_pairs(&f, pairs, 1);
    assert_null(ct_facts_find_flag(&f, "max-model-len"));
    assert_false(ct_facts_has_all_flags(&f));
    ct_facts_free(&f);
    READ(&f, pairs);
    assert_false(ct_facts_has_all_flags(&f)); // the file may have further ones
    ct_facts_free(&f);
}

// A stranger's trace.
TEST(too_many) {
    enum { MANY = 20000 };
    struct ct_definitions n;
    struct ct_facts f;
    ct_definitions_init(&n);
    for (int i = 0; i < MANY; i++) {
        uint8_t bytes[64];
        char key[40];
        struct ct_out o = {bytes, bytes + sizeof bytes, 0};
        (void)snprintf(key, sizeof key, "flag.f%d%s", i / 2, i % 2 ? ".from" : "");
        ct_put_text(&o, key, strlen(key));
        ct_put_text(&o, "\0\x1b", 2);
        assert_int_equal(ct_definitions_read_section(&n, CT_FORMAT_VERSION, CT_SECTION_INFO,
                                                     (struct ct_in){bytes, o.at, 0}),
                         0);
    }
    ct_facts_read(&f, &n);
    assert_in_range(f.flags.count, 1, MANY / 2 - 1);
    ct_facts_free(&f);
    ct_definitions_free(&n);
}

// ---- command lines ------------------------------------------------------------------------------

static void collect(void *user, const struct ct_cli_flag *flag, struct ct_cli_text value) {
    char *line = user;
    const size_t n = strlen(line);
    (void)snprintf(line + n, 2000 - n, "%s%s=%.*s", n ? " " : "", flag->name, (int)value.n,
                   value.at);
}

static void read_line(const char *arguments, size_t n, int letters, const char *want) {
    char line[2000] = "";
    // A copy of just this size, so that the address sanitizer sees what is read behind it.
    char *copy = malloc(n ? n : 1);
    const struct ct_cli_sink sink = {.found = collect, .user = line, .letters = letters};
    assert_non_null(copy);
    memcpy(copy, arguments, n);
    ct_cli_read((struct ct_cli_arguments){copy, copy + n, 0}, &sink);
    assert_string_equal(line, want);
    free(copy);
}

TEST(command_lines) {
#define LINE(letters, text, want) read_line(text, sizeof(text) - 1, letters, want)
    LINE(0, "", "");
    LINE(0, "\0\0\0", "");
    LINE(0, "--", "");
    LINE(0, "-", "");
    LINE(0, "--tp", "");
    LINE(0, "--tp=", "tensor-parallel-size=<given>");
    LINE(0, "--tp\0-1", "tensor-parallel-size=-1");
    LINE(0, "--tp\0--dtype\0half", "dtype=half");
    LINE(0, "-q\0awq\0-O\0003", "");
    LINE(1, "-q\0awq\0-O\0003", "quantization=awq optimization-level=3");
    LINE(0, "--max-model-len\00032k\0", "max-model-len=32k");
    LINE(0, "--kv-cache-memory-bytes=10GiB", "kv-cache-memory-bytes=10GiB");
    LINE(0, "--gpu-memory-utilization\0/x", "gpu-memory-utilization=<given>");
    LINE(0, "--cudagraph-capture-sizes\0001\0002\0004\0--tp\0002",
         "cudagraph-capture-sizes=1 2 4 tensor-parallel-size=2");
    LINE(0, "--cuda-graphs\0001,2,4,8", "cuda-graphs=1,2,4,8");
    LINE(0, "--cuda-graphs\0/etc/passwd", "cuda-graphs=<given>");
    LINE(0, "--bf16\0True\0--fp16\0--sharded=false", "bf16=true fp16=true sharded=false");
    LINE(0, "--enforce-eager\0model", "enforce-eager=true");
    LINE(0, "--limit-mm-per-prompt\0{\"image\": 2, \"video\": 0}",
         "limit-mm-per-prompt={\"image\": 2, \"video\": 0}");
    LINE(0, "--limit-mm-per-prompt=image=2,video=1", "limit-mm-per-prompt=image=2,video=1");
    LINE(0, "--limit-mm-per-prompt={\"image\":{\"token\":\"abcdefghijklmnopqrstuvwxyz\"}}",
         "limit-mm-per-prompt=<given>");
    LINE(0, "--config\0/home/me/x.yaml", "config=<given>");
    LINE(0,
         "--speculative-config\0{\"model\": \"/home/me/draft\", \"num_speculative_tokens\": 5, "
         "\"method\":\"eagle3\"}",
         "speculative-config=<given> speculative-config.num-speculative-tokens=5 "
         "speculative-config.method=eagle3");
    LINE(0, "-cc\0{\"cudagraph_capture_sizes\":[1,2,4],\"max_cudagraph_capture_size\":",
         "compilation-config=<given> compilation-config.cudagraph-capture-sizes=[1,2,4] "
         "compilation-config.max-cudagraph-capture-size=<given>");
    LINE(0, "-cc.cudagraph_mode=FULL_AND_PIECEWISE",
         "compilation-config.cudagraph-mode=FULL_AND_PIECEWISE");
    LINE(0,
         "actor_rollout_ref.rollout.gpu_memory_utilization=0.6\0+data.train_batch_size=8\0model=x",
         "actor-rollout-ref.rollout.gpu-memory-utilization=0.6 data.train-batch-size=8");
    LINE(0, "--model\0meta-llama/Llama-3-8B", "model=Llama-3-8B");
    LINE(0, "--model\0/home/me/models/mine/", "model=mine");
    LINE(0, "--model\0s3://bucket/m?key=1", "model=<given>");
    LINE(0, "--model\0/c/hub/models--meta-llama--Llama-3-8B/snapshots/0e9e39f249a16976918f6564",
         "model=Llama-3-8B");
    LINE(0, "--model=models--", "model=models--");
    LINE(0, "--model=/", "model=<given>");
    LINE(0, "--model=..", "model=<given>");
    LINE(0, "--model=C:\\models\\mine", "model=mine");
#undef LINE
}

// What must not be in a trace.
TEST(harmful_words) {
    static const char *const harmful[] = {
        "AKIAIOSFODNN7EXAMPLE",
        "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ",
        "sk-abcdefghijklmnopqrst",
        "/home/me",
        "me@host",
        "10.1.2.3",
        "host.example.com",
        "~me",
        "a b",
        "gsk_0123456789abcdef01",
        "",
        "-",
        "abcdefghijklmnop-abcdefghijklmnop-a",
        "\x1b[31m",
    };
    static const char *const harmless[] = {"fp8",
                                           "fp8_ds_mla",
                                           "compressed-tensors",
                                           "FULL_AND_PIECEWISE",
                                           "bitsandbytes",
                                           "auto",
                                           "bf16-mixed",
                                           "deepep_high_throughput",
                                           "TRITON_ATTN_VLLM_V1",
                                           "0.9",
                                           "runai_streamer_sharded"};
    for (size_t i = 0; i < sizeof harmful / sizeof *harmful; i++)
        assert_false(ct_cli_is_word((struct ct_cli_text){harmful[i], strlen(harmful[i])}));
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        assert_true(ct_cli_is_word((struct ct_cli_text){harmless[i], strlen(harmless[i])}));
}

TEST(numbers) {
    static const char *const good[] = {"0.9",  ".9",   "9.",  "-1",   "+1",  "32k",
                                       "8GiB", "1e-5", "1E6", "auto", "max", "20000000000"};
    static const char *const bad[] = {"",    ".",      "-",    "1.2.3",
                                      "1x2", "12abcd",

                                      "1e-", "1e1234", "0x10", "123456789012345678901",
                                      "1 2", "abc"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(ct_cli_is_number((struct ct_cli_text){good[i], strlen(good[i])}));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(ct_cli_is_number((struct ct_cli_text){bad[i], strlen(bad[i])}));
}

// A row of the table is found by its own name, and no name or alias stands for two rows.
TEST(table) {
    for (size_t i = 0; i < CT_CLI_FLAGS; i++) {
        const char *names[2] = {ct_cli_flags[i].name, ct_cli_flags[i].aliases};
        for (size_t k = 0; k < 2; k++)
            for (const char *at = names[k]; *at; at += *at == ' ') {
                const size_t n = strcspn(at, " ");
                if (ct_cli_flag_find((struct ct_cli_text){at, n}, 1) != &ct_cli_flags[i])
                    fail_msg("%.*s stands for two flags", (int)n, at);
                at += n;
            }
    }
}
