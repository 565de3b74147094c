// SPDX-License-Identifier: Apache-2.0
// Looks native frames up in the debug information of their modules.
#include "symbols/source_locations.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/heap.h"

// ---- a reader in a process of its own -----------------------------------------------------------
// Which files are read is up to the trace, and what libdw makes of a forged one may be its end:
// then the lines of that module are lost, and nothing else.
//
// The answers lie in memory that the processes share, so that those are there that came before the
// end. Where it ended is the module whose file did it: another process goes on after that.

// Bounds for malicious files.
#define MOST_MEMORY ((rlim_t)16 << 30) // of a process
enum {
    MOST_ANSWERS = 256 << 20, // bytes
    MOST_SECONDS = 100,       // of a processor, of a process
    MOST_ENDED = 4,           // processes
    MODULE_PATH = 4096,
};

// A place in the code whose lines are asked for.
struct query {
    uint32_t module;
    uint64_t offset;
};

// Is shared. Each answer is the number of locations; of each one function, file (a text each: its
// length + 1, its bytes and a 0; of none a 0) and line.
struct answers {
    _Atomic uint32_t next; // the query in work
    uint32_t used;
    uint8_t bytes[MOST_ANSWERS];
};

struct lines {
    const struct ct_definitions *names;
    struct query *queries; // sorted, each once
    uint32_t count;
    struct answers *answers;
    uint32_t *at;   // of each query: its answer's place in `bytes`, + 1; 0: there is none
    uint8_t *found; // of each module: enum ct_debug_found
    struct ct_dwarf_location places[CT_MAX_SOURCE_LOCATIONS];
};

// ---- queries ------------------------------------------------------------------------------------

static int compare_queries(const void *a, const void *b) {
    const struct query *x = a, *y = b;
    if (x->module != y->module)
        return x->module < y->module ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// The path of a module, if it can be one of a file.
static const char *get_path(const struct ct_definitions *n, uint32_t module, char to[MODULE_PATH]) {
    const struct ct_string *name = &n->strings[n->modules[module].path];
    if (!module || name->length >= MODULE_PATH || memchr(name->at, 0, name->length))
        return NULL;
    memcpy(to, name->at, name->length);
    to[name->length] = 0;
    return to;
}

static void collect_queries(struct lines *l) {
    const struct ct_definitions *n = l->names;
    struct query *q = l->queries = ct_heap_resize(NULL, n->frame_count, sizeof *q);
    char path[MODULE_PATH];
    uint32_t count = 0;
    for (size_t i = 1; i < n->frame_count; i++) {
        const struct ct_frame *f = &n->frames[i];
        if (f->kind == CT_FRAME_NATIVE && !f->location_count && f->offset &&
            get_path(n, f->module, path))
            q[count++] = (struct query){f->module, f->offset};
    }
    if (count)
        qsort(q, count, sizeof *q, compare_queries);
    for (uint32_t i = 0; i < count; i++)
        if (!l->count || compare_queries(&q[l->count - 1], &q[i]))
            q[l->count++] = q[i];
}

// ---- the process that reads ---------------------------------------------------------------------

#ifdef CT_HAVE_LIBDW

static struct ct_dwarf_file *open_module(struct lines *l, struct ct_dwarf *dwarf, uint32_t module) {
    const struct ct_string *id = &l->names->modules[module].build_id;
    char path[MODULE_PATH];
    const struct ct_debug_module wanted = {get_path(l->names, module, path),
                                           (const uint8_t *)id->at, id->length};
    struct ct_dwarf_file *f = ct_dwarf_file(dwarf, &wanted);
    l->found[module] = (uint8_t)ct_dwarf_found(f);
    return f;
}

static void put_text(struct ct_out *o, const char *text) {
    const size_t n = text ? strlen(text) : 0;
    const int is_put = n && n <= CT_MAX_STRING;
    ct_put_varint(o, is_put ? n + 1 : 0);
    if (is_put)
        ct_put_bytes(o, text, n + 1);
}

static void put_answer(struct lines *l, uint32_t query, const struct ct_dwarf_location *p,
                       size_t n) {
    struct answers *a = l->answers;
    struct ct_out o = {a->bytes + a->used, a->bytes + sizeof a->bytes, 0};
    ct_put_varint(&o, n);
    for (size_t i = 0; i < n; i++) {
        put_text(&o, p[i].function);
        put_text(&o, p[i].file);
        ct_put_varint(&o, p[i].line);
    }
    if (o.bad)
        _exit(CT_EXIT_MEMORY);
    l->at[query] = a->used + 1;
    a->used = (uint32_t)(o.at - a->bytes);
}

static void answer(struct lines *l, const struct ct_debug_search *search) {
    struct ct_dwarf *dwarf = ct_dwarf_open(search);
    struct ct_dwarf_file *file = NULL;
    uint32_t module = 0;
    for (uint32_t i = l->answers->next; i < l->count; l->answers->next = ++i) {
        const struct query *q = &l->queries[i];
        const struct ct_dwarf_location *p;
        if (q->module != module)
            file = open_module(l, dwarf, module = q->module);
        // The pc is a return address: look up the call instruction before it.
        const size_t n = ct_dwarf_find_locations(dwarf, file, q->offset - 1, &p);
        if (n)
            put_answer(l, i, p, n);
    }
}

#else

static void answer(struct lines *l, const struct ct_debug_search *search) {
    (void)l, (void)search;
}

#endif

static void lower_limit(__rlimit_resource_t what, rlim_t most) {
    struct rlimit limit;
    if (getrlimit(what, &limit) || limit.rlim_cur <= most)
        return;
    limit.rlim_cur = most;
    (void)setrlimit(what, &limit);
}

// Whatever ends it, what the other process has begun is not ended by this one: its output, its
// temporary files.
static void leave(void) {
    _exit(CT_EXIT_MEMORY);
}

static _Noreturn void run(struct lines *l, const struct ct_debug_search *search) {
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)atexit(leave);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    lower_limit(RLIMIT_CORE, 0);
    lower_limit(RLIMIT_CPU, MOST_SECONDS);
#ifndef __SANITIZE_ADDRESS__ // (which takes more for itself)
    lower_limit(RLIMIT_AS, MOST_MEMORY);
#endif
    if (nothing >= 0)
        (void)dup2(nothing, STDERR_FILENO); // the other process says what is to be said
    answer(l, search);
    _exit(CT_EXIT_OK);
}

