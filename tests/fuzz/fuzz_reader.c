// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary bytes to the report: every view, as text and as JSON, must come to an end.
//
// With clang -fsanitize=fuzzer it is a libFuzzer target (CT_LIBFUZZER); else it is run as seeds.h
// says.
//
// An input is a whole file; or (first byte 1) the body of a chunk, around which a valid chunk is
// put, so that checksums do not hide the decoder from the mutations; or (first byte 2) a journal
// whose trace is missing; or (first byte 3) the parts of a digest, in a chunk with a right
// checksum.
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <cutrace/format/xxh64.h>

#include <cutrace/model/digest_code.h>

#include "seeds.h"

#include "cli/argument_table.h"
#include "export/tables.h"
#include "page/page.h"
#include "read/facts.h"
#include "symbols/phases.h"
#include "views/quick.h"
#include "views/views.h"

static FILE *nowhere;
static struct ct_terminal terminal = {.width = 80, .bold = "", .red = "", .dim = "", .reset = ""};

static void view(struct ct_view *v, int (*of)(struct ct_view *)) {
    struct ct_page page;
    struct ct_error error;
    if (v->options->command != CT_COMMAND_html) {
        of(v);
        return;
    }
    if (ct_page_begin(&page, v->options, NULL, &error))
        abort();
    v->page = &page;
    of(v);
    if (ct_page_end(&page, &error))
        abort();
    ct_page_free(&page);
}

// Another format of `export`, and another table, for each trace and way: each write is of its own
// cost. A database needs a file, so it is written once in a while.
static void set_format(struct ct_arguments *o, const struct ct_trace *t) {
    static unsigned turn;
    static char path[64];
    if (o->command != CT_COMMAND_export)
        return;
    o->format = (enum ct_export_format)(++turn % CT_EXPORT_FORMATS);
    o->table = turn / CT_EXPORT_FORMATS % CT_TABLES;
    o->at_end = t->events % 2 != 0;
    if (ct_export_formats[o->format].output != CT_OUTPUT_FILE)
        return;
    if (turn / CT_EXPORT_FORMATS % 8)
        o->format = CT_EXPORT_perfetto;
    else if (snprintf(path, sizeof path, "/tmp/cutrace-fuzz.%d.sqlite", (int)getpid()) > 0)
        o->output = path;
}

static void set_allocator(struct ct_arguments *o, unsigned turn) {
    static const char *const settings[] = {"expandable_segments:True", "max_split_size_mb:32",
                                           "garbage_collection_threshold:0.5",
                                           "roundup_power2_divisions:4"};
    o->allocator = settings[turn % 4];
    if (ct_allocator_settings_parse(&o->allocator_settings, o->allocator, strlen(o->allocator),
                                    o->allocator_error))
        abort();
}

// The trace at its peak, compared with itself at its end.
static void compare(struct ct_view *end) {
    struct ct_arguments o = *end->options;
    struct ct_call_sites sites;
    struct ct_phases phases;
    struct ct_view peak = *end;
    o.at_end = 0;
    peak.options = &o;
    peak.sites = &sites;
    peak.phases = &phases;
    ct_call_sites_init(&sites, &end->trace->definitions);
    ct_phases_init(&phases, &end->trace->definitions, NULL);
    end->before = &peak;
    ct_view_diff(end);
    ct_phases_free(&phases);
    ct_call_sites_free(&sites);
}

static void view_all(struct ct_trace *t) {
    static int (*const views[])(struct ct_view *) = {
#define CT_COMMAND(name, usage, help, example) ct_view_##name,
#include "cli/arguments.def"
    };
    static unsigned turn;
    struct ct_call_sites sites;
    struct ct_facts facts;
    struct ct_phases phases;
    turn++;
    for (size_t i = 0; i < CT_COMMANDS * 2; i++) {
        struct ct_arguments o = {
            .command = (enum ct_command)(i / 2), .json = (int)i % 2, .device = -1};
        struct ct_view v = {.options = &o,
                            .terminal = &terminal,
                            .trace = t,
                            .sites = &sites,
                            .phases = &phases,
                            .out = nowhere};
        if (ct_argument_table_takes(o.command, CT_ARGUMENT_CAPACITY))
            o.capacity = turn % 2 ? 0 : 1 << 20;
        if (o.command == CT_COMMAND_fit)
            set_allocator(&o, turn);
        const int is_new = o.command == CT_COMMAND_export || o.command == CT_COMMAND_html ||
                           o.command == CT_COMMAND_copy;
        o.output = is_new ? "/dev/null" : NULL;
        o.force = is_new;
        o.events = i % 2 ? UINT64_MAX : 0;
        set_format(&o, t);
        terminal.utf8 = terminal.is_terminal = (int)(i % 4 == 0);
        v.to_ns = UINT64_MAX;
        if (o.command == CT_COMMAND_copy && turn % 2) // a part
            v.from_ns = t->t_first_ns + (t->t_last_ns - t->t_first_ns) / 2;
        o.level = (enum ct_scrub_level)(turn / 2 % 3);
        ct_call_sites_init(&sites, &t->definitions);
        ct_phases_init(&phases, &t->definitions, NULL);
        sites.all_frames = i % 3 == 0;
        if (o.command == CT_COMMAND_diff) {
            o.at_end = 1;
            compare(&v);
        } else {
            view(&v, views[i / 2]);
        }
        if (o.output && strcmp(o.output, "/dev/null") != 0)
            (void)unlink(o.output);
        ct_phases_free(&phases);
        ct_call_sites_free(&sites);
    }
    ct_facts_read(&facts, &t->definitions);
    (void)ct_facts_has_version(&facts, "vllm", "0.21.0");
    ct_facts_free(&facts);
}

