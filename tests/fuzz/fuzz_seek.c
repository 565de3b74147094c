// SPDX-License-Identifier: Apache-2.0
// Mutated traces with checkpoints: what a view prints of a moment is the same whether its replay
// begins at a checkpoint or at the start (tools/report/replay/SEEK.md), byte by byte; and what a
// view with passes in parts prints, whether it reads the trace in parts or as a whole.
//
// A mutation changes the body of a chunk, or fields of its prefix, or which chunks there are and in
// what order; checksums and sizes are right again. Else nothing behind them would be read.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <cutrace/format/format.h>
#include <cutrace/format/xxh64.h>
#include <stddef.h>

#include "seeds.h"

#include "print/time_range.h"
#include "symbols/phases.h"
#include "views/views.h"

enum { BODY_MAX = 1 << 17, FILE_MAX = 1 << 20, CHUNKS_MAX = 64 };

struct chunk {
    struct ct_chunk head;
    uint8_t *body;
    size_t bytes;
};

static struct ct_terminal terminal = {.width = 80, .bold = "", .red = "", .dim = "", .reset = ""};
static unsigned long replays, begun;  // how many there were, and began at a checkpoint
static unsigned long passes, divided; // views with passes in parts, and those that used parts

// ---- what a view prints -------------------------------------------------------------------------

static int (*const views[CT_COMMANDS])(struct ct_view *) = {
#define CT_COMMAND(name, help, example) [CT_COMMAND_##name] = ct_view_##name,
#include "cli/arguments.def"
};

static void show(struct ct_trace *t, const struct ct_arguments *o, FILE *out) {
    struct ct_call_sites sites;
    struct ct_phases phases;
    struct ct_error error;
    struct ct_view v = {.options = o,
                        .terminal = &terminal,
                        .trace = t,
                        .sites = &sites,
                        .phases = &phases,
                        .out = out};
    ct_call_sites_init(&sites, &t->definitions);
    ct_phases_init(&phases, &t->definitions, NULL);
    if (ct_time_range_resolve(&v, &error) == 0)
        (void)views[o->command](&v);
    else
        fputs(error.text, out);
    ct_phases_free(&phases);
    ct_call_sites_free(&sites);
}

static char *print(const uint8_t *file, size_t n, const struct ct_arguments *o, size_t *size) {
    struct ct_trace t = {.no_journal = 1};
    struct ct_error error;
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out)
        abort();
    ct_source_open_memory(&t.source, "fuzz", file, n);
    if (ct_trace_open_source(&t, &error) == 0)
        show(&t, o, out);
    ct_trace_close(&t);
    fclose(out);
    return text;
}

// The same with a variable of the environment set; `told` is what it says on stderr of replays and
// of parts.
static char *print_with(const char *variable, const char *value, const uint8_t *file, size_t n,
                        const struct ct_arguments *o, size_t *size, char **told) {
    size_t length = 0;
    FILE *const before = stderr, *const to = open_memstream(told, &length);
    if (!to)
        abort();
    setenv(variable, value, 1);
    stderr = to;
    char *text = print(file, n, o, size);
    stderr = before;
    fclose(to);
    return text;
}

static void count_replays(const char *told) {
    for (const char *at = told; (at = strstr(at, "seek: a replay begins at ")); at++) {
        replays++;
        begun += strncmp(at + 25, "event", 5) == 0;
    }
}

static void count_parts(const char *told) {
    passes++;
    divided += strstr(told, "parts: ") && !strstr(told, "prove nothing");
}

