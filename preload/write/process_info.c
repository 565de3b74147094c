// SPDX-License-Identifier: Apache-2.0
// INFO about the process and its machine, without anything private.
//
// Users show traces to strangers. So only these are recorded: the program's base name, arguments
// that are known to influence memory if their value is a number or a word (command_line.c), and
// environment variables of the CUDA stack (environment.def). Never the working folder, user and
// host names, addresses, and anything that looks like a secret or a path.
#define _GNU_SOURCE
#include "write/process_info.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <cutrace/format/journal.h>
#include <cutrace/format/xxh64.h>

#include "base/options.h"
#include "base/print.h"
#include "base/process_id.h"
#include "base/read_file.h"
#include "write/info_table.h"

#ifndef CT_VERSION
#define CT_VERSION "0.1.0"
#endif

// ---- the environment --------------------------------------------------------------------------

// process.env.NAME, by environment.def and CUTRACE_ENV_ALLOW.

extern char **environ;

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

static int ends(const char *name, size_t n, const char *suffix) {
    const size_t s = strlen(suffix);
    return n >= s && !memcmp(name + n - s, suffix, s);
}

static int matches(const char *name, size_t n, const char *pattern, size_t length) {
    if (length && pattern[length - 1] == '*')
        return n >= length - 1 && !memcmp(name, pattern, length - 1);
    return n == length && !memcmp(name, pattern, n);
}

static const struct {
    const char *name;
    enum { SETTING, DETAIL } kind;
} variables[] = {
#define CT_VARIABLE(name, kind, why) {name, kind},
#include "write/environment.def"
#undef CT_VARIABLE
};

static int is_known(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (matches(name, n, variables[i].name, strlen(variables[i].name)))
            return variables[i].kind == SETTING || !CT_OPTION_NUMBER(PRIVATE);
    return 0;
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

// The value, or what replaces it: paths contain user names; addresses and the UUIDs of devices
// identify machines.
static const char *hide_private(const char *name, size_t n, const char *value) {
    size_t dots = 0, colons = 0;
    for (const char *c = value; *c; c++) {
        dots += *c == '.' && isdigit((unsigned char)c[1]);
        colons += *c == ':';
        if (*c == '/' || *c == '@' || *c == '~')
            return "<path>";
    }
    if (strstr(value, "GPU-") || strstr(value, "MIG-"))
        return "<uuid>";
    // (Settings of PyTorch's allocator are pairs with a colon.)
    if (ends(name, n, "_IP") || ends(name, n, "_HOST") || ends(name, n, "_ADDR") || dots >= 3 ||
        (colons >= 3 && !ends(name, n, "_ALLOC_CONF")))
        return "<address>";
    return value;
}

// Drain lock held.
static void publish_environment(void) {
    for (char *const *e = environ; e && *e; e++) {
        const char *equals = strchr(*e, '=');
        const size_t n = equals ? (size_t)(equals - *e) : 0;
        char key[160];
        if (!n || n > 128)
            continue;
        const int asked = is_asked_for(*e, n);
        if (!asked && (!is_known(*e, n) || is_secret(*e, n)))
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

// The boot of the machine tells which traces have a common clock. Its id would identify the
// machine.
static void publish_boot(void) {
    uint64_t now, start, boot[2];
    ct_process_id_read(&now, &start, boot);
    if (boot[0])
        ct_info_set("host.boot_hash", "%016lx", ct_xxh64(boot, sizeof boot));
}

// Containers of one host number their processes independently, also where they share its name. The
// kernel numbers namespaces anew at each boot.
static void publish_pid_namespace(void) {
    uint64_t now, start, id[3] = {0};
    struct stat namespace;
    ct_process_id_read(&now, &start, id);
    if (!id[0] || stat("/proc/self/ns/pid", &namespace))
        return;
    id[2] = namespace.st_ino;
    ct_info_set("process.pid_namespace_hash", "%016lx", ct_xxh64(id, sizeof id));
}

// A process that executes another program keeps its number and its start, and nothing that it held.
// The kernel gives each program that it starts 16 random bytes, which a second copy of this library
// finds, too. (The C library makes its secrets of them: of the hash neither half can be computed.)
static void publish_image(void) {
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint8_t bytes[16];
    if (!random)
        return;
    memcpy(bytes, random, sizeof bytes);
    ct_info_set("process.image_hash", "%016lx", ct_xxh64(bytes, sizeof bytes));
}

static void publish_options(void) {
    for (int i = 0; i < CT_OPTIONS; i++) {
        char key[64];
        // The pattern of the trace may contain a path. The launcher's are no settings, and paths.
        if (!ct_options[i].given || i == CT_OPTION_OUTPUT || i == CT_OPTION_ENV_ALLOW ||
            i == CT_OPTION_ANNOUNCE || i == CT_OPTION_TRACE_LIST || i == CT_OPTION_NVTX_NEXT ||
            i == CT_OPTION_INJECTION_NEXT)
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
    if (!CT_OPTION_NUMBER(PRIVATE))
        ct_info_set("process.exe", "%s", name);
    ct_info_set("process.start_ns", "%lu", find_start_ns());
    ct_command_line_publish();
    publish_environment();
    publish_options();
    if (!uname(&host)) {
        if (!CT_OPTION_NUMBER(PRIVATE)) // it can be found by trying names
            ct_info_set("host.name_hash", "%016lx", ct_xxh64(host.nodename, strlen(host.nodename)));
        ct_info_set("host.kernel", "%s", host.release);
    }
    publish_boot();
    publish_pid_namespace();
    publish_image();
    ct_info_set("host.page_bytes", "%ld", sysconf(_SC_PAGESIZE));
    const uint64_t before = read_clock(CLOCK_MONOTONIC), wall = read_clock(CLOCK_REALTIME),
                   after = read_clock(CLOCK_MONOTONIC);
    ct_info_set("clock.monotonic_ns", "%lu", before + (after - before) / 2);
    ct_info_set("clock.realtime_ns", "%lu", wall);
}

// ---- the driver's release -----------------------------------------------------------------------

enum { MOST_RELEASE = 40 }; // letters

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ...": the
// first word that begins with a digit and has a point.
size_t ct_process_info_find_release(const char *text, size_t n, const char **release) {
    const char *end = memchr(text, '\n', n);
    end = end ? end : text + n;
    for (const char *at = text; at < end;) {
        const char *behind = memchr(at, ' ', (size_t)(end - at));
        behind = behind ? behind : end;
        const size_t length = (size_t)(behind - at);
        if (length && length <= MOST_RELEASE && isdigit((unsigned char)*at) &&
            memchr(at, '.', length)) {
            *release = at;
            return length;
        }
        at = behind + (behind < end);
    }
    return 0;
}

void ct_process_info_publish_release(void) {
    static int done;
    char text[512];
    const char *release;
    if (done)
        return;
    done = 1;
    const size_t n = ct_read_file("/proc/driver/nvidia/version", text, sizeof text);
    const size_t length = ct_process_info_find_release(text, n, &release);
    if (length)
        ct_info_set("nvidia.driver_version", "%.*s", (int)length, release);
}
