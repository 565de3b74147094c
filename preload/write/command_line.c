// SPDX-License-Identifier: Apache-2.0
// INFO about the command lines that started the process.
//
// Of an ancestor the flags count if it runs the same file (as python3.11 does, whose children are
// spawned or forked) or is a program that cli_flags.def knows; others, like uv or nsys, are passed
// over. The search ends at a shell and what starts shells, at a process of another user, and after
// MAX_LEVELS. It includes process 1: in a container that is the server itself.
#define _GNU_SOURCE
#include "write/process_info.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cutrace/format/cli_flags.h>

#include "base/options.h"
#include "base/print.h"
#include "base/read_file.h"
#include "write/info_table.h"

#define MAX_LEVELS 8u
#define ARGUMENT_BYTES (32u << 10)

// The process where each flag, and then the program, was found: 1 this one, 2 its parent, 3 and so
// on; 0: not found. The drainer's until there is a writer thread, then that thread's.
static uint8_t found_at[CT_CLI_FLAGS + 1];

// ---- origins --------------------------------------------------------------------------------

static void format_key(size_t row, const char *suffix, char *key, size_t size) {
    if (row < CT_CLI_FLAGS)
        ct_print(key, size, "flag.%s%s", ct_cli_flags[row].name, suffix);
    else
        ct_print(key, size, "process.program%s", suffix);
}

static void publish_origin(size_t row) {
    char key[128];
    format_key(row, ".from", key, sizeof key);
    if (found_at[row] > 2)
        ct_info_set(key, "ancestor %u", found_at[row] - 1u);
    else
        ct_info_set(key, "%s", found_at[row] == 1 ? "self" : "parent");
}

// A nearer process wins, and in a command line the last one.
static void publish_value(size_t row, uint8_t level, const char *value, size_t n) {
    char key[128];
    if (found_at[row] && found_at[row] < level)
        return;
    format_key(row, "", key, sizeof key);
    ct_info_set(key, "%.*s", (int)n, value);
    found_at[row] = level;
    publish_origin(row);
}

// INFO in a forked child is its parent's: what that found is one process farther.
static void move_origins(void) {
    for (size_t row = 0; row <= CT_CLI_FLAGS; row++)
        if (found_at[row] && found_at[row] < UINT8_MAX) {
            found_at[row]++;
            publish_origin(row);
        }
}

// ---- programs -------------------------------------------------------------------------------

static struct ct_cli_text base_name(struct ct_cli_text path) {
    for (size_t i = path.n; i > 0; i--)
        if (path.at[i - 1] == '/')
            return ct_cli_skip(path, i);
    return path;
}

static int matches(struct ct_cli_text name, const char *pattern, size_t n, int module) {
    if (module && n && pattern[n - 1] == '*')
        return name.n >= n - 1 && !memcmp(name.at, pattern, n - 1);
    return name.n == n && !memcmp(name.at, pattern, n);
}

static const struct ct_cli_program *find_program(struct ct_cli_text name, int module) {
    for (size_t i = 0; i < CT_CLI_PROGRAMS; i++)
        for (const char *at = ct_cli_programs[i].patterns; *at; at += *at == ' ') {
            const size_t n = strcspn(at, " ");
            if (matches(name, at, n, module))
                return &ct_cli_programs[i];
            at += n;
        }
    return NULL;
}

static int is_text(struct ct_cli_text t, const char *text) {
    return t.n == strlen(text) && !memcmp(t.at, text, t.n);
}

// Steps over the interpreter, its options, and the script or module that it runs. Returns the known
// program that this is, or NULL.
static const struct ct_cli_program *skip_program(struct ct_cli_arguments *a) {
    const struct ct_cli_text first = base_name(ct_cli_next_argument(a));
    if (first.n < 6 || memcmp(first.at, "python", 6) != 0)
        return find_program(first, 0);
    while (a->at < a->end) {
        const struct ct_cli_text t = ct_cli_next_argument(a);
        if (is_text(t, "-m"))
            return find_program(ct_cli_next_argument(a), 1);
        if (is_text(t, "-c")) {
            (void)ct_cli_next_argument(a);
            return NULL;
        }
        if (!t.n || *t.at != '-')
            return find_program(base_name(t), 0);
        if (is_text(t, "-X") || is_text(t, "-W"))
            (void)ct_cli_next_argument(a);
    }
    return NULL;
}

