// SPDX-License-Identifier: Apache-2.0
#include "text/facts.h"

#include <string.h>

#include "base/heap.h"
#include "base/utf8.h"

// Facts of one kind that are kept; later ones are counted with the last of them. Clauses belong to
// an OOM within so many lines: other processes may write between them.
enum { KEPT = 24, CLAUSE_LINES = 60 };

void ct_text_facts_init(struct ct_text_facts *f) {
    *f = (struct ct_text_facts){.progress = CT_TEXT_KINDS};
    f->where.component = CT_COMPONENT_BY_PHASE;
    f->load.first_hits = f->load.last_hits = f->load.preemptions = f->load.last_running = -1;
    f->load.max_usage = f->load.max_waiting = f->load.max_running = -1;
}

void ct_text_facts_free(struct ct_text_facts *f) {
    free(f->list);
    free(f->stamps);
    *f = (struct ct_text_facts){0};
}

const struct ct_text_fact *ct_text_facts_find(const struct ct_text_facts *f,
                                              enum ct_text_kind kind) {
    for (size_t i = 0; i < f->count; i++)
        if (f->list[i].kind == kind)
            return &f->list[i];
    return NULL;
}

const struct ct_text_fact *ct_text_facts_find_role(const struct ct_text_facts *f,
                                                   enum ct_text_role role) {
    for (size_t i = 0; i < f->count; i++)
        if (ct_template_role(f->list[i].kind) == role)
            return &f->list[i];
    return NULL;
}

// ---- facts --------------------------------------------------------------------------------------

static int has_same_values(const struct ct_text_fact *a, const struct ct_text_fact *b) {
    for (int i = 0; i < CT_TEXT_FIELDS; i++)
        if (a->values[i].known != b->values[i].known || a->values[i].value != b->values[i].value)
            return 0;
    return 1;
}

static struct ct_text_fact *find_same(struct ct_text_facts *f, const struct ct_text_fact *fact) {
    for (size_t i = f->count; i-- > 0;)
        if (f->list[i].kind == fact->kind &&
            (f->kept[fact->kind] >= KEPT || has_same_values(&f->list[i], fact)))
            return &f->list[i];
    return NULL;
}

// Adds a fact, or counts it with one that says the same. Returns the one that is in the list. One
// that clauses may follow is only compared when these are known: it is never merged here.
static struct ct_text_fact *add(struct ct_text_facts *f, const struct ct_text_fact *fact,
                                int merges) {
    struct ct_text_fact *same = merges || f->kept[fact->kind] >= KEPT ? find_same(f, fact) : NULL;
    if (same) {
        same->repeats++;
        if (!ct_text_where_is_known(&same->where))
            same->where = fact->where;
        return same;
    }
    CT_HEAP_GROW(f->list, f->count, f->room);
    f->list[f->count] = *fact;
    f->list[f->count].repeats = 1;
    f->kept[fact->kind]++;
    return &f->list[f->count++];
}

// Where the frames so far, and lines that name a place, say that an error happened.
static struct ct_text_where find_where(const struct ct_text_facts *f, int is_reversed) {
    const struct ct_text_where w = ct_traceback_read(&f->traceback, is_reversed);
    return ct_text_where_is_known(&w) ? w : f->where;
}

static void set_place(const struct ct_text_facts *f, struct ct_text_fact *error, int is_reversed) {
    error->where = find_where(f, is_reversed);
    error->has_traceback |= f->traceback.seen != 0;
    if (!*error->place)
        memcpy(error->place, f->place, sizeof error->place);
}

static void forget_place(struct ct_text_facts *f) {
    f->traceback = (struct ct_traceback){0};
    f->where = (struct ct_text_where){.component = CT_COMPONENT_BY_PHASE};
    *f->place = 0;
}

