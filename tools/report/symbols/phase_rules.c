// SPDX-License-Identifier: Apache-2.0
#include "symbols/phase_rules.h"

#include <string.h>

#include "base/heap.h"
#include "base/input_file.h"

// ---- the built-in rules -------------------------------------------------------------------------

// A path that has more parts than these, or a longer one, is compared by its last ones.
enum { MAX_PARTS = 16, MAX_PATH = 512 };

static const struct {
    enum { OWN, TORCH } allocator;
    const char *name, *title;
} frameworks[] = {
#define CT_FRAMEWORK(ID, ALLOCATOR, name, title) {ALLOCATOR, name, title},
#include "symbols/phases.def"
};

static const char *const components[] = {
#define CT_COMPONENT(ID, name, title) name,
#include "symbols/phases.def"
};

static const struct {
    enum ct_component component;
    const char *name, *title;
} phases[] = {
#define CT_PHASE(ID, COMPONENT, name, title) {CT_COMPONENT_##COMPONENT, name, title},
#include "symbols/phases.def"
};

const char *ct_framework_name(enum ct_framework f) {
    return frameworks[f].name;
}

const char *ct_framework_title(enum ct_framework f) {
    return frameworks[f].title;
}

int ct_framework_has_torch(enum ct_framework f) {
    return frameworks[f].allocator == TORCH;
}

const char *ct_phase_name(enum ct_phase p) {
    return phases[p].name;
}

const char *ct_phase_title(enum ct_phase p) {
    return phases[p].title;
}

int ct_phase_is_inner(enum ct_phase p) {
    return p == CT_PHASE_UNKNOWN || p == CT_PHASE_OTHER || p == CT_PHASE_FORWARD;
}

enum ct_component ct_phase_component(enum ct_phase p) {
    return phases[p].component;
}

const char *ct_component_name(enum ct_component c) {
    return components[c];
}