static int is_server(const struct ct_cli_program *p) {
    return p && p->kind == CT_CLI_SERVER;
}

// ---- flags ----------------------------------------------------------------------------------

static void publish_flag(void *level, const struct ct_cli_flag *flag, struct ct_cli_text value) {
    publish_value((size_t)(flag - ct_cli_flags), *(const uint8_t *)level, value.at, value.n);
}

// vllm serve MODEL
static void publish_model(struct ct_cli_arguments a, const struct ct_cli_program *p,
                          const struct ct_cli_sink *sink) {
    if (strcmp(p->name, "vllm") != 0 || !is_text(ct_cli_next_argument(&a), "serve"))
        return;
    const struct ct_cli_text model = ct_cli_argument(&a);
    if (model.n && *model.at != '-')
        ct_cli_emit(sink, ct_cli_flag_find((struct ct_cli_text){"model", 5}, 0), model);
}

// Publishes the flags of a command line, unless it is another program's.
static void publish_flags(struct ct_cli_arguments a, uint8_t level, int same_program) {
    const struct ct_cli_program *p = skip_program(&a);
    const struct ct_cli_sink sink = {
        .found = publish_flag, .user = &level, .letters = is_server(p)};
    if (!same_program && !p)
        return;
    if (p) {
        publish_value(CT_CLI_FLAGS, level, p->name, strlen(p->name));
        publish_model(a, p, &sink);
    }
    ct_cli_read(a, &sink);
}

// Reads a command line. One that is longer than the buffer ends with its last whole argument.
static struct ct_cli_arguments read_arguments(const char *path, char *buffer, size_t size) {
    size_t n = ct_read_file(path, buffer, size);
    while (n == size && n && buffer[n - 1])
        size = --n;
    return (struct ct_cli_arguments){buffer, buffer + n, 0};
}

// ---- process.argv -----------------------------------------------------------------------------

static size_t append(char *out, size_t at, size_t size, struct ct_cli_text t) {
    return at + ct_print(out + at, size - at, "%s%.*s", at ? " " : "", (int)t.n, t.at);
}

// Whether a value is recorded unchanged.
static int is_harmless(const struct ct_cli_flag *f, struct ct_cli_text value) {
    const struct ct_cli_text clean = ct_cli_clean(f->kind, value);
    return f->kind == CT_CLI_FLAG_SWITCH
               ? !is_text(clean, "<given>")
               : f->kind != CT_CLI_FLAG_NAME && clean.at == value.at && clean.n == value.n;
}

// The flag that an argument names, of which the value may follow after `*equals`.
static const struct ct_cli_flag *find_flag(struct ct_cli_text t, int letters, const char **equals) {
    while (t.n && *t.at == '-')
        t = ct_cli_skip(t, 1);
    *equals = t.n ? memchr(t.at, '=', t.n) : NULL;
    if (*equals)
        t.n = (size_t)(*equals - t.at);
    const struct ct_cli_flag *f = ct_cli_flag_find(t, letters);
    if (!f && t.n > 3 && ct_cli_has_name((struct ct_cli_text){t.at, 3}, "no-", 3))
        f = ct_cli_flag_find(ct_cli_skip(t, 3), 0);
    return f && f->kind != CT_CLI_FLAG_NAME && f->kind != CT_CLI_FLAG_HIDDEN ? f : NULL;
}

