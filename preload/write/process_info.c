// SPDX-License-Identifier: Apache-2.0
// INFO about the process and its machine, without anything private.
//
// Users show traces to strangers. So only these are recorded: the program's base name, arguments
// that are known to influence memory if their value is a number or a word, and environment
// variables of the CUDA stack. Never the working folder, user and host names, addresses, and
// anything that looks like a secret or a path.
#define _GNU_SOURCE
#include "write/process_info.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <cutrace/format/journal.h>
#include <cutrace/format/xxh64.h>

#include "base/options.h"
#include "base/print.h"
#include "base/process_id.h"
#include "base/read_file.h"
#include "store/file_pattern.h"
#include "write/info_table.h"

#ifndef CT_VERSION
#define CT_VERSION "0.1.0"
#endif

extern char **environ;

// ---- arguments ------------------------------------------------------------------------------

// Options that determine how much memory a model server or a training run allocates. '_' equals
// '-'.
static const char *const known_options[] = {
    "async-scheduling",
    "batch-size",
    "bf16",
    "block-size",
    "cpu-offload-gb",
    "cuda-graph-sizes",
    "data-parallel-size",
    "device",
    "disable-cuda-graph",
    "distributed-executor-backend",
    "dp",
    "dtype",
    "enable-chunked-prefill",
    "enable-expert-parallel",
    "enable-lora",
    "enable-prefix-caching",
    "enable-sleep-mode",
    "enforce-eager",
    "fp16",
    "fp8",
    "global-batch-size",
    "gpu-memory-utilization",
    "gradient-accumulation-steps",
    "gradient-checkpointing",
    "hidden-size",
    "kv-cache-dtype",
    "kv-cache-memory-bytes",
    "load-format",
    "max-batch-size",
    "max-cpu-loras",
    "max-length",
    "max-lora-rank",
    "max-loras",
    "max-model-len",
    "max-num-batched-tokens",
    "max-num-seqs",
    "max-seq-len-to-capture",
    "mem-fraction-static",
    "micro-batch-size",
    "nnodes",
    "no-enable-chunked-prefill",
    "no-enable-prefix-caching",
    "nproc-per-node",
    "num-gpu-blocks-override",
    "num-layers",
    "num-workers",
    "O",
    "per-device-eval-batch-size",
    "per-device-train-batch-size",
    "pipeline-parallel-size",
    "pp",
    "q",
    "quantization",
    "seq-length",
    "swap-space",
    "tensor-parallel-size",
    "tp",
    "tp-size",
};

static int is_option(const char *given, size_t n) {
    for (size_t i = 0; i < sizeof known_options / sizeof *known_options; i++) {
        const char *known = known_options[i];
        size_t k = 0;
        while (k < n && known[k] && (given[k] == known[k] || (given[k] == '_' && known[k] == '-')))
            k++;
        if (k == n && !known[k])
            return 1;
    }
    return 0;
}