// A file of one chunk with this body. The caller frees it.
static uint8_t *wrap(const uint8_t *body, size_t n, size_t *size) {
    const size_t bound = ZSTD_compressBound(n);
    uint8_t *file = calloc(1, CT_PREFIX_BYTES + bound);
    struct ct_chunk head = {.version = CT_FORMAT_VERSION,
                            .header_bytes = sizeof head,
                            .flags = CT_CHUNK_LAST | CT_CHUNK_AMENDS,
                            .events = 1,
                            .t_first_ns = 1,
                            .t_last_ns = UINT64_C(1) << 40,
                            .raw_bytes = n};
    if (!file)
        abort();
    memcpy(head.magic, CT_CHUNK_MAGIC, 8);
    const size_t packed = ZSTD_compress(file + CT_PREFIX_BYTES, bound, body, n, 1);
    head.body_bytes = packed;
    head.checksum = ct_xxh64(&head, offsetof(struct ct_chunk, checksum));
    const uint32_t frame[2] = {CT_PREFIX_MAGIC, sizeof head};
    memcpy(file, frame, 8);
    memcpy(file + 8, &head, sizeof head);
    *size = CT_PREFIX_BYTES + packed;
    return file;
}

enum { IS_FILE, IS_BODY, IS_JOURNAL, IS_DIGEST, KINDS };

// A file of one chunk without a body, which has a digest with these parts. The caller frees it.
static uint8_t *wrap_digest(const uint8_t *parts, size_t n, size_t *size) {
    uint8_t *file = wrap((const uint8_t *)"", 0, size);
    const size_t frame = CT_DIGEST_HEAD + n;
    struct ct_chunk head;
    file = realloc(file, *size + frame);
    if (!file)
        abort();
    memcpy(&head, file + 8, sizeof head);
    uint8_t *const at = file + *size;
    const uint32_t start[2] = {CT_DIGEST_MAGIC, (uint32_t)(frame - CT_DIGEST_FRAME)};
    memset(at, 0, CT_DIGEST_HEAD);
    memcpy(at, start, sizeof start);
    memcpy(at + CT_DIGEST_FRAME, CT_DIGEST_NAME, 8);
    ct_digest_put_u64(at + CT_DIGEST_SUMMED, head.checksum);
    at[CT_DIGEST_SUMMED + 8] = CT_DIGEST_VERSION;
    memcpy(at + CT_DIGEST_HEAD, parts, n);
    ct_digest_put_u64(at + CT_DIGEST_FRAME + 8,
                      ct_xxh64(at + CT_DIGEST_SUMMED, frame - CT_DIGEST_SUMMED));
    *size += frame;
    return file;
}

static void open_input(struct ct_trace *t, const uint8_t *data, size_t n) {
    struct ct_error error;
    uint8_t *file;
    size_t size;
    switch (n ? data[0] % KINDS : IS_FILE) {
    case IS_DIGEST:
        file = wrap_digest(data + 1, n - 1, &size);
        ct_source_open_memory(&t->source, "fuzz", file, size);
        free(file);
        break;
    case IS_BODY:
        file = wrap(data + 1, n - 1, &size);
        ct_source_open_memory(&t->source, "fuzz", file, size);
        free(file);
        break;
    case IS_JOURNAL:
        ct_source_open_memory(&t->source, "fuzz", NULL, 0);
        ct_source_open_memory(&t->journal.file, "fuzz.journal", data + 1, n - 1);
        t->journal_found = ct_journal_read_source(&t->journal, &error);
        break;
    default:
        ct_source_open_memory(&t->source, "fuzz", data + (n > 0), n - (n > 0));
    }
}

// What prefixes and digests say, as text and as JSON. The view opens the file itself.
static void view_quick(const struct ct_source *of) {
    char path[64];
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FILE *const before = stdout;
    if (fd < 0 || write(fd, of->memory, of->bytes) != (ssize_t)of->bytes)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    stdout = nowhere;
    for (int json = 0; json < 2; json++) {
        struct ct_arguments o = {
            .command = CT_COMMAND_summary, .quick = 1, .json = json, .device = -1};
        (void)ct_summary_quick(&o, &terminal, path, 0);
    }
    stdout = before;
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct ct_trace t = {.details = 1};
    struct ct_error error;
    if (!nowhere && !(nowhere = fopen("/dev/null", "w")))
        abort();
    open_input(&t, data, n);
    if (t.source.bytes)
        view_quick(&t.source);
    if (ct_trace_open_source(&t, &error) == 0)
        view_all(&t);
    ct_trace_close(&t);
    return 0;
}

