// SPDX-License-Identifier: Apache-2.0
#include "diagnose/rules.h"

#include <cutrace/format/assert.h>
#include <inttypes.h>
#include <stddef.h>

#include "base/heap.h"
#include "base/human.h"

// ---- the tables ---------------------------------------------------------------------------------

// Of an error's line: that it says so, the message of memory that ran out, and what the kernel says
// that a process held when it ended it.
#define CT_SAYS_SO                                                                          \
    "line <line:int> says so\n@oom\n"                                                       \
    "the process held <rss:bytes!> of anonymous and <shmem:bytes> of shared memory, which " \
    "page-locked memory is part of"

// Of a call site that grows.
#define CT_LOOK_AT_SITE                                                                             \
    "look at what the call site keeps: cutrace-report leaks shows its stack; no setting helps for " \
    "long"

// Of a snapshot: its request, and PyTorch's pool then.
#define CT_SNAPSHOT_REQUEST                                                                      \
    "entry <entry:int> of its history, at <when:word>: asked for <tried:bytes!>[; <free:bytes> " \
    "was free on the device]\n@phase\n"
#define CT_SNAPSHOT_POOL                                                                          \
    "PyTorch held <reserved:bytes!> in <segments:count> segment<segments:-s> <place:word>: "      \
    "<allocated:bytes> in blocks, <unallocated:bytes> idle, of which the largest free block had " \
    "<largest:bytes>\n"