// ---- the process that asks ----------------------------------------------------------------------

static void *share(size_t count, size_t size) {
    void *p = mmap(NULL, count * size + 1, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        ct_heap_exhausted();
    return p;
}

// Returns 0 if a process could be made. It has ended.
static int run_once(struct lines *l, const struct ct_debug_search *search) {
    const pid_t child = fork();
    if (child == 0)
        run(l, search);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return child > 0 ? 0 : -1;
}

// Passes over the module of a query. Returns the first query of the next one.
static uint32_t pass_module(struct lines *l, uint32_t query) {
    const uint32_t module = l->queries[query].module;
    l->found[module] = CT_DEBUG_ENDED;
    while (query < l->count && l->queries[query].module == module)
        query++;
    return query;
}

static void read_all(struct lines *l, const struct ct_debug_search *search) {
    uint32_t next = 0;
    for (int i = 0; next < l->count && i < MOST_ENDED; i++) {
        const uint32_t from = next;
        l->answers->next = from;
        if (run_once(l, search))
            break;
        next = l->answers->next;
        if (next < l->count)
            next = pass_module(l, next < from ? from : next);
    }
    while (next < l->count)
        next = pass_module(l, next);
}

// Reads the lines of all frames that have none yet. `names` must last.
static struct lines *lines_read(const struct ct_definitions *names,
                                const struct ct_debug_search *search) {
    struct lines *l = ct_heap_alloc_zeroed(1, sizeof *l);
    l->names = names;
    collect_queries(l);
    l->answers = share(1, sizeof *l->answers);
    l->at = share(l->count, sizeof *l->at);
    l->found = share(names->module_count, sizeof *l->found);
    for (uint32_t i = 0; i < l->count; i++)
        l->found[l->queries[i].module] = ct_libdw_missing() ? CT_DEBUG_NO_READER : CT_DEBUG_NO_ID;
    if (l->count && !ct_libdw_missing())
        read_all(l, search);
    return l;
}

// Returns NULL for none; what is not whole is none.
static const char *get_text(struct ct_in *in) {
    const uint64_t n = ct_get_varint(in);
    const char *text = n ? (const char *)ct_get_bytes(in, n) : NULL;
    return text && !text[n - 1] ? text : NULL;
}

// The locations of the code before a return address (the call), innermost first. Returns their
// number; they are valid until the next call, and their texts until lines_free.
static size_t lines_find(struct lines *l, uint32_t module, uint64_t offset,
                         const struct ct_dwarf_location **locations) {
    const struct query wanted = {module, offset};
    const struct query *q =
        l->count ? bsearch(&wanted, l->queries, l->count, sizeof wanted, compare_queries) : NULL;
    const uint32_t at = q ? l->at[q - l->queries] : 0;
    if (!at || at > MOST_ANSWERS)
        return 0;
    struct ct_in in = {l->answers->bytes + at - 1, l->answers->bytes + MOST_ANSWERS, 0};
    const uint64_t n = ct_get_varint(&in);
    if (n > CT_MAX_SOURCE_LOCATIONS)
        return 0;
    for (uint64_t i = 0; i < n; i++) {
        l->places[i].function = get_text(&in);
        l->places[i].file = get_text(&in);
        l->places[i].line = ct_get_varint(&in);
    }
    *locations = l->places;
    return in.bad ? 0 : (size_t)n;
}

// Whether a module has frames that lack lines, and a path to look for them.
static int lines_asks(const struct lines *l, uint32_t module) {
    return l->found[module] != CT_DEBUG_NOT_ASKED;
}

// Why such a module has no lines, or NULL.
static const char *lines_why_none(const struct lines *l, uint32_t module) {
    static const char *const why[] = {
        [CT_DEBUG_NO_ID] = "the trace has no build-id of it",
        [CT_DEBUG_NOT_HERE] = "its file is not here",
        [CT_DEBUG_ANOTHER] = "the file that is here is another one: its build-id differs",
        [CT_DEBUG_NONE_IN_IT] = "has no debug information, and none was found beside it",
        [CT_DEBUG_ENDED] = "its debug information ended the process that read it",
    };
    const uint8_t found = l->found[module]; // (a forged file may have made it any number)
    if (found == CT_DEBUG_NO_READER)
        return ct_libdw_missing();
    return found < sizeof why / sizeof *why ? why[found] : NULL;
}

// The modules whose debug information ended its reader, and the first of them.
static size_t lines_count_ended(const struct lines *l, uint32_t *first) {
    size_t n = 0;
    *first = 0;
    for (size_t i = l->names->module_count; i-- > 1;) {
        if (l->found[i] != CT_DEBUG_ENDED)
            continue;
        *first = (uint32_t)i;
        n++;
    }
    return n;
}

static void lines_free(struct lines *l) {
    (void)munmap(l->answers, sizeof *l->answers + 1);
    (void)munmap(l->at, l->count * sizeof *l->at + 1);
    (void)munmap(l->found, l->names->module_count * sizeof *l->found + 1);
    free(l->queries);
    free(l);
}

// ---- the frames of a trace ----------------------------------------------------------------------

static int warn(const struct ct_definitions *n, const char *name, const struct lines *l,
                struct ct_error *warning) {
    uint32_t module;
    const size_t ended = lines_count_ended(l, &module);
    if (!ended)
        return 0;
    const struct ct_string *path = &n->strings[n->modules[module].path];
    return ct_error_set(warning, CT_EXIT_OK,
                        "%.200s: source lines of %zu module%s are missing: of %.*s, %s", name,
                        ended, ended == 1 ? "" : "s", path->length < 200 ? (int)path->length : 200,
                        path->at, lines_why_none(l, module));
}

struct count {
    uint64_t frames, with_lines;
};

// Adds the locations of all frames; counts by module those that can have some.
static void add_locations(struct ct_definitions *n, struct lines *l, struct count *modules) {
    for (size_t i = 1; i < n->frame_count; i++) {
        const struct ct_frame *f = &n->frames[i];
        const struct ct_dwarf_location *p;
        if (f->kind != CT_FRAME_NATIVE || f->location_count || !f->offset ||
            !lines_asks(l, f->module))
            continue;
        const size_t count = lines_find(l, f->module, f->offset, &p);
        modules[f->module].frames++;
        modules[f->module].with_lines += count > 0;
        for (size_t k = 0; k < count; k++)
            ct_definitions_add_location(n, (uint32_t)i, p[k].function, p[k].file, p[k].line);
    }
}

static void note_module(struct ct_source_locations *found, struct ct_string path,
                        const struct count *c, const char *why) {
    char *copy = ct_heap_resize(NULL, path.length, 1);
    if (path.length)
        memcpy(copy, path.at, path.length);
    found->modules[found->module_count++] =
        (struct ct_module_without_lines){{copy, path.length}, c->frames - c->with_lines, why};
}

static void note_modules(struct ct_source_locations *found, const struct ct_definitions *n,
                         const struct lines *l, const struct count *modules) {
    *found = (struct ct_source_locations){
        .modules = ct_heap_alloc_zeroed(n->module_count, sizeof *found->modules)};
    for (size_t i = 1; i < n->module_count; i++) {
        const struct count *c = &modules[i];
        found->frames += c->frames;
        found->with_lines += c->with_lines;
        if (c->with_lines < c->frames)
            note_module(found, n->strings[n->modules[i].path], c, lines_why_none(l, (uint32_t)i));
    }
}

int ct_source_locations_look_up(struct ct_definitions *n, const char *name,
                                const struct ct_debug_search *search,
                                struct ct_source_locations *found, struct ct_error *warning) {
    struct lines *l = lines_read(n, search);
    struct count *modules = ct_heap_alloc_zeroed(n->module_count, sizeof *modules);
    add_locations(n, l, modules);
    if (found)
        note_modules(found, n, l, modules);
    const int rc = warn(n, name, l, warning);
    free(modules);
    lines_free(l);
    return rc;
}

void ct_source_locations_free(struct ct_source_locations *found) {
    for (size_t i = 0; i < found->module_count; i++)
        free((char *)found->modules[i].path.at);
    free(found->modules);
    *found = (struct ct_source_locations){0};
}