// A number or one short word, which cannot be a path, an address or a key.
static int is_harmless(const char *value) {
    const size_t n = strlen(value);
    if (!n || n > 24 || *value == '.')
        return 0;
    for (const char *c = value; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._+-", *c))
            return 0;
    return 1;
}

static size_t append(char *out, size_t at, size_t size, const char *text, size_t n) {
    return at + ct_print(out + at, size - at, "%s%.*s", at ? " " : "", (int)n, text);
}

// Copies the harmless arguments. [at, end) has all of them, each with its NUL.
static size_t copy_harmless_arguments(const char *at, const char *end, char *out, size_t size) {
    size_t used = 0;
    for (const char *next; at < end; at = next) {
        next = at + strlen(at) + 1;
        if (*at != '-')
            continue;
        const char *name = at + strspn(at, "-"), *equals = strchr(name, '=');
        const size_t n = equals ? (size_t)(equals - name) : strlen(name);
        if (!is_option(name, n) || (equals && !is_harmless(equals + 1)))
            continue;
        used = append(out, used, size, at, strlen(at));
        if (!equals && next < end && *next != '-' && is_harmless(next)) {
            used = append(out, used, size, next, strlen(next));
            next += strlen(next) + 1;
        }
    }
    return used;
}

static void publish_arguments(void) {
    static char given[16384], out[3500]; // under the drain lock
    size_t n = ct_read_file("/proc/self/cmdline", given, sizeof given - 1);
    given[n] = 0;
    if (CT_OPTION_NUMBER(ARGV) == CT_ARGV_OF_OFF || !n)
        return;
    const char *first = given + strlen(given) + 1;
    if (CT_OPTION_NUMBER(ARGV) == CT_ARGV_OF_FULL) {
        size_t used = 0;
        for (const char *at = given; at < given + n; at += strlen(at) + 1)
            used = append(out, used, sizeof out, at, strlen(at));
        ct_info_set("process.argv", "%s", out);
    } else if (first < given + n && copy_harmless_arguments(first, given + n, out, sizeof out)) {
        ct_info_set("process.argv", "%s", out);
    }
}

// ---- environment ----------------------------------------------------------------------------

static int contains(const char *name, size_t n, const char *word) {
    const size_t w = strlen(word);
    for (size_t i = 0; i + w <= n; i++)
        if (!strncasecmp(name + i, word, w))
            return 1;
    return 0;
}

static int is_secret(const char *name, size_t n) {
    static const char *const words[] = {"TOKEN", "KEY", "SECRET", "PASS", "AUTH", "CREDENTIAL"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (contains(name, n, words[i]))
            return 1;
    return 0;
}

static int begins(const char *name, size_t n, const char *prefix) {
    const size_t p = strlen(prefix);
    return n >= p && !memcmp(name, prefix, p);
}

static int ends(const char *name, size_t n, const char *suffix) {
    const size_t s = strlen(suffix);
    return n >= s && !memcmp(name + n - s, suffix, s);
}

// The number of the process among those that work together.
static int is_rank(const char *name, size_t n) {
    return (n == 4 && !memcmp(name, "RANK", n)) || (n == 10 && !memcmp(name, "LOCAL_RANK", n));
}

static int is_known_variable(const char *name, size_t n) {
    return is_rank(name, n) || begins(name, n, "CUDA_") || begins(name, n, "VLLM_") ||
           begins(name, n, "NCCL_") ||
           (begins(name, n, "PYTORCH_") &&
            (ends(name, n, "ALLOC_CONF") || ends(name, n, "_MEMORY_CACHING")));
}

static int matches(const char *name, size_t n, const char *pattern, size_t length) {
    if (length && pattern[length - 1] == '*')
        return n >= length - 1 && !memcmp(name, pattern, length - 1);
    return n == length && !memcmp(name, pattern, n);
}

// Whether CUTRACE_ENV_ALLOW names it: NAME or PREFIX_*, separated by commas.
static int is_asked_for(const char *name, size_t n) {
    for (const char *at = CT_OPTION_TEXT(ENV_ALLOW); at && *at;) {
        const size_t length = strcspn(at, ",");
        if (matches(name, n, at, length))
            return 1;
        at += length + (at[length] == ',');
    }
    return 0;
}

// The value, or what replaces it: paths contain user names, and addresses identify machines.
static const char *hide_private(const char *name, size_t n, const char *value) {
    size_t dots = 0, colons = 0;
    for (const char *c = value; *c; c++) {
        dots += *c == '.' && isdigit((unsigned char)c[1]);
        colons += *c == ':';
        if (*c == '/' || *c == '@' || *c == '~')
            return "<path>";
    }
    if (ends(name, n, "_IP") || ends(name, n, "_HOST") || ends(name, n, "_ADDR") || dots >= 3 ||
        colons >= 3)
        return "<address>";
    return value;
}

static void publish_environment(void) {
    for (char *const *e = environ; e && *e; e++) {
        const char *equals = strchr(*e, '=');
        const size_t n = equals ? (size_t)(equals - *e) : 0;
        char key[160];
        if (!n || n > 128)
            continue;
        const int asked = is_asked_for(*e, n);
        if (!asked && (!is_known_variable(*e, n) || is_secret(*e, n)))
            continue;
        ct_print(key, sizeof key, "process.env.%.*s", (int)n, *e);
        ct_info_set(key, "%.1000s", asked ? equals + 1 : hide_private(*e, n, equals + 1));
    }
}

// ---- process, host and options ----------------------------------------------------------------

static uint64_t read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Start of the process on CLOCK_MONOTONIC. The kernel reports it in ticks of CLOCK_BOOTTIME.
static uint64_t find_start_ns(void) {
    const long hertz = sysconf(_SC_CLK_TCK);
    const uint64_t since_boot = hertz > 0 ? ct_process_id_read_start_ticks((unsigned)getpid()) *
                                                (1000000000u / (uint64_t)hertz)
                                          : 0;
    const uint64_t awake = read_clock(CLOCK_MONOTONIC), asleep = read_clock(CLOCK_BOOTTIME) - awake;
    return since_boot > asleep ? since_boot - asleep : 0;
}

// The boot of the machine tells which traces have a common clock. Its id would identify the machine.
static void publish_boot(void) {
    uint64_t now, start, boot[2];
    ct_process_id_read(&now, &start, boot);
    if (boot[0])
        ct_info_set("host.boot_hash", "%016lx", ct_xxh64(boot, sizeof boot));
}

static void publish_options(void) {
    for (int i = 0; i < CT_OPTIONS; i++) {
        char key[64];
        // The pattern of the trace may contain a path. ANNOUNCE is the launcher's.
        if (!ct_options[i].given || i == CT_OPTION_OUTPUT || i == CT_OPTION_ENV_ALLOW ||
            i == CT_OPTION_ANNOUNCE)
            continue;
        ct_print(key, sizeof key, "option.%s", ct_options_get_name((enum ct_option)i));
        ct_info_set(key, "%s", ct_options[i].text);
    }
}

void ct_process_info_publish(void) {
    char name[65];
    struct utsname host;
    ct_process_id_get_program_name(name, sizeof name);
    ct_info_set("cutrace.version", "%s", CT_VERSION);
    ct_info_set("process.pid", "%d", (int)getpid());
    ct_info_set("process.ppid", "%d", (int)getppid());
    ct_info_set("process.exe", "%s", name);
    ct_info_set("process.start_ns", "%lu", find_start_ns());
    publish_arguments();
    publish_environment();
    publish_options();
    if (!uname(&host)) {
        ct_info_set("host.name_hash", "%016lx", ct_xxh64(host.nodename, strlen(host.nodename)));
        ct_info_set("host.kernel", "%s", host.release);
    }
    publish_boot();
    ct_info_set("host.page_bytes", "%ld", sysconf(_SC_PAGESIZE));
    const uint64_t before = read_clock(CLOCK_MONOTONIC), wall = read_clock(CLOCK_REALTIME),
                   after = read_clock(CLOCK_MONOTONIC);
    ct_info_set("clock.monotonic_ns", "%lu", before + (after - before) / 2);
    ct_info_set("clock.realtime_ns", "%lu", wall);
}