static const struct {
    enum ct_scenario scenario;
    double confidence;
    const char *summary, *evidence, *advice, *refuted_by;
} rules[] = {
#define CT_RULE(ID, SCENARIO, confidence, summary, evidence, advice, refuted_by) \
    {CT_SCENARIO_##SCENARIO, confidence, summary, evidence, advice, refuted_by},
#include "diagnose/rules.def"
};

static const struct {
    enum ct_phase phase;
    enum ct_scenario scenario;
    const char *summary;
} of_phase[] = {
#define CT_PHASE_RULE(PHASE, SCENARIO, summary) {CT_PHASE_##PHASE, CT_SCENARIO_##SCENARIO, summary},
#include "diagnose/rules.def"
};

static const struct {
    enum ct_component component;
    enum ct_scenario scenario;
    const char *summary;
} of_component[] = {
#define CT_COMPONENT_RULE(COMPONENT, SCENARIO, summary) \
    {CT_COMPONENT_##COMPONENT, CT_SCENARIO_##SCENARIO, summary},
#include "diagnose/rules.def"
};

static const struct {
    const char *name;
    size_t offset;
    int is_word;
} figures[] = {
#define CT_TEXT_FIELD(ID, name) {#name, offsetof(struct ct_figures, name), 0},
#include "text/fields.def"
#define CT_FIGURE(name) {#name, offsetof(struct ct_figures, name), 0},
#define CT_WORD(name) {#name, offsetof(struct ct_figures, name), 1},
#include "diagnose/figures.def"
};
enum { FIGURES = sizeof figures / sizeof *figures };

void ct_figures_clear(struct ct_figures *f) {
    *f = (struct ct_figures){0};
    for (size_t i = 0; i < FIGURES; i++)
        if (!figures[i].is_word)
            *(int64_t *)(void *)((char *)f + figures[i].offset) = -1;
}

// ---- sentences ----------------------------------------------------------------------------------

struct sentence {
    const struct ct_figures *figures;
    int64_t bytes; // of the field with "!"; -1: there is none
};

// The bracket that closes the one at `t`.
static const char *find_close(const char *t) {
    const char open = *t, close = open == '[' ? ']' : open == '{' ? '}' : '>';
    for (int depth = 0;; t++) {
        depth += (*t == open) - (*t == close);
        if (!depth)
            return t;
    }
}

static void write_number(FILE *out, const char *type, int64_t v) {
    switch (*type) {
    case 'b': // bytes
        (void)fputs(ct_iec((uint64_t)v).text, out);
        break;
    case 'c': // count
        (void)fputs(ct_human_count((uint64_t)v).text, out);
        break;
    case 's': // share
    case 'p': // percent
        (void)fprintf(out, *type == 's' ? "%.2f" : "%.1f", (double)v / 1000000);
        break;
    case '-': // the ending of a noun after the number
        (void)fprintf(out, "%.*s", v == 1 ? 0 : (int)strcspn(type + 1, ">"), type + 1);
        break;
    default:
        (void)fprintf(out, "%" PRId64, v);
    }
}

// Each of these returns whether what it writes is known. `out`: NULL: only that.

// Writes "<name:type>".
static int write_field(struct sentence *s, const char *field, const char *close, FILE *out) {
    const size_t n = strcspn(field + 1, ":");
    size_t i = 0;
    while (i < FIGURES && (strlen(figures[i].name) != n || memcmp(figures[i].name, field + 1, n)))
        i++;
    CT_ASSERT(i < FIGURES);
    const void *member = (const char *)s->figures + figures[i].offset;
    const char *word = figures[i].is_word ? *(const char *const *)member : NULL;
    const int64_t v = figures[i].is_word ? (word ? 0 : -1) : *(const int64_t *)member;
    if (!out || v < 0)
        return v >= 0;
    if (word)
        (void)fputs(word, out);
    else
        write_number(out, field + n + 2, v);
    if (close[-1] == '!')
        s->bytes = v;
    return 1;
}

static int write_one_of(struct sentence *s, const char *t, const char *end, FILE *out);

// All fields have to be known that do not stand in a part. (recursion: as deep as the brackets of
// our own sentences are nested)
static int write_text(struct sentence *s, const char *t, const char *end, FILE *out) {
    int known = 1;
    for (; t < end && known; t++) {
        const char *close = strchr("<[{", *t) ? find_close(t) : t;
        if (*t == '<')
            known = write_field(s, t, close, out);
        else if (close != t && out)
            (void)write_one_of(s, t + 1, close, out);
        else if (close == t && out)
            (void)fputc(*t, out);
        t = close;
    }
    return known;
}

// Writes the first of "a|b" of which all fields are known.
static int write_one_of(struct sentence *s, const char *t, const char *end, FILE *out) {
    while (t <= end) {
        const char *bar = t;
        for (; bar < end && *bar != '|'; bar++)
            if (strchr("<[{", *bar))
                bar = find_close(bar);
        if (write_text(s, t, bar, NULL))
            return !out || write_text(s, t, bar, out);
        t = bar + 1;
    }
    return 0;
}

// Returns the text of a sentence, to be freed; NULL: not all that it names is known. *bytes: as in
// struct sentence.
static char *make_text(const struct ct_figures *f, const char *t, const char *end, int64_t *bytes) {
    struct sentence s = {.figures = f, .bytes = -1};
    char *text = NULL;
    size_t size = 0;
    if (!write_one_of(&s, t, end, NULL))
        return NULL;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        ct_heap_exhausted();
    (void)write_one_of(&s, t, end, out);
    if (fclose(out))
        ct_heap_exhausted();
    *bytes = s.bytes;
    return text;
}

// ---- verdicts -----------------------------------------------------------------------------------

static void run_step(const struct ct_rule_source *s, struct ct_verdict *v, const char *name,
                     const char *end) {
    const struct ct_rule_step *step = s->steps;
    const size_t n = (size_t)(end - name);
    while (step && step->name && (strlen(step->name) != n || memcmp(step->name, name, n) != 0))
        step++;
    if (!step)
        return;
    CT_ASSERT(step->name);
    step->run(s->self, v);
}

// Adds sentences as advice, or as evidence.
static void add(const struct ct_rule_source *s, struct ct_verdict *v, const char *t,
                int is_advice) {
    for (const char *end; t && *t; t = *end ? end + 1 : end) {
        int64_t bytes;
        end = t + strcspn(t, "\n");
        if (*t == '@') {
            run_step(s, v, t + 1, end);
            continue;
        }
        char *text = make_text(s->figures, t, end, &bytes);
        if (!text)
            continue;
        if (is_advice)
            (void)ct_verdict_add_advice(v, "%s", text);
        else {
            struct ct_evidence *e = s->is_event
                                        ? ct_verdict_add_event(v, s->event, s->t_ns, "%s", text)
                                        : ct_verdict_add_text(v, "%s", text);
            if (bytes >= 0)
                ct_evidence_set_bytes(e, (uint64_t)bytes);
        }
        free(text);
    }
}

void ct_rule_say(const struct ct_rule_source *s, struct ct_verdict *v, const char *sentences) {
    add(s, v, sentences, 0);
}

void ct_rule_advise(const struct ct_rule_source *s, struct ct_verdict *v, const char *sentences) {
    add(s, v, sentences, 1);
}

struct ct_verdict *ct_rule_add_as(const struct ct_rule_source *s, enum ct_rule rule,
                                  enum ct_scenario scenario, double confidence,
                                  const char *summary) {
    struct ct_verdict *v = ct_verdicts_add(s->to, scenario, confidence, s->device, "%s", summary);
    const char *refuted_by = rules[rule].refuted_by;
    int64_t bytes;
    ct_rule_say(s, v, rules[rule].evidence);
    ct_rule_advise(s, v, rules[rule].advice);
    if (refuted_by)
        v->refuted_by = make_text(s->figures, refuted_by, refuted_by + strlen(refuted_by), &bytes);
    return v;
}

struct ct_verdict *ct_rule_add_sure(const struct ct_rule_source *s, enum ct_rule rule,
                                    double confidence) {
    return ct_rule_add_as(s, rule, rules[rule].scenario, confidence, rules[rule].summary);
}

struct ct_verdict *ct_rule_add(const struct ct_rule_source *s, enum ct_rule rule) {
    return ct_rule_add_sure(s, rule, rules[rule].confidence);
}

// ---- phases -------------------------------------------------------------------------------------

// A component makes the difference while a server serves and where no phase is known; an encoder's
// in the profile run, too, an adapter's while weights are loaded, and a draft model's in both.
static int counts(enum ct_phase phase, enum ct_scenario special) {
    switch (phase) {
    case CT_PHASE_SERVE:
    case CT_PHASE_SERVE_DUMMY:
        return 1;
    case CT_PHASE_PROFILE:
        return special == CT_SCENARIO_MULTIMODAL || special == CT_SCENARIO_SPECULATIVE;
    case CT_PHASE_WEIGHTS:
        return special == CT_SCENARIO_LORA || special == CT_SCENARIO_SPECULATIVE;
    default:
        return ct_phase_is_inner(phase);
    }
}

enum ct_scenario ct_component_scenario(enum ct_component component, const char **summary) {
    for (size_t i = 0; i < sizeof of_component / sizeof *of_component; i++)
        if (of_component[i].component == component) {
            *summary = of_component[i].summary;
            return of_component[i].scenario;
        }
    return CT_SCENARIO_UNKNOWN;
}

enum ct_scenario ct_phase_scenario(enum ct_phase phase, enum ct_component component,
                                   const char **summary) {
    const char *special_summary = NULL;
    const enum ct_scenario special = ct_component_scenario(component, &special_summary);
    if (special != CT_SCENARIO_UNKNOWN && counts(phase, special)) {
        *summary = special_summary;
        return special;
    }
    for (size_t i = 0; i < sizeof of_phase / sizeof *of_phase; i++)
        if (of_phase[i].phase == phase) {
            *summary = of_phase[i].summary;
            return of_phase[i].scenario;
        }
    return CT_SCENARIO_UNKNOWN;
}