// A traceback ends with its error. Where it follows it (also in a log whose newest line is the
// first one, in which "Traceback" comes last), the error that has no place yet takes it.
static void give_place(struct ct_text_facts *f, int is_reversed) {
    struct ct_text_fact *last = f->open ? &f->list[f->open - 1] : NULL;
    if (last && !ct_text_where_is_known(&last->where))
        set_place(f, last, is_reversed);
    if (last && f->traceback.seen)
        last->has_traceback = 1;
}

void ct_text_facts_end(struct ct_text_facts *f) {
    f->open = f->open ? f->open : f->waiting;
    give_place(f, 0);
}

static void add_error(struct ct_text_facts *f, const struct ct_text_fact *fact, int opens) {
    f->waiting = f->traceback.seen ? 0 : f->waiting;
    struct ct_text_fact *in_list = add(f, fact, !opens);
    f->open = (size_t)(in_list - f->list) + 1;
    f->open_line = fact->line;
    forget_place(f);
}

static struct ct_text_fact *find_open(struct ct_text_facts *f, uint64_t line) {
    return f->open && line - f->open_line <= CLAUSE_LINES ? &f->list[f->open - 1] : NULL;
}

static void add_clause(struct ct_text_facts *f, const struct ct_template_match *m, uint64_t line) {
    struct ct_text_fact *to = find_open(f, line);
    if (!to)
        return;
    if (m->kind == CT_TEXT_KIND_CLAUSE_PROCESS && to->process_count < CT_TEXT_PROCESSES)
        to->processes[to->process_count++] =
            (struct ct_text_process){m->values[CT_TEXT_PID].value, m->values[CT_TEXT_OTHER]};
    for (int i = 0; i < CT_TEXT_FIELDS; i++)
        if (m->values[i].known && !to->values[i].known)
            to->values[i] = m->values[i];
}

// ---- frames -------------------------------------------------------------------------------------

static int is_name_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The name that stands at `at`: with its class, where a point follows that.
static size_t measure_name(const char *text, size_t length, size_t at) {
    size_t n = 0;
    while (at + n < length && (is_name_letter(text[at + n]) || text[at + n] == '.'))
        n++;
    return n;
}

static size_t skip_blanks(const char *text, size_t length, size_t at) {
    while (at < length &&
           (text[at] == ' ' || text[at] == CT_TEXT_WRAP || text[at] == CT_TEXT_BREAK))
        at++;
    return at;
}

// The path that ends where ".py:12 in" begins; a box may have broken it.
static void read_path_before(const char *text, size_t at, char *to) {
    size_t from = at, n = 0;
    while (from && at - from < CT_TEXT_WORD_SIZE / 2 && text[from - 1] != ' ' &&
           text[from - 1] != CT_TEXT_BREAK)
        from--;
    for (; from < at; from++)
        if (text[from] != CT_TEXT_WRAP)
            to[n++] = text[from];
    memcpy(to + n, ".py", sizeof ".py");
}

static void add_frame(struct ct_text_facts *f, const char *text, size_t length, size_t begin,
                      const struct ct_template_match *m) {
    const size_t at = skip_blanks(text, length, m->end);
    f->has_frames = 1;
    char path[CT_TEXT_WORD_SIZE] = "";
    if (m->kind == CT_TEXT_KIND_FRAME && text[begin] == '.')
        read_path_before(text, begin, path);
    else if (m->kind == CT_TEXT_KIND_FRAME)
        memcpy(path, m->word, sizeof path);
    char *line = strstr(path, ".py:"); // (IPython's)
    if (line)
        line[3] = 0;
    ct_traceback_add(&f->traceback, path, text + at, measure_name(text, length, at));
}

static void add_method(struct ct_text_facts *f, const char *text, size_t length, size_t begin,
                       const struct ct_template_match *m) {
    add_frame(f, text, length, begin, m);
    give_place(f, 0);
}

