// SPDX-License-Identifier: Apache-2.0
// What is said of a trace is what cutrace-report says. It is asked as a program: whatever becomes
// of it, this one ends as the traced program has ended.
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/human.h"
#include "base/json.h"
#include "base/utf8.h"
#include "run/run.h"

// ---- the list -----------------------------------------------------------------------------------

int ct_trace_list_create(struct ct_trace_list *list) {
    const char *const folders[] = {getenv("TMPDIR"), "/tmp", "/dev/shm"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *folder = folders[i];
        if (!folder || *folder != '/' || strlen(folder) > sizeof list->path - 32)
            continue;
        (void)snprintf(list->path, sizeof list->path, "%s/cutrace-run.XXXXXX", folder);
        const int fd = mkostemp(list->path, O_CLOEXEC);
        if (fd >= 0) {
            close(fd);
            return 0;
        }
    }
    *list->path = 0;
    return -1;
}

// A process that replaces itself may begin a second trace under the same name.
static int is_new(const struct ct_trace_list *list, const char *trace) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->traces[i], trace) == 0)
            return 0;
    return 1;
}

static void add(struct ct_trace_list *list, const char *trace) {
    char **longer = realloc(list->traces, (list->count + 1) * sizeof *longer);
    if (!longer)
        return;
    list->traces = longer;
    longer[list->count] = strdup(trace);
    list->count += longer[list->count] != NULL;
}

// What no NUL ends was never whole.
void ct_trace_list_take(struct ct_trace_list *list) {
    char *trace = NULL;
    size_t room = 0;
    ssize_t n;
    FILE *f = *list->path ? fopen(list->path, "re") : NULL;
    while (f && (n = getdelim(&trace, &room, 0, f)) > 0)
        if (!trace[n - 1] && *trace && is_new(list, trace))
            add(list, trace);
    free(trace);
    if (f)
        (void)fclose(f);
    if (*list->path)
        (void)unlink(list->path);
}

void ct_trace_list_free(struct ct_trace_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->traces[i]);
    free(list->traces);
}

// ---- what is said of it -------------------------------------------------------------------------

struct left {
    FILE *out;
    const struct ct_trace_list *list;
    pid_t pid;
    int status;
    const char *json;     // of cutrace-report; NULL: it was not run
    const char **summary; // of each trace, or NULL
};

// ---- running cutrace-report ---------------------------------------------------------------------

// The program: beside this one, or in PATH. NULL: it is not there. Allocated.
static char *find_report(void) {
    const char *folder = ct_preload_own_folder();
    char *beside = NULL;
    if (folder && asprintf(&beside, "%s/cutrace-report", folder) >= 0) {
        if (access(beside, X_OK) == 0)
            return beside;
        free(beside);
    }
    return ct_preload_find_program("cutrace-report", 1);
}

struct call {
    const char *program;
    char **arguments;
};

static void execute(void *cookie) {
    const struct call *c = cookie;
    ct_supervise_restore_signals();
    execv(c->program, c->arguments);
}

// Runs cutrace-report and takes what it writes, for free(); NULL: it could not be run, or a signal
// that ends programs came meanwhile, and then it was ended. ct_supervise has blocked the signals.
static char *call_report(const char *program, char **arguments) {
    struct call call = {program, arguments};
    struct ct_child c = {.become = execute, .cookie = &call, .most = SIZE_MAX};
    c.signals = signalfd(-1, ct_supervise_signals(), SFD_CLOEXEC | SFD_NONBLOCK);
    (void)ct_child_run(&c);
    close(c.signals);
    return c.text;
}

// ---- asking cutrace-report ----------------------------------------------------------------------

static int is_there(const char *trace) {
    struct stat st;
    return stat(trace, &st) == 0;
}