static void compare_with(const char *variable, const uint8_t *file, size_t n,
                         const struct ct_arguments *o, void (*count)(const char *told)) {
    size_t sizes[2];
    char *told[2];
    char *sought = print_with(variable, "tell", file, n, o, &sizes[0], &told[0]);
    char *whole = print_with(variable, "no", file, n, o, &sizes[1], &told[1]);
    count(told[0]);
    if (sizes[0] != sizes[1] || memcmp(sought, whole, sizes[0]) != 0) {
        fprintf(stderr, "%s%s differs with %s, %s:\n%s\n---- without:\n%s\n",
                ct_arguments_command_name(o->command), o->json ? " --json" : "", variable, told[0],
                sought, whole);
        abort();
    }
    for (int i = 0; i < 2; i++)
        free(told[i]);
    free(sought);
    free(whole);
}

static void compare_seeks(const uint8_t *file, size_t n, const struct ct_arguments *o) {
    compare_with("CUTRACE_REPORT_SEEK", file, n, o, count_replays);
}

static void compare_parts(const uint8_t *file, size_t n) {
    static const char *const workers[] = {"2", "3", "7"};
    static const enum ct_command commands[] = {CT_COMMAND_stats,   CT_COMMAND_top,
                                               CT_COMMAND_leaks,   CT_COMMAND_frag,
                                               CT_COMMAND_summary, CT_COMMAND_timeline};
    const struct ct_arguments o = {.command = commands[draw(sizeof commands / sizeof *commands)],
                                   .device = -1,
                                   .json = 1,
                                   .at_end = !draw(3),
                                   .to = {draw(4) ? CT_TIME_NONE : CT_TIME_OF_EVENT, draw(400)}};
    setenv("CUTRACE_REPORT_WORKERS", workers[draw(3)], 1);
    compare_with("CUTRACE_REPORT_PARTS", file, n, &o, count_parts);
    unsetenv("CUTRACE_REPORT_WORKERS");
}

// ---- files --------------------------------------------------------------------------------------

static void load(const char *path) {
    static uint8_t file[FILE_MAX];
    const size_t n = read_seed(path, file, sizeof file);
    add_seed(file, n);
}

static size_t take_apart(const struct seed *s, struct chunk *to) {
    size_t count = 0;
    for (size_t at = 0; at + CT_PREFIX_BYTES < s->size && count < CHUNKS_MAX; at += 8) {
        struct chunk *c = &to[count];
        if (memcmp(s->bytes + at + 8, CT_CHUNK_MAGIC, 8) != 0)
            continue;
        memcpy(&c->head, s->bytes + at + 8, sizeof c->head);
        c->body = malloc(BODY_MAX + 64);
        if (!c->body)
            abort();
        c->bytes =
            ZSTD_decompress(c->body, BODY_MAX, s->bytes + at + CT_PREFIX_BYTES, c->head.body_bytes);
        if (ZSTD_isError(c->bytes))
            abort();
        count++;
    }
    return count;
}

static size_t put_chunk(struct chunk *c, uint8_t *to, size_t room) {
    static ZSTD_CCtx *context;
    if (!context && !(context = ZSTD_createCCtx()))
        abort();
    const size_t packed =
        ZSTD_compressCCtx(context, to + CT_PREFIX_BYTES, room - 128, c->body, c->bytes, 1);
    if (ZSTD_isError(packed))
        abort();
    const uint32_t frame[2] = {CT_PREFIX_MAGIC, sizeof c->head};
    c->head.body_bytes = packed;
    c->head.raw_bytes = c->bytes;
    c->head.checksum = ct_xxh64(&c->head, offsetof(struct ct_chunk, checksum));
    memcpy(to, frame, sizeof frame);
    memcpy(to + 8, &c->head, sizeof c->head);
    const size_t n = CT_PREFIX_BYTES + packed;
    const uint32_t fill = (uint32_t)(0 - n) & 7, filler[2] = {CT_FILLER_MAGIC, fill};
    memcpy(to + n, filler, sizeof filler);
    memset(to + n + 8, 0, fill);
    return n + 8 + fill;
}

// ---- mutations ----------------------------------------------------------------------------------