static void add_where(struct ct_text_facts *f, const struct ct_template_match *m, uint64_t line) {
    struct ct_text_fact *last = find_open(f, line);
    f->where = ct_template_where(m->kind);
    if (*m->word)
        (void)ct_utf8_sanitize(f->place, sizeof f->place, m->word, strlen(m->word));
    if (m->kind == CT_TEXT_KIND_IN_ADDRESSES)
        (void)snprintf(f->place, sizeof f->place, "the reservation of addresses");
    if (last && !ct_text_where_is_known(&last->where))
        set_place(f, last, 0);
}

// ---- programs -----------------------------------------------------------------------------------

// The program that alone writes what a row of the tables is found by: its name begins the source.
static uint32_t find_program(const char *source) {
    if (strncmp(source, "torch", 5) == 0)
        return UINT32_C(1) << CT_FRAMEWORK_PYTORCH;
    for (int i = CT_FRAMEWORK_NONE + 1; i < CT_FRAMEWORKS; i++) {
        const char *title = ct_framework_title((enum ct_framework)i);
        if (strncmp(source, title, strlen(title)) == 0)
            return UINT32_C(1) << i;
    }
    return 0;
}

enum ct_framework ct_text_facts_program(const struct ct_text_facts *f) {
    for (int i = CT_FRAMEWORK_NONE + 1; i < CT_FRAMEWORKS; i++)
        if (f->programs >> i & 1)
            return (enum ct_framework)i;
    return CT_FRAMEWORK_NONE;
}

enum ct_framework ct_text_facts_program_at(const struct ct_text_facts *f,
                                           const struct ct_text_where *where) {
    const enum ct_framework program = ct_text_facts_program(f);
    const int is_open = !program || program == CT_FRAMEWORK_PYTORCH;
    return is_open && where->framework ? where->framework : program;
}

// ---- settings -----------------------------------------------------------------------------------

static int is_setting_letter(char c) {
    return is_name_letter(c) || c == '.' || c == '-';
}

static void add_setting(struct ct_text_facts *f, const char *text, size_t length, size_t at,
                        const struct ct_template_match *m, uint64_t line) {
    struct ct_text_setting *s = &f->settings[m->flag], read = {.line = line};
    const int is_switch = m->flag == CT_TEXT_FLAG_ENFORCE_EAGER;
    size_t from = m->end, n = 0;
    size_t before = at;
    while (before && text[before - 1] == ' ')
        before--;
    if ((at && is_name_letter(text[at - 1])) || (before && text[before - 1] == '/'))
        return; // the end of a longer name, or of a quotient
    if (is_switch && at >= 4 &&
        (!memcmp(text + at - 4, "set ", 4) || !memcmp(text + at - 4, "use ", 4)))
        return; // a hint of vLLM's
    while (from < length && text[from] == ' ')
        from++;
    size_t end = from;
    for (; end < length && n + 1 < sizeof read.value && is_setting_letter(text[end]); end++)
        read.value[n++] = text[end];
    while (n && read.value[n - 1] == '.')
        n--; // the end of a sentence
    read.value[n] = 0;
    end = from;
    if (!*read.value || !ct_template_read_number(text, length, &end, &read.number)) {
        if (!is_switch || strcmp(read.value, "False") == 0)
            return;
        memcpy(read.value, "True", 5);
    } else if (end < length && (text[end] == 'k' || text[end] == 'K')) {
        if (read.number.value < CT_TEXT_MOST / 1024) // (vLLM's 32k and 32K)
            read.number.value *= text[end] == 'k' ? 1000 : 1024;
    }
    f->programs |= find_program(m->source);
    if (!*s->value)
        *s = read;
}

// ---- a server's load ----------------------------------------------------------------------------