// Runs cutrace-report over the traces that are there, and finds the summary of each in what it
// wrote. Returns its whole output.
static char *ask(const char *program, struct left *l) {
    static char name[] = "cutrace-report", command[] = "summary", json[] = "--json";
    const size_t n = l->list->count;
    char **arguments = calloc(n + 4, sizeof *arguments);
    size_t count = 0, shown = 0;
    if (!arguments)
        return NULL;
    arguments[count++] = name;
    arguments[count++] = command;
    arguments[count++] = json;
    for (size_t i = 0; i < n; i++)
        if (is_there(l->list->traces[i]))
            arguments[count++] = l->list->traces[i];
    const size_t asked = count - 3;
    char *text = asked ? call_report(program, arguments) : NULL;
    const char *list = ct_json_find(text, "documents");
    for (size_t i = 0; text && i < n; i++)
        if (shown < asked && arguments[shown + 3] == l->list->traces[i])
            l->summary[i] = asked > 1 ? ct_json_element(list, shown++) : (shown++, text);
    for (size_t i = 0; i < n; i++)
        if (!ct_json_find(l->summary[i], "trace"))
            l->summary[i] = NULL;
    free(arguments);
    return text;
}

// ---- lines --------------------------------------------------------------------------------------

static void print_path(FILE *out, const char *path) {
    ct_utf8_print_sanitized(out, path, strlen(path));
}

// A path that a shell reads back as it is.
static void print_word(FILE *out, const char *path) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=@%:,";
    if (!path[strspn(path, plain)]) {
        print_path(out, path);
        return;
    }
    fputc('\'', out);
    for (const char *at = path; *at;) {
        const size_t n = strcspn(at, "'");
        ct_utf8_print_sanitized(out, at, n);
        fputs(at[n] ? "'\\''" : "", out);
        at += n + (at[n] != 0);
    }
    fputc('\'', out);
}

static int64_t get_pid(const char *summary) {
    return ct_json_to_number(ct_json_find(ct_json_find(summary, "process"), "pid"));
}

// The last trace of the program itself: one that it began before it replaced itself by another
// program has an end of its own.
static int is_of_program(const struct left *l, size_t i) {
    for (size_t later = i + 1; later < l->list->count; later++)
        if (get_pid(l->summary[later]) == l->pid)
            return 0;
    return get_pid(l->summary[i]) == l->pid;
}

static void print_status(FILE *out, int status) {
    if (WIFEXITED(status)) {
        fprintf(out, "exit code %d", WEXITSTATUS(status));
        return;
    }
    const char *name = ct_supervise_signal_name(WTERMSIG(status));
    if (name)
        fprintf(out, "ended by %s", name);
    else
        fprintf(out, "ended by signal %d", WTERMSIG(status));
}

static void print_end(const struct left *l, size_t i) {
    const char *trace = ct_json_find(l->summary[i], "trace");
    if (is_of_program(l, i))
        print_status(l->out, l->status);
    else if (ct_json_is_true(ct_json_find(trace, "running")))
        fputs("still running", l->out);
    else if (ct_json_is_true(ct_json_find(trace, "clean_end")))
        fputs("exited", l->out);
    else
        fputs("killed, crashed, or it executed another program", l->out);
}

static void print_events(const struct left *l, size_t i) {
    const char *trace = ct_json_find(l->summary[i], "trace");
    const int64_t events = ct_json_to_number(ct_json_find(trace, "events"));
    if (events >= 0)
        fprintf(l->out, "%s event%s, ", ct_human_count((uint64_t)events).text,
                ct_human_plural((uint64_t)events));
    print_end(l, i);
    if (!ct_json_is_null(ct_json_find(trace, "incomplete")))
        fputs("; the end of the trace is missing", l->out);
}

static void print_trace(const struct left *l, size_t i) {
    const char *path = l->list->traces[i];
    struct stat st;
    fputs("cutrace: ", l->out);
    print_path(l->out, path);
    if (stat(path, &st)) {
        fputs(": is not here any more (CUTRACE_KEEP, another container, or somebody removed it)\n",
              l->out);
        return;
    }
    fprintf(l->out, ": %s, ", ct_human_bytes((uint64_t)st.st_size, CT_UNITS_IEC).text);
    if (l->summary[i]) {
        print_events(l, i);
    } else {
        fputs(l->json ? "cannot be read; why: cutrace-report " : "read it with: cutrace-report ",
              l->out);
        print_word(l->out, path);
    }
    fputc('\n', l->out);
}

// The first verdict of all traces together, as cutrace-report shows it for them.
static const char *find_verdict(const struct left *l) {
    const char *document = ct_json_find(l->json, "processes");
    size_t read = 0;
    for (size_t i = 0; i < l->list->count; i++)
        if (l->summary[i]) {
            read++;
            document = ct_json_is_null(document) ? l->summary[i] : document;
        }
    return read ? ct_json_element(ct_json_find(document, "verdicts"), 0) : NULL;
}

