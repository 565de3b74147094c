// SPDX-License-Identifier: Apache-2.0
// INFO pairs whose keys begin with a prefix, as lists of names and values. In the definitions a
// later pair has replaced an earlier one with its key.
#include "read/facts.h"

#include <cutrace/format/cli_flags.h>

#include "base/heap.h"
#include "base/version_order.h"

// A recorder writes some hundred; a stranger's trace may have any number.
enum { MOST = 4096 };

static struct ct_fact *find(const struct ct_fact_list *facts, const char *name) {
    for (size_t i = 0; i < facts->count; i++)
        if (strcmp(facts->list[i].name, name) == 0)
            return &facts->list[i];
    return NULL;
}

static const char *find_value(const struct ct_fact_list *facts, const char *name) {
    const struct ct_fact *fact = find(facts, name);
    return fact ? fact->value : NULL;
}

// Takes over `name`.
static void add(struct ct_fact_list *facts, char *name, const char *at, size_t n) {
    if (facts->count == MOST) {
        free(name);
        return;
    }
    CT_HEAP_GROW(facts->list, facts->count, facts->cap);
    facts->list[facts->count++] = (struct ct_fact){.name = name, .value = ct_heap_copy(at, n)};
}

// Adds a fact, or replaces its value.
static void put(struct ct_fact_list *facts, const char *name, const char *at, size_t n) {
    struct ct_fact *fact = find(facts, name);
    if (!fact) {
        add(facts, ct_heap_copy(name, strlen(name)), at, n);
        return;
    }
    free(fact->value);
    fact->value = ct_heap_copy(at, n);
}

// The part of a key after its prefix; NULL: it has another one, or a NUL.
static char *copy_name(const struct ct_string *key, const char *prefix) {
    const size_t n = strlen(prefix);
    if (key->length <= n || memcmp(key->at, prefix, n) != 0 || memchr(key->at, 0, key->length))
        return NULL;
    return ct_heap_copy(key->at + n, key->length - n);
}

static int ends(const char *text, const char *end) {
    const size_t n = strlen(text), k = strlen(end);
    return n > k && strcmp(text + n - k, end) == 0;
}

// ---- flags --------------------------------------------------------------------------------------

static void add_argument(void *facts, const struct ct_cli_flag *flag, struct ct_cli_text value) {
    put(facts, flag->name, value.at, value.n);
}

// process.argv is one line. Recorders of before there was flag.* kept aliases of one letter of any
// program.
static void read_arguments(struct ct_facts *f, const struct ct_definitions *n) {
    const struct ct_string *line = ct_definitions_info(n, "process.argv");
    const struct ct_cli_sink sink = {.found = add_argument, .user = &f->flags, .letters = 1};
    if (line)
        ct_cli_read((struct ct_cli_arguments){line->at, line->at + line->length, ' '}, &sink);
}

// ---- all ----------------------------------------------------------------------------------------

static void add_pair(struct ct_facts *f, const struct ct_string *key,
                     const struct ct_string *value) {
    static const char *const prefixes[] = {"flag.", "version.", "process.env."};
    struct ct_fact_list *const lists[] = {&f->flags, &f->versions, &f->environment};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char *name = copy_name(key, prefixes[i]);
        if (name && (lists[i] != &f->flags || !ends(name, ".from")))
            add(lists[i], name, value->at, value->length);
        else
            free(name);
    }
}

void ct_facts_read(struct ct_facts *f, const struct ct_definitions *n) {
    *f = (struct ct_facts){0};
    for (size_t i = 1; i < n->info_count; i++)
        add_pair(f, &n->strings[n->info[i].key], &n->strings[n->info[i].value]);
    if (!f->flags.count)
        read_arguments(f, n);
    const struct ct_string *torch = ct_definitions_info(n, "torch.version"),
                           *program = ct_definitions_info(n, "process.program");
    if (torch) // of the copy whose allocator reports blocks
        put(&f->versions, "torch", torch->at, torch->length);
    if (program)
        f->program = ct_heap_copy(program->at, program->length);
    (void)ct_definitions_info_number(n, "process.exit_status", &f->exit_status);
}

static void free_facts(struct ct_fact_list *facts) {
    for (size_t i = 0; i < facts->count; i++) {
        free(facts->list[i].name);
        free(facts->list[i].value);
    }
    free(facts->list);
}

void ct_facts_free(struct ct_facts *f) {
    free_facts(&f->flags);
    free_facts(&f->versions);
    free_facts(&f->environment);
    free(f->program);
    *f = (struct ct_facts){0};
}

// ---- questions ----------------------------------------------------------------------------------

const char *ct_facts_find_flag(const struct ct_facts *f, const char *name) {
    return find_value(&f->flags, name);
}

int ct_facts_has_all_flags(const struct ct_facts *f) {
    for (size_t i = 0; f->program && i < CT_CLI_PROGRAMS; i++)
        if (strcmp(f->program, ct_cli_programs[i].name) == 0)
            return ct_cli_programs[i].kind == CT_CLI_SERVER && !ct_facts_find_flag(f, "config");
    return 0;
}

const char *ct_facts_find_version(const struct ct_facts *f, const char *package) {
    return find_value(&f->versions, package);
}

int ct_facts_has_version(const struct ct_facts *f, const char *package, const char *least) {
    const char *version = ct_facts_find_version(f, package);
    int order;
    if (!version || ct_version_order(version, least, &order))
        return -1;
    return order >= 0;
}

const char *ct_facts_find_variable(const struct ct_facts *f, const char *name) {
    return find_value(&f->environment, name);
}