static void add_load(struct ct_text_facts *f, const struct ct_template_match *m, uint64_t line) {
    struct ct_text_load *l = &f->load;
    const int64_t usage = m->values[CT_TEXT_USAGE].value;
    const int64_t running = m->values[CT_TEXT_RUNNING].value;
    const int64_t waiting = m->values[CT_TEXT_WAITING].known ? m->values[CT_TEXT_WAITING].value : 0;
    if (!l->lines++)
        l->first_line = line;
    if (usage >= 90 * INT64_C(1000000) && waiting > 0) {
        l->full_lines++;
        l->shrinking_lines += l->last_running > running && l->last_running >= 0;
    }
    if (usage > l->max_usage) {
        l->max_usage = usage;
        l->worst_line = line;
    }
    l->max_waiting = waiting > l->max_waiting ? waiting : l->max_waiting;
    l->max_running = running > l->max_running ? running : l->max_running;
    l->last_running = running;
    if (m->values[CT_TEXT_HITS].known) {
        l->last_hits = m->values[CT_TEXT_HITS].value;
        if (l->first_hits < 0 && l->last_hits > 0)
            l->first_hits = l->last_hits;
    }
}

static void add_peak(struct ct_text_facts *f, int64_t mib, uint64_t line) {
    struct ct_text_peak *p = &f->peak;
    if (mib < 0 || mib > CT_TEXT_MOST >> 20)
        return;
    const int64_t bytes = mib << 20;
    if (!p->last_line || bytes <= p->last)
        *p = (struct ct_text_peak){.first = bytes, .first_line = line};
    else
        p->rises++;
    p->last = bytes;
    p->last_line = line;
}

static void add_stats(struct ct_text_facts *f, const struct ct_template_match *m, uint64_t line) {
    struct ct_text_load *l = &f->load;
    const struct ct_text_value *count = &m->values[CT_TEXT_COUNT];
    if (m->kind == CT_TEXT_KIND_PERIODIC)
        add_load(f, m, line);
    else if (m->kind == CT_TEXT_KIND_NO_EXPANDABLE)
        f->has_no_expandable = 1;
    else if (m->kind == CT_TEXT_KIND_PEAK)
        add_peak(f, m->values[CT_TEXT_IN_USE].value, line);
    if (count->known && count->value > l->preemptions)
        l->preemptions = count->value;
    if (m->kind == CT_TEXT_KIND_PREEMPTED || (count->known && count->value > 0)) {
        if (!l->preempted_line)
            l->preempted_line = line;
        l->preempted_lines += m->kind == CT_TEXT_KIND_PREEMPTED;
    }
}

// ---- matches ------------------------------------------------------------------------------------

static void add_step(struct ct_text_facts *f, const struct ct_template_match *m, uint64_t line) {
    if (m->kind == CT_TEXT_KIND_STEP)
        f->step = (struct ct_text_step){.line = line};
    else if (m->kind == CT_TEXT_KIND_STEP_REQUEST)
        f->step.requests++;
    else if (m->kind == CT_TEXT_KIND_STEP_TOKENS)
        f->step.tokens = m->values[CT_TEXT_TOKENS];
    else if (f->step.length_count < CT_TEXT_STEP_LENGTHS && m->values[CT_TEXT_TOKENS].value > 0)
        f->step.lengths[f->step.length_count++] = (uint64_t)m->values[CT_TEXT_TOKENS].value;
}

// The refusal before it is one that the program expected.
static void add_retry(struct ct_text_facts *f, uint64_t line) {
    struct ct_text_fact *last = find_open(f, line);
    if (last)
        last->kind = CT_TEXT_KIND_DRIVER_REFUSED;
    f->open = 0;
}

// An error before a traceback is not the one at its end; where none stands there, it may be that of
// the error just above, as loggers print it.
static void begin_traceback(struct ct_text_facts *f, uint64_t line) {
    give_place(f, 1);
    const struct ct_text_fact *last = find_open(f, line);
    f->waiting = last && !ct_text_where_is_known(&last->where) ? f->open : 0;
    forget_place(f);
    f->open = 0;
}