// Copies the arguments that are known, with those of their values that are harmless.
static size_t copy_harmless(struct ct_cli_arguments a, char *out, size_t size) {
    const int letters = is_server(skip_program(&a));
    size_t used = 0;
    while (a.at < a.end) {
        const struct ct_cli_text t = ct_cli_next_argument(&a);
        const char *equals = NULL;
        const struct ct_cli_flag *f = t.n && *t.at == '-' ? find_flag(t, letters, &equals) : NULL;
        if (!f || (equals && !is_harmless(f, ct_cli_skip(t, (size_t)(equals + 1 - t.at)))))
            continue;
        used = append(out, used, size, t);
        const struct ct_cli_text next = ct_cli_argument(&a);
        if (!equals && ct_cli_is_value(f, next) && is_harmless(f, next))
            used = append(out, used, size, ct_cli_next_argument(&a));
    }
    return used;
}

static void publish_arguments(struct ct_cli_arguments a) {
    static char out[3500]; // under the drain lock
    size_t used = 0;
    if (CT_OPTION_NUMBER(ARGV) == CT_ARGV_OF_FULL) {
        while (a.at < a.end)
            used = append(out, used, sizeof out, ct_cli_next_argument(&a));
    } else {
        used = copy_harmless(a, out, sizeof out);
    }
    if (used)
        ct_info_set("process.argv", "%s", out);
}

// ---- the process --------------------------------------------------------------------------------

static int is_off(void) {
    return CT_OPTION_NUMBER(ARGV) == CT_ARGV_OF_OFF || CT_OPTION_NUMBER(PRIVATE);
}

void ct_command_line_publish(void) {
    static char buffer[ARGUMENT_BYTES]; // under the drain lock
    if (is_off())
        return;
    const struct ct_cli_arguments a = read_arguments("/proc/self/cmdline", buffer, sizeof buffer);
    move_origins();
    if (a.at == a.end)
        return;
    publish_arguments(a);
    publish_flags(a, 1, 1);
}

// ---- ancestors ----------------------------------------------------------------------------------

struct ancestor {
    uint64_t parent, user;
    char file[256]; // the program that it runs: the end of its path
};

static void read_program_file(const char *path, char *file, size_t size) {
    static char target[4096]; // the writer thread's
    const ssize_t n = readlink(path, target, sizeof target);
    const size_t length = n > 0 ? (size_t)n : 0, from = length < size ? 0 : length - (size - 1);
    ct_print(file, size, "%.*s", (int)(length - from), target + from);
}

// Returns 0, or -1: there is no such process.
static int read_ancestor(unsigned pid, struct ancestor *a) {
    char path[64], status[2048];
    ct_print(path, sizeof path, "/proc/%u/status", pid);
    status[ct_read_file(path, status, sizeof status - 1)] = 0;
    const int is_there = ct_read_number_after(status, "PPid:", &a->parent) &&
                         ct_read_number_after(status, "Uid:", &a->user);
    ct_print(path, sizeof path, "/proc/%u/exe", pid);
    read_program_file(path, a->file, sizeof a->file);
    return is_there ? 0 : -1;
}

// Shells, and what starts a user's processes.
static int ends_search(const char *file) {
    static const char *const names[] = {"sh",   "bash",  "dash",   "zsh",    "fish",    "ksh",
                                        "ash",  "csh",   "tcsh",   "mksh",   "busybox", "sshd",
                                        "tmux", "login", "screen", "systemd"};
    const char *name = ct_base_name(file);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return 1;
    return 0;
}

void ct_command_line_read_ancestors(void) {
    static char buffer[ARGUMENT_BYTES]; // the writer thread's
    static struct ancestor self, a;
    char path[64];
    if (is_off())
        return;
    read_program_file("/proc/self/exe", self.file, sizeof self.file);
    unsigned pid = (unsigned)getppid();
    for (uint8_t level = 2; level < MAX_LEVELS + 2 && pid; level++, pid = (unsigned)a.parent) {
        if (read_ancestor(pid, &a) || a.user != getuid() || ends_search(a.file))
            return;
        ct_print(path, sizeof path, "/proc/%u/cmdline", pid);
        publish_flags(read_arguments(path, buffer, sizeof buffer), level,
                      *a.file && !strcmp(a.file, self.file));
    }
}