// Prints a text of an object between two others; nothing where it is null.
static void print_text_of(const struct left *l, const char *object, const char *key,
                          const char *before, const char *after) {
    const char *value = ct_json_find(object, key);
    char text[500];
    if (ct_json_is_null(value))
        return;
    ct_json_to_text(value, text, sizeof text);
    fputs(before, l->out);
    ct_utf8_print_sanitized(l->out, text, strlen(text));
    fputs(after, l->out);
}

// The first advice, in the words of cutrace-report.
static void print_change(const struct left *l, const char *verdict) {
    const char *advice = ct_json_element(ct_json_find(verdict, "advice"), 0);
    if (ct_json_is_null(advice))
        return;
    const char *flag = ct_json_find(advice, "flag"), *from = ct_json_find(advice, "from");
    const int is_option = !ct_json_is_null(from) || (flag && flag[1] == '-');
    fputs("cutrace: change ", l->out);
    if (!ct_json_is_null(flag)) {
        print_text_of(l, advice, "flag", "", "");
        print_text_of(l, advice, "from", " ", "");
        print_text_of(l, advice, "to", is_option ? " -> " : "=", "");
        print_text_of(l, advice, "versions", " (", ")");
        fputs(": ", l->out);
    }
    print_text_of(l, advice, "text", "", "\n");
}

static void print_verdict(const struct left *l) {
    const char *verdict = find_verdict(l);
    char scenario[64], sureness[16], sentence[400];
    ct_json_to_text(ct_json_find(verdict, "scenario"), scenario, sizeof scenario);
    ct_json_to_text(ct_json_find(verdict, "sureness"), sureness, sizeof sureness);
    ct_json_to_text(ct_json_find(verdict, "summary"), sentence, sizeof sentence);
    if (!*scenario || (strcmp(scenario, "none") == 0 && l->status == 0))
        return;
    const int is_sure = strcmp(sureness, "null") != 0;
    fprintf(l->out, "cutrace: verdict %s%s%s: ", scenario, is_sure ? ", " : "",
            is_sure ? sureness : "");
    ct_utf8_print_sanitized(l->out, sentence, strlen(sentence));
    fputc('\n', l->out);
    print_change(l, verdict);
    fputs("cutrace: the evidence: cutrace-report", l->out);
    for (size_t i = 0; i < l->list->count; i++)
        if (l->summary[i]) {
            fputc(' ', l->out);
            print_word(l->out, l->list->traces[i]);
        }
    fputc('\n', l->out);
}

// Writes to standard error, but gives up on a pipe without a reader: the caller waits for us.
static void write_text(const char *text, size_t n) {
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    for (size_t at = 0; at < n;) {
        const size_t part = n - at < PIPE_BUF ? n - at : PIPE_BUF; // what a ready pipe has room for
        if (poll(&out, 1, 1000) != 1 || !(out.revents & POLLOUT))
            return;
        const ssize_t written = write(STDERR_FILENO, text + at, part);
        if (written <= 0)
            return;
        at += (size_t)written;
    }
}

static void print_all(struct left *l) {
    char *program = l->list->count ? find_report() : NULL;
    char *text = program ? ask(program, l) : NULL;
    l->json = text;
    if (!l->list->count)
        fputs("cutrace: no trace: no process used CUDA, or the library did not reach the one that "
              "did; cutrace doctor COMMAND tells which\n",
              l->out);
    for (size_t i = 0; i < l->list->count; i++)
        print_trace(l, i);
    if (text)
        print_verdict(l);
    free(text);
    free(program);
}

void ct_left_traces_print(const struct ct_trace_list *list, pid_t pid, int status) {
    char *text = NULL;
    size_t length = 0;
    struct left l = {.list = list, .pid = pid, .status = status};
    l.out = open_memstream(&text, &length);
    l.summary = calloc(list->count + 1, sizeof *l.summary);
    if (l.out && l.summary)
        print_all(&l);
    if (l.out && fclose(l.out) == 0)
        write_text(text, length);
    free(text);
    free(l.summary);
}