// What a tensor takes whose shape and type are named.
static void set_tensor(struct ct_text_fact *fact) {
    const struct ct_text_value *shape = &fact->values[CT_TEXT_SHAPE],
                               *width = &fact->values[CT_TEXT_WIDTH];
    int64_t bytes;
    if (shape->known && width->known &&
        !__builtin_mul_overflow(shape->value, width->value, &bytes) && bytes < CT_TEXT_MOST)
        fact->values[CT_TEXT_TRIED] = (struct ct_text_value){1, bytes, 1};
}

// Whether one of the words, NULL-terminated, stands in [from, to).
static int has_word(const char *text, size_t from, size_t to, const char *const *words) {
    for (; from < to; from++)
        for (const char *const *w = words; *w; w++)
            if (to - from >= strlen(*w) && !strncasecmp(text + from, *w, strlen(*w)))
                return 1;
    return 0;
}

// Whether a call of a driver stands in [from, to), as cuStreamCreate or hipMalloc.
static int has_call(const char *text, size_t from, size_t to) {
    for (; from + 3 < to; from++) {
        const size_t prefix = !strncasecmp(text + from, "cu", 2)    ? 2
                              : !strncasecmp(text + from, "hip", 3) ? 3
                                                                    : 0;
        if (prefix && text[from + prefix] >= 'A' && text[from + prefix] <= 'Z')
            return 1;
    }
    return 0;
}

// Words in [at, end), the first of their kind in a line of which no row knows a sentence. It may be
// prose: clauses and tracebacks stay with the errors that are known.
static void add_words(struct ct_text_facts *f, const char *text, size_t length, size_t at,
                      size_t end, struct ct_text_fact *fact) {
    static const char *const gpu[] = {"cuda", "gpu", "rocm", "vram", "accelerator", NULL},
                             *const pinned[] = {"pinned",    "pin_memory", "HostRegister",
                                                "HostAlloc", "HostMalloc", NULL},
                             *const hints[] = {"if ",    "avoid", "may ",      "might ", "can ",
                                               "could ", "case",  "potential", NULL};
    enum { NEAR = 1024 }; // a line can be long
    const int is_oom = fact->kind == CT_TEXT_KIND_SAYS_OOM;
    size_t from = at, to = at;
    if (f->said_line == fact->line || f->words_line[is_oom] == fact->line ||
        (!is_oom && f->says_failure))
        return;
    f->words_line[is_oom] = fact->line;
    while (from && at - from < NEAR && text[from - 1] != CT_TEXT_BREAK)
        from--;
    while (to < length && to - at < NEAR && text[to] != CT_TEXT_BREAK)
        to++;
    const int is_path =
        (at && strchr("./_-", text[at - 1])) || (end < length && strchr("./_-", text[end]));
    if (has_word(text, from, at, hints) || (is_path && !is_oom))
        return;
    f->says_failure = 1;
    if (!is_oom)
        return;
    if (!f->says_oom)
        f->says_oom = fact->line;
    const int is_pinned = has_word(text, from, to, pinned);
    fact->kind = is_pinned ? CT_TEXT_KIND_HOST_PINNED : CT_TEXT_KIND_GPU_OOM;
    if (is_pinned || has_call(text, from, to) || has_word(text, from, to, gpu))
        (void)add(f, fact, 1);
}

static struct ct_text_fact make_fact(const struct ct_text_facts *f,
                                     const struct ct_template_match *m, uint64_t line,
                                     uint64_t offset) {
    struct ct_text_fact fact = {
        .kind = m->kind, .line = line, .offset = offset, .progress = f->progress};
    memcpy(fact.values, m->values, sizeof fact.values);
    set_place(f, &fact, 0);
    set_tensor(&fact);
    (void)ct_utf8_sanitize(fact.note, sizeof fact.note, m->word, strlen(m->word));
    return fact;
}

