// SPDX-License-Identifier: Apache-2.0
// cutrace: `run` starts a program with libcutrace.so preloaded, `ctl` sends a request to one that
// is being traced, `record-metrics` writes what a server says of itself meanwhile.
//
// The program refolders this one (exec), so its exit code and signals reach the caller unchanged.
// The variables set here stay in the environment, so that the children of the program are traced,
// too.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/version.h"
#include "run/ctl.h"
#include "run/record_metrics.h"

enum { OWN_FAILURE = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

static const struct {
    const char *name, *value, *help;
} variables[] = {
#define CT_OPTION(NAME, TYPE, text, lowest, highest, help) {#NAME, text, help},
#include <cutrace/format/options.def>
};

static const char *const commands[] = {"run", "ctl", "record-metrics", "help"};

static const char *default_output(void) {
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (strcmp(variables[i].name, "OUTPUT") == 0)
            return variables[i].value;
    return "";
}

// Prints the words of `text` in lines of at most `width` columns, each line after `indent` blanks.
static void print_wrapped(FILE *out, const char *text, int indent, int width) {
    int column = indent;
    fprintf(out, "%*s", indent, "");
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (column > indent && column + 1 + n > width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(out, "%s%.*s", column > indent ? " " : "", n, text);
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_help(FILE *out) {
    fputs(
        "usage: cutrace run [-o PATTERN] [--] COMMAND [ARGUMENT...]\n"
        "       cutrace ctl PID|TRACE on|off|flush|status\n"
        "       cutrace record-metrics URL -o FILE    (--help: its options)\n\n"
        "Runs a program and records how it and its children use GPU memory: one trace for each\n"
        "process that uses CUDA. Read the traces with cutrace-report.\n\n"
        "  -o, --output=PATTERN   file of the trace; the same as CUTRACE_OUTPUT\n"
        "  -h, --help             this text\n"
        "  -V, --version          the version\n\n"
        "The exit code is the program's, or 125 if it could not be traced, 126 if it could not be\n"
        "executed, 127 if it was not found.\n\n"
        "ctl sends a request to a process that is being traced, without a signal: status prints its\n"
        "counters, off and on pause and resume recording, flush writes everything to the trace and\n"
        "waits until that is done. Exit codes: 0 done, 2 wrong usage, 3 no such recording (or it has\n"
        "ended, or another version records), 4 no answer, 5 not allowed.\n\n"
        "record-metrics writes what a server says of its KV cache to a file, beside the trace.\n\n"
        "environment (CUTRACE=0 switches the tracer off):\n",
        out);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        fprintf(out, "  CUTRACE_%s%s%s\n", variables[i].name, *variables[i].value ? "=" : "",
                variables[i].value);
        print_wrapped(out, variables[i].help, 6, 96);
    }
}

__attribute__((format(printf, 2, 3))) _Noreturn static void fail(int code, const char *format,
                                                                 ...) {
    va_list args;
    fputs("cutrace: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(code);
}

static char *concat(const char *a, const char *b, const char *c) {
    const size_t n = strlen(a) + strlen(b) + strlen(c) + 1;
    char *text = malloc(n);
    if (!text)
        fail(OWN_FAILURE, "out of memory");
    (void)snprintf(text, n, "%s%s%s", a, b, c);
    return text;
}

// Returns the absolute path of the library: beside this program, or where `make install` puts it.
static char *find_library(void) {
    static const char *const folders[] = {"/",
                                          "/../lib/",
                                          "/../lib/cutrace/",
                                          "/../lib64/",
                                          "/../lib/x86_64-linux-gnu/",
                                          "/../lib/aarch64-linux-gnu/"};
    char self[PATH_MAX], path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        fail(OWN_FAILURE, "cannot find the folder of this program: %s", strerror(errno));
    self[n] = 0;
    *strrchr(self, '/') = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *candidate = concat(self, folders[i], "libcutrace.so");
        char *found = realpath(candidate, path);
        free(candidate);
        if (found && access(found, R_OK) == 0)
            return concat(found, "", "");
    }
    fail(OWN_FAILURE,
         "libcutrace.so is neither in %s nor in the lib folder beside it; install it there", self);
}

// Puts the library first in LD_PRELOAD; the others keep their order.
static void set_preload(const char *library) {
    if (strpbrk(library, " :"))
        fail(OWN_FAILURE,
             "%s: LD_PRELOAD cannot hold a path with a blank or a colon; move the library",
             library);
    char *value = concat(library, "", ""), *before = getenv("LD_PRELOAD");
    char *copy = concat(before ? before : "", "", ""), *rest = copy, *one;
    while ((one = strsep(&rest, " :"))) {
        if (!*one || strcmp(one, library) == 0)
            continue;
        char *longer = concat(value, ":", one);
        free(value);
        value = longer;
    }
    if (setenv("LD_PRELOAD", value, 1))
        fail(OWN_FAILURE, "cannot set LD_PRELOAD: %s", strerror(errno));
    free(copy);
    free(value);
}

// A relative pattern is relative to the folder where cutrace was started, even if the program
// changes its folder later.
static char *make_absolute(const char *pattern) {
    char here[PATH_MAX], *escaped, *to;
    if (*pattern == '/' || !getcwd(here, sizeof here))
        return concat(pattern, "", "");
    escaped = to = malloc(2 * strlen(here) + 1);
    if (!escaped)
        fail(OWN_FAILURE, "out of memory");
    for (const char *p = here; *p; p++) {
        if (*p == '%')
            *to++ = '%';
        *to++ = *p;
    }
    *to = 0;
    char *path = concat(escaped, strcmp(escaped, "/") ? "/" : "", pattern);
    free(escaped);
    return path;
}

static void set_output(const char *asked) {
    const char *set = getenv("CUTRACE_OUTPUT");
    if (asked || !set || !*set) {
        char *path = make_absolute(asked ? asked : default_output());
        if (setenv("CUTRACE_OUTPUT", path, 1))
            fail(OWN_FAILURE, "cannot set CUTRACE_OUTPUT: %s", strerror(errno));
        free(path);
    }
}

// Lets each process that records say where, on this program's stderr: a program that never uses
// CUDA has no trace.
static void set_announcement(void) {
    char file[64];
    struct stat st;
    if (fstat(STDERR_FILENO, &st))
        return;
    (void)snprintf(file, sizeof file, "%" PRIu64 ":%" PRIu64, (uint64_t)st.st_dev,
                   (uint64_t)st.st_ino);
    if (setenv("CUTRACE_ANNOUNCE", file, 1))
        fail(OWN_FAILURE, "cannot set CUTRACE_ANNOUNCE: %s", strerror(errno));
}

static int is_option(const char *argument, const char *letter, const char *word) {
    return !strcmp(argument, letter) || !strcmp(argument, word);
}

static int print_and_exit_code(void (*print)(FILE *out)) {
    print(stdout);
    return fflush(stdout) ? OWN_FAILURE : 0;
}

static void print_version(FILE *out) {
    fprintf(out, "cutrace %s\n", CT_VERSION);
}

_Noreturn static void fail_option(const char *word) {
    static const char *const names[] = {"output", "help"};
    struct ct_nearest n = {.typed = word + strspn(word, "-")};
    n.length = word[1] == '-' ? strcspn(n.typed, "=") : 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ct_nearest_try(&n, names[i]);
    if (is_option(word, "-o", "--output"))
        fail(OWN_FAILURE, "run: %s needs a value: PATTERN", word);
    if (n.best)
        fail(OWN_FAILURE, "run: %s: unknown option; did you mean --%s?", word, n.best);
    fail(OWN_FAILURE, "run: %s: unknown option; see cutrace --help", word);
}

_Noreturn static void fail_command(const char *word) {
    struct ct_nearest n = {.typed = word, .length = strlen(word)};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        ct_nearest_try(&n, commands[i]);
    if (n.best)
        fail(OWN_FAILURE, "%s: no such command; did you mean `%s`?", word, n.best);
    fail(OWN_FAILURE, "%s: no such command; use: cutrace run -- COMMAND... (see cutrace --help)",
         word);
}

// Parses the options of `cutrace run`. Returns the index of the command in argv, 0 for --help.
static int parse_run(int argc, char **argv, const char **output) {
    int i;
    for (i = 2; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        if (!strcmp(argv[i], "--")) {
            i++;
            break;
        }
        if (is_option(argv[i], "-h", "--help"))
            return 0;
        if (is_option(argv[i], "-o", "--output") && i + 1 < argc)
            *output = argv[++i];
        else if (!strncmp(argv[i], "-o", 2) && argv[i][2])
            *output = argv[i] + 2;
        else if (!strncmp(argv[i], "--output=", 9))
            *output = argv[i] + 9;
        else
            fail_option(argv[i]);
    }
    if (i >= argc)
        fail(OWN_FAILURE, "run: no command given; see cutrace --help");
    return i;
}

// Replaces this program by the command.
_Noreturn static void run(char **command, const char *output) {
    char *library = find_library();
    set_preload(library);
    set_output(output);
    set_announcement();
    execvp(command[0], command);
    const int code = errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
    fail(code, "%s: %s", command[0], strerror(errno));
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return OWN_FAILURE;
    }
    if (is_option(argv[1], "-h", "--help") || !strcmp(argv[1], "help"))
        return print_and_exit_code(print_help);
    if (is_option(argv[1], "-V", "--version"))
        return print_and_exit_code(print_version);
    if (!strcmp(argv[1], "ctl")) {
        if (argc > 2 && is_option(argv[2], "-h", "--help"))
            return print_and_exit_code(print_help);
        return ct_ctl_main(argc - 2, argv + 2);
    }
    if (!strcmp(argv[1], "record-metrics"))
        return ct_record_metrics_main(argc - 2, argv + 2);
    if (strcmp(argv[1], "run") != 0)
        fail_command(argv[1]);
    const char *output = NULL;
    const int command = parse_run(argc, argv, &output);
    if (!command)
        return print_and_exit_code(print_help);
    run(argv + command, output);
}