const struct ct_phase_rule *ct_phase_rules_list(size_t *count) {
    static const struct ct_phase_rule rules[] = {
#define CT_PHASE_RULE(PHASE, FRAMEWORK, BELOW, file, function, source) \
    {                                                                  \
        0,                                                             \
        {.phase = CT_PHASE_##PHASE},                                   \
        CT_FRAMEWORK_##FRAMEWORK,                                      \
        file,                                                          \
        function,                                                      \
        CT_PHASE_##BELOW,                                              \
        source},
#define CT_COMPONENT_RULE(COMPONENT, IN, file, function, source) \
    {1,                                                          \
     {.component = CT_COMPONENT_##COMPONENT},                    \
     CT_FRAMEWORK_NONE,                                          \
     file,                                                       \
     function,                                                   \
     CT_PHASE_##IN,                                              \
     source},
#include "symbols/phase_rules.def"
    };
    *count = sizeof rules / sizeof *rules;
    return rules;
}

// Whether a text is one of a pattern. Where the rest does not fit, the last star takes one byte
// more: without recursion.
static int fits(const char *pattern, const char *text, size_t length) {
    const char *star = NULL, *end = text + length, *again = text;
    while (text < end) {
        if (*pattern == '*') {
            star = pattern++;
            again = text;
        } else if (*pattern && *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++again;
        } else {
            return 0;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

int ct_phase_rule_fits_file(const struct ct_phase_rule *rule, const char *path, size_t length) {
    const size_t cut = length > MAX_PATH ? length - MAX_PATH : 0;
    size_t at = length;
    for (unsigned parts = 0; parts < MAX_PARTS; parts++) {
        while (at > cut && path[at - 1] != '/')
            at--;
        if (at == cut && cut)
            return 0; // the part began before
        if (fits(rule->file, path + at, length - at))
            return 1;
        if (!at)
            return 0;
        at--;
    }
    return 0;
}

int ct_phase_rule_fits_function(const struct ct_phase_rule *rule, const char *name, size_t length) {
    return fits(rule->function, name, length < MAX_PATH ? length : MAX_PATH);
}

// Phases that are only a frame around others.
static int is_around(enum ct_phase phase) {
    return phase == CT_PHASE_UNKNOWN || phase == CT_PHASE_OTHER || phase == CT_PHASE_TRAIN_OTHER;
}

int ct_phase_rule_leads_from(const struct ct_phase_rule *rule, enum ct_phase phase) {
    if (rule->below != CT_PHASE_UNKNOWN)
        return rule->below == phase;
    if (rule->phase == CT_PHASE_OTHER)
        return phase == CT_PHASE_UNKNOWN;
    return is_around(phase) && rule->phase != phase;
}

// ---- the user's file ----------------------------------------------------------------------------
// Reads rules of a user's file: a line is a row of phase_rules.def,
//
//   phase,warmup-sampler,vllm,warmup,vllm/v1/worker/gpu*.py,_dummy_sampler_run,where this is from
//   component,kv-cache,,kv-cache,my_server/cache.py,allocate,where this is from
//
// Of a phase, an empty fourth field is the outside of all phases; of a component, all of them. The
// last field may be left out. Empty lines, and those that begin with #, are skipped.

enum { FIELDS = 7, MAX_FILE = 1 << 20, MAX_RULES = 10000 };

enum field { KIND, TO, FRAMEWORK, BELOW, FILE_PATTERN, FUNCTION, SOURCE };

// What is being read, for messages.
struct place {
    const char *path;
    unsigned line;
    struct ct_error *error;
};

static int fail(const struct place *at, const char *what, const char *word) {
    return ct_error_set(at->error, CT_EXIT_USAGE, "%s:%u: %s '%.100s'", at->path, at->line, what,
                        word);
}

// The number of a name among `count`, or -1.
static int find_name(const char *name, const char *(*name_of)(unsigned), unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (strcmp(name_of(i), name) == 0)
            return (int)i;
    return -1;
}

static const char *name_framework(unsigned i) {
    return ct_framework_name((enum ct_framework)i);
}

static const char *name_phase(unsigned i) {
    return ct_phase_name((enum ct_phase)i);
}

static const char *name_component(unsigned i) {
    return ct_component_name((enum ct_component)i);
}

// Cuts a line at its commas; returns the number of fields. The last one has all that is left.
static unsigned split(char *line, char *field[FIELDS]) {
    unsigned n = 0;
    while (n < FIELDS) {
        line += strspn(line, " \t");
        field[n++] = line;
        char *comma = n < FIELDS ? strchr(line, ',') : NULL;
        char *end = comma ? comma : line + strlen(line);
        line = comma ? comma + 1 : NULL;
        while (end > field[n - 1] && strchr(" \t\r", end[-1]))
            end--;
        *end = 0;
        if (!line)
            break;
    }
    return n;
}

static int set_below(struct ct_phase_rule *rule, const struct place *at, const char *name) {
    const int below = find_name(name, name_phase, CT_PHASES);
    rule->below = rule->is_component ? CT_PHASE_ANY : CT_PHASE_UNKNOWN;
    if (!*name)
        return 0;
    if (below < 0)
        return fail(at, "unknown phase", name);
    rule->below = (enum ct_phase)below;
    return 0;
}

static int read_row(struct ct_phase_rule *rule, const struct place *at, char *line) {
    char *field[FIELDS];
    const unsigned n = split(line, field);
    if (n <= FUNCTION)
        return fail(at, "a rule has 6 or 7 fields, not those of", line);
    *rule = (struct ct_phase_rule){.is_component = strcmp(field[KIND], "component") == 0,
                                   .file = field[FILE_PATTERN],
                                   .function = field[FUNCTION],
                                   .source = n > SOURCE ? field[SOURCE] : ""};
    if (!rule->is_component && strcmp(field[KIND], "phase") != 0)
        return fail(at, "neither phase nor component:", field[KIND]);
    if (!*rule->file || !*rule->function)
        return fail(at, "an empty pattern (* is any) in the rule for", field[TO]);
    const int to = rule->is_component ? find_name(field[TO], name_component, CT_COMPONENTS)
                                      : find_name(field[TO], name_phase, CT_PHASES);
    const int framework = *field[FRAMEWORK]
                              ? find_name(field[FRAMEWORK], name_framework, CT_FRAMEWORKS)
                              : CT_FRAMEWORK_NONE;
    if (to < 0)
        return fail(at, rule->is_component ? "unknown component" : "unknown phase", field[TO]);
    if (framework < 0)
        return fail(at, "unknown framework", field[FRAMEWORK]);
    if (rule->is_component)
        rule->component = (enum ct_component)to;
    else
        rule->phase = (enum ct_phase)to;
    rule->framework = (enum ct_framework)framework;
    return set_below(rule, at, field[BELOW]);
}

static int read_lines(struct ct_phase_rules *r, struct place *at) {
    char *next = NULL;
    for (char *line = r->text; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        at->line++;
        line += strspn(line, " \t\r");
        if (!*line || *line == '#')
            continue;
        if (r->count == MAX_RULES)
            return fail(at, "too many rules, from here on:", line);
        CT_HEAP_GROW(r->list, r->count, r->room);
        if (read_row(&r->list[r->count], at, line))
            return -1;
        r->count++;
    }
    return 0;
}

int ct_phase_rules_read(struct ct_phase_rules *r, const char *path, struct ct_error *error) {
    struct place at = {.path = path, .error = error};
    const char *why;
    FILE *in = ct_input_file_open_stream(path, &why);
    *r = (struct ct_phase_rules){.text = ct_heap_alloc_zeroed(MAX_FILE + 1, 1)};
    if (!in)
        return ct_error_set(error, CT_EXIT_USAGE, "%s: cannot be opened: %s", path, why);
    const size_t n = fread(r->text, 1, MAX_FILE, in);
    const int failed = ferror(in), more = n == MAX_FILE && getc(in) != EOF;
    (void)fclose(in);
    if (failed || more)
        return ct_error_set(error, CT_EXIT_USAGE, "%s: %s", path,
                            failed ? "cannot be read" : "larger than 1 MiB");
    if (strlen(r->text) != n)
        return ct_error_set(error, CT_EXIT_USAGE, "%s: not a text", path);
    return read_lines(r, &at);
}

void ct_phase_rules_free(struct ct_phase_rules *r) {
    free(r->list);
    free(r->text);
    *r = (struct ct_phase_rules){0};
}