static void add_match(struct ct_text_facts *f, const char *text, size_t length, size_t at,
                      const struct ct_template_match *m, uint64_t line, uint64_t offset) {
    const enum ct_text_role role = ct_template_role(m->kind);
    struct ct_text_fact fact = make_fact(f, m, line, offset);
    f->found += role != CT_TEXT_ROLE_PROGRAM && role != CT_TEXT_ROLE_WORD;
    if (role < CT_TEXT_ROLE_TRACEBACK)
        f->said_line = line;
    if (role != CT_TEXT_ROLE_FLAG) // (its name can be the end of a longer one)
        f->programs |= find_program(m->source);
    switch (role) {
    case CT_TEXT_ROLE_OOM:
    case CT_TEXT_ROLE_ERROR:
        add_error(f, &fact, role == CT_TEXT_ROLE_OOM || m->kind == CT_TEXT_KIND_SGLANG_TOKENS);
        break;
    case CT_TEXT_ROLE_WRAPPER:
        (void)add(f, &fact, 1);
        break;
    case CT_TEXT_ROLE_CLAUSE:
        add_clause(f, m, line);
        break;
    case CT_TEXT_ROLE_INFO:
    case CT_TEXT_ROLE_PROGRESS:
        if (m->kind == CT_TEXT_KIND_VERSION)
            (void)snprintf(f->version, sizeof f->version, "%.31s", m->word);
        else if (m->kind == CT_TEXT_KIND_RETRIED)
            add_retry(f, line);
        else if (ct_template_where(m->kind).phase != CT_PHASE_UNKNOWN)
            f->progress = m->kind;
        (void)add(f, &fact, 1);
        break;
    case CT_TEXT_ROLE_STATS:
        add_stats(f, m, line);
        f->progress = m->kind == CT_TEXT_KIND_PERIODIC ? CT_TEXT_KIND_PERIODIC : f->progress;
        break;
    case CT_TEXT_ROLE_TRACEBACK:
        begin_traceback(f, line);
        break;
    case CT_TEXT_ROLE_FRAME:
        add_frame(f, text, length, at, m);
        break;
    case CT_TEXT_ROLE_METHOD:
        add_method(f, text, length, at, m);
        break;
    case CT_TEXT_ROLE_WHERE:
        add_where(f, m, line);
        break;
    case CT_TEXT_ROLE_FLAG:
        add_setting(f, text, length, at, m, line);
        break;
    case CT_TEXT_ROLE_STEP:
        add_step(f, m, line);
        break;
    case CT_TEXT_ROLE_PROGRAM:
        break;
    case CT_TEXT_ROLE_WORD:
        add_words(f, text, length, at, m->end, &fact);
        break;
    }
}

// Keeps when a line was written, if evidence can name the line.
static void note_stamp(struct ct_text_facts *f, uint64_t line) {
    enum { MOST = 4096 };
    const struct ct_text_load *l = &f->load;
    const int is_named = (f->count && f->list[f->count - 1].line == line) ||
                         l->worst_line == line || l->preempted_line == line || f->step.line == line;
    if (!is_named || !f->stamp || !*f->stamp || f->stamp_count == MOST ||
        (f->stamp_count && f->stamps[f->stamp_count - 1].line == line))
        return;
    CT_HEAP_GROW(f->stamps, f->stamp_count, f->stamp_room);
    struct ct_text_stamp *s = &f->stamps[f->stamp_count++];
    s->line = line;
    (void)snprintf(s->text, sizeof s->text, "%s", f->stamp);
}

void ct_text_facts_add(struct ct_text_facts *f, const char *text, size_t length, size_t at,
                       const struct ct_template_match *m, uint64_t line, uint64_t offset) {
    add_match(f, text, length, at, m, line, offset);
    note_stamp(f, line);
}

const char *ct_text_facts_find_stamp(const struct ct_text_facts *f, uint64_t line) {
    for (size_t i = 0; i < f->stamp_count; i++)
        if (f->stamps[i].line == line)
            return f->stamps[i].text;
    return NULL;
}