static void change_body(struct chunk *c) {
    static const uint8_t values[] = {0, 1, 2, 0x7f, 0x80, 0xff, 7, 8, 9, 64};
    for (uint64_t times = 1 + draw(4); times-- && c->bytes > 20;) {
        const size_t place = draw(c->bytes), length = 1 + draw(16);
        switch (draw(5)) {
        case 0:
            c->body[place] ^= (uint8_t)(1 << draw(8));
            break;
        case 1:
            c->body[place] = values[draw(sizeof values)];
            break;
        case 2:
            c->bytes = cut_out(c->body, c->bytes, place, length);
            break;
        case 3:
            c->body[place]++;
            break;
        default:
            if (place + length < c->bytes)
                memmove(c->body + place, c->body + draw(c->bytes - length), length);
            break;
        }
    }
}

static void change_head(struct chunk *c) {
    switch (draw(7)) {
    case 0:
        c->head.flags ^= 1u << draw(5);
        break;
    case 1:
        c->head.seq += draw(5) - 2;
        break;
    case 2:
        c->head.dict_seq = draw(2) ? c->head.seq : c->head.dict_seq + draw(3) - 1;
        break;
    case 3:
        c->head.first_event += draw(2) ? draw(9) - 4 : draw(1000);
        break;
    case 4:
        c->head.events += (uint32_t)draw(5) - 2;
        break;
    case 5:
        c->head.t_first_ns += draw(2000) - 1000;
        break;
    default:
        c->head.t_last_ns += draw(2000) - 1000;
        break;
    }
}

static size_t change_list(struct chunk *list, size_t count) {
    const size_t at = draw(count), other = draw(count);
    const struct chunk c = list[at];
    if (draw(2)) {
        list[at] = list[other];
        list[other] = c;
        return count;
    }
    if (count < 2)
        return count;
    free(c.body);
    memmove(list + at, list + at + 1, (count - at - 1) * sizeof *list);
    return count - 1;
}

static size_t mutate(struct chunk *list, size_t count) {
    for (uint64_t times = 1 + draw(3); times--;) {
        const uint64_t how = draw(8);
        if (how < 4)
            change_body(&list[draw(count)]);
        else if (how < 7)
            change_head(&list[draw(count)]);
        else
            count = change_list(list, count);
    }
    return count;
}

// ---- runs ---------------------------------------------------------------------------------------

static struct ct_arguments draw_view(uint64_t events) {
    static const enum ct_command commands[] = {CT_COMMAND_top, CT_COMMAND_frag, CT_COMMAND_summary,
                                               CT_COMMAND_oom, CT_COMMAND_leaks};
    struct ct_arguments o = {.device = -1, .json = (int)draw(2)};
    o.command = commands[draw(sizeof commands / sizeof *commands)];
    if (o.command == CT_COMMAND_summary) // (with a moment it has no second replay)
        return o;
    o.at = (struct ct_time){draw(8) ? CT_TIME_OF_EVENT : CT_TIME_OF_PEAK, draw(events)};
    return o;
}

static void run(uint64_t number) {
    static uint8_t file[FILE_MAX + BODY_MAX];
    struct chunk list[CHUNKS_MAX];
    size_t n = 0;
    begin_draws(number);
    size_t count = take_apart(&seeds[draw(seed_count)], list);
    if (number >= seed_count)
        count = mutate(list, count);
    for (size_t i = 0; i < count; i++)
        n += n < FILE_MAX ? put_chunk(&list[i], file + n, FILE_MAX + BODY_MAX - n) : 0;
    for (int i = 0; i < 3; i++) {
        const struct ct_arguments o = draw_view(400);
        compare_seeks(file, n, &o);
    }
    compare_parts(file, n);
    for (size_t i = 0; i < count; i++)
        free(list[i].body);
}

int main(int argc, char **argv) {
    const int status = fuzz(argc, argv, load, run);
    printf("%lu of %lu replays began at a checkpoint; %lu of %lu passes were in parts\n", begun,
           replays, divided, passes);
    return status || (begun && divided) || replays < 200 ? status : 3;
}