#ifndef CT_LIBFUZZER

enum { INPUT_MAX = 1 << 17 };

static void add_input(const uint8_t *bytes, size_t n, int kind) {
    static uint8_t input[INPUT_MAX];
    if (n + 1 > INPUT_MAX)
        return;
    input[0] = (uint8_t)kind;
    memcpy(input + 1, bytes, n);
    add_seed(input, n + 1);
}

// A digest that has every part.
static void add_digest(void) {
    static struct ct_digest g;
    uint8_t frame[CT_DIGEST_BYTES];
    const struct ct_digest_body body = {0};
    const struct ct_chunk head = {.t_first_ns = 1, .body_bytes = 4096};
    const struct ct_digest_flow flow = {{4096, 3}, {512, 1}};
    g.ops[CT_OP_ALLOC] = g.failed = g.lost = 1;
    g.device[0] = (struct ct_digest_device){.flow = flow,
                                            .live_bytes = 8192,
                                            .has_peak = 1,
                                            .has_lowest = 1,
                                            .has_last = 1,
                                            .has_reported = 1};
    g.device[CT_MAX_DEVICES].live_bytes = 1;
    g.site[g.sites++] = (struct ct_digest_site){0, flow};
    const size_t n = ct_digest_encode(&g, &body, &head, frame);
    add_input(frame + CT_DIGEST_HEAD, n - CT_DIGEST_HEAD, IS_DIGEST);
}

// The file itself, and the bodies of its chunks.
static void load(const char *path) {
    static uint8_t file[1 << 20], body[INPUT_MAX];
    const size_t n = read_seed(path, file, sizeof file);
    if (!seed_count)
        add_digest();
    if (n > 8 && memcmp(file, CT_JOURNAL_MAGIC, 8) == 0) {
        add_input(file, n, IS_JOURNAL);
        return;
    }
    add_input(file, n, IS_FILE);
    for (size_t at = 0; at + 8 < n; at += 8) {
        if (memcmp(file + at, CT_CHUNK_MAGIC, 8) != 0)
            continue;
        const size_t frame = at + sizeof(struct ct_chunk);
        const size_t got = ZSTD_decompress(body, sizeof body, file + frame,
                                           ZSTD_findFrameCompressedSize(file + frame, n - frame));
        if (!ZSTD_isError(got))
            add_input(body, got, IS_BODY);
    }
}

// A journal keeps its size: words of it change, mostly those that are not zero.
static size_t mutate_journal(uint8_t *at, size_t n) {
    static const uint64_t values[] = {0,    1,    2,    7,     8,          9,         255,
                                      2040, 2041, 4096, 65536, UINT32_MAX, INT64_MAX, UINT64_MAX};
    for (uint64_t times = 1 + draw(4); times--;) {
        size_t place = 1 + 4 * draw((n - 9) / 4);
        for (int i = 0; i < 40 && !at[place]; i++)
            place = 1 + 4 * draw((draw(2) ? n - 9 : 2048) / 4);
        uint64_t word;
        memcpy(&word, at + place, 8);
        const uint64_t how = draw(3);
        word = how == 0   ? values[draw(sizeof values / sizeof *values)]
               : how == 1 ? word + draw(9) - 4
                          : word ^ UINT64_C(1) << draw(64);
        memcpy(at + place, &word, draw(2) ? 4 : 8);
    }
    return draw(16) ? n : n - draw(n - 1);
}

static size_t mutate(uint8_t *at, size_t n) {
    if (at[0] == IS_JOURNAL)
        return mutate_journal(at, n);
    static const uint8_t values[] = {0, 1, 2, 0x7f, 0x80, 0xff, 7, 8, 9, 64};
    for (uint64_t times = 1 + draw(8); times--;) {
        const size_t place = 1 + draw(n > 1 ? n - 1 : 1), length = 1 + draw(16);
        switch (draw(6)) {
        case 0:
            at[place] ^= (uint8_t)(1 << draw(8));
            break;
        case 1:
            at[place] = values[draw(sizeof values)];
            break;
        case 2: // cut out
            n = cut_out(at, n, place, length);
            break;
        case 3: // double
            if (place + length < n && n + length < INPUT_MAX) {
                memmove(at + place + length, at + place, n - place);
                n += length;
            }
            break;
        case 4: // copy from elsewhere
            if (place + length < n)
                memmove(at + place, at + 1 + draw(n - length), length);
            break;
        default:
            if (draw(8) == 0)
                n = place + 1;
            break;
        }
    }
    return n;
}

static void run(uint64_t number) {
    static uint8_t input[INPUT_MAX + 64];
    begin_draws(number);
    const struct seed *s = &seeds[draw(seed_count)];
    memcpy(input, s->bytes, s->size);
    const size_t n = number < seed_count ? s->size : mutate(input, s->size);
    LLVMFuzzerTestOneInput(input, n);
}

int main(int argc, char **argv) {
    return fuzz(argc, argv, load, run);
}

#endif
