// SPDX-License-Identifier: Apache-2.0
// Mutated traces with digests and checkpoints: summary, top and frag with --quick. None
// crashes, whatever digests and prefixes say. Where they tell the truth, but chunks are missing,
// damaged or out of order, no quick answer is contradicted by all events: what is exact is equal,
// what is "at least" is no more, and what is live at a moment is the same, or said to be not known.
//
// The file's own checksums are right again only where a mutation makes a prefix or a digest lie.
#include <sys/mman.h>
#include <unistd.h>

#include <cutrace/format/format.h>
#include <cutrace/format/xxh64.h>
#include <stddef.h>

#include "seeds.h"

#include "answer/time_range.h"
#include "answer/view_scan.h"
#include "question/question.h"
#include "read/index.h"
#include "read/recorder_notes.h"
#include "symbols/phases.h"
#include "views/quick.h"
#include "views/views.h"

enum { FILE_MAX = 1 << 20, PIECES_MAX = 64 };

static struct ct_terminal terminal = {.width = 80, .bold = "", .red = "", .dim = "", .reset = ""};
static char path[40]; // of the mutated file, which lies in memory
static int file;
static unsigned long known, unknown, exact, bounds; // what was compared

// ---- what is printed ----------------------------------------------------------------------------

// Calls a function with its standard output and error in memory, and checks what it prints.
static int call_silently(int (*show)(void *user), void *user) {
    char *text = NULL, *told = NULL;
    size_t size = 0, length = 0;
    FILE *const before[] = {stdout, stderr};
    stdout = open_memstream(&text, &size);
    stderr = open_memstream(&told, &length);
    if (!stdout || !stderr)
        abort();
    const int status = show(user);
    fclose(stdout);
    fclose(stderr);
    stdout = before[0];
    stderr = before[1];
    check_printed(text, size);
    check_printed(told, length);
    free(text);
    free(told);
    return status;
}

static void fail(const char *what, uint64_t quick, uint64_t all) {
    fprintf(stderr, "%s: %llu by --quick, %llu by all events\n", what, (unsigned long long)quick,
            (unsigned long long)all);
    abort();
}

static void expect_equal(const char *what, uint64_t quick, uint64_t all) {
    if (quick != all)
        fail(what, quick, all);
}

static void expect_at_most(const char *what, uint64_t quick, uint64_t all) {
    if (quick > all)
        fail(what, quick, all);
}

// ---- top and frag -------------------------------------------------------------------------------

struct moment {
    const struct ct_arguments *options;
    struct ct_moment_part part;
    int has_part;
};

static int print_moment(void *user) {
    struct moment *m = user;
    struct ct_trace t;
    struct ct_call_sites sites;
    struct ct_phases phases;
    struct ct_error error;
    struct ct_view v = {.options = m->options,
                        .terminal = &terminal,
                        .trace = &t,
                        .sites = &sites,
                        .phases = &phases,
                        .out = stdout};
    if (ct_trace_headers_open(&t, path, &error) == 0) {
        ct_trace_headers_read_facts(&t);
        if (ct_moment_quick_read(&m->part, &v, &error) == 0) {
            ct_call_sites_init(&sites, &t.definitions);
            ct_phases_init(&phases, &t.definitions, NULL);
            (void)ct_moment_quick_print(&m->part, &v);
            m->has_part = !m->part.part.unknown;
            ct_phases_free(&phases);
            ct_call_sites_free(&sites);
        }
    }
    ct_trace_close(&t);
    return 0;
}

// All events up to the moment.
static void replay_all(const struct moment *m, struct ct_replay *r) {
    struct ct_trace t = {.no_journal = 1};
    struct ct_error error;
    struct ct_view v = {.options = m->options, .terminal = &terminal, .trace = &t, .out = stdout};
    if (ct_trace_open(&t, path, &error) || ct_time_range_resolve(&v, &error))
        fail(error.text, 1, 0);
    if (v.in_gap_ns)
        fail("known at a time in a gap", v.in_gap_ns, 0);
    const struct ct_moment moment = ct_view_scan_asked_moment(&v, NULL);
    ct_question_moment(r, &moment, &t, NULL, NULL);
    ct_trace_close(&t);
}

static void compare_moment(const struct ct_arguments *o, int tells_truth) {
    struct moment m = {.options = o};
    struct ct_replay all;
    (void)call_silently(print_moment, &m);
    known += m.has_part != 0;
    unknown += !m.has_part;
    if (m.has_part && tells_truth) {
        replay_all(&m, &all);
        for (int d = 0; d < CT_DEVICES; d++) {
            const struct ct_live_device *x = &m.part.state.live.device[d], *y = &all.live.device[d];
            expect_equal("live bytes", x->live_bytes, y->live_bytes);
            expect_equal("live allocations", x->live_allocations, y->live_allocations);
            expect_equal("bytes of blocks", x->block_bytes, y->block_bytes);
        }
        ct_replay_free(&all);
    }
    ct_moment_part_free(&m.part);
}

// ---- summary ------------------------------------------------------------------------------------

static int print_summary(void *options) {
    return ct_summary_quick(options, &terminal, path, 0);
}

static void compare_device(const struct ct_noted_device *noted, const struct ct_device_scan *all) {
    if (!noted->has_peak || !all->peak_known)
        return;
    exact += noted->peak_is_exact != 0;
    bounds += !noted->peak_is_exact;
    if (noted->peak_is_exact)
        expect_equal("peak", noted->peak_bytes, all->peak_bytes);
    else
        expect_at_most("peak", noted->peak_bytes, all->peak_bytes);
}

static void compare_notes(const struct ct_recorder_notes *n, const struct ct_scan *s,
                          int is_whole) {
    for (int d = 0; d < CT_DEVICES; d++) {
        compare_device(&n->device[d], &s->device[d]);
        if (is_whole && n->live_is_known)
            expect_equal("live bytes at the end", n->device[d].live_bytes,
                         s->end.live.device[d].live_bytes);
    }
    for (unsigned op = 0; op < CT_OPS_END; op++)
        (is_whole ? expect_equal : expect_at_most)("events of an operation", n->ops[op],
                                                   s->ops[op]);
}

// Of bodies that are all readable: what digests say of another one nobody can prove.
static void compare_summary(void) {
    struct ct_trace quick, t = {.no_journal = 1};
    struct ct_error error;
    struct ct_recorder_notes *n = malloc(sizeof *n);
    struct ct_scan *s = malloc(sizeof *s);
    const struct ct_scan_request request = {.to_ns = UINT64_MAX, .device = -1};
    if (!n || !s)
        abort();
    if (ct_trace_headers_open(&quick, path, &error) == 0) {
        if (ct_trace_open(&t, path, &error))
            fail(error.text, 1, 0);
        ct_recorder_notes_read(n, &quick, NULL);
        ct_question_scan(s, &t, &request, NULL);
        compare_notes(n, s, ct_recorder_notes_are_whole(n, &quick));
        ct_scan_free(s);
        ct_recorder_notes_free(n);
        ct_trace_close(&t);
    }
    ct_trace_close(&quick);
    free(n);
    free(s);
}

// ---- damage -------------------------------------------------------------------------------------

static int print_info(void *of) {
    struct ct_arguments o = {.command = CT_COMMAND_info, .json = 1, .device = -1};
    struct ct_view v = {.options = &o, .terminal = &terminal, .trace = of, .out = stdout};
    return ct_view_info(&v);
}

// What prefixes and digests show to be damaged, all events show, too.
static void compare_damage(int tells_truth) {
    struct ct_trace quick, t = {.no_journal = 1};
    struct ct_error error;
    if (ct_trace_headers_open(&quick, path, &error) == 0) {
        (void)ct_digest_check_chain(&quick.index, &quick.source);
        const uint64_t damaged = quick.index.damages || quick.index.missing;
        int status = CT_EXIT_BAD_TRACE;
        if (ct_trace_open(&t, path, &error) == 0)
            status = call_silently(print_info, &t);
        if (tells_truth && damaged)
            expect_equal("damage", damaged, status == CT_EXIT_BAD_TRACE);
        ct_trace_close(&t);
    }
    ct_trace_close(&quick);
}

// ---- files --------------------------------------------------------------------------------------

struct piece {
    uint8_t *bytes;
    size_t size;
};

static void load(const char *name) {
    static uint8_t bytes[FILE_MAX];
    add_seed(bytes, read_seed(name, bytes, sizeof bytes));
}

// The file, cut before each chunk.
static size_t take_apart(const struct seed *s, struct piece *to) {
    size_t count = 0, from = 0;
    for (size_t at = 8; at + CT_PREFIX_BYTES < s->size && count + 1 < PIECES_MAX; at += 8)
        if (memcmp(s->bytes + at + 8, CT_CHUNK_MAGIC, 8) == 0) {
            to[count++] = (struct piece){s->bytes + from, at - from};
            from = at;
        }
    to[count++] = (struct piece){s->bytes + from, s->size - from};
    for (size_t i = 0; i < count; i++) {
        uint8_t *copy = malloc(to[i].size);
        if (!copy)
            abort();
        to[i].bytes = memcpy(copy, to[i].bytes, to[i].size);
    }
    return count;
}

static size_t change_list(struct piece *list, size_t count) {
    const size_t at = draw(count), other = draw(count);
    const struct piece p = list[at];
    if (draw(4) == 0) {
        list[at] = list[other];
        list[other] = p;
        return count;
    }
    if (count < 2)
        return count;
    free(p.bytes);
    memmove(list + at, list + at + 1, (count - at - 1) * sizeof *list);
    return count - 1;
}

static struct ct_chunk read_head(const struct piece *p) {
    struct ct_chunk head;
    memcpy(&head, p->bytes + 8, sizeof head);
    return head;
}

// Where the digest of a chunk begins, behind the head of its frame; 0: it has none.
static size_t find_digest(const struct piece *p, uint32_t *size) {
    const struct ct_chunk head = read_head(p);
    uint32_t frame[2];
    const size_t at = CT_PREFIX_BYTES + head.body_bytes;
    if (head.body_bytes > p->size || at + sizeof frame > p->size)
        return 0;
    memcpy(frame, p->bytes + at, sizeof frame);
    *size = frame[1];
    if (frame[0] != CT_DIGEST_MAGIC || frame[1] < 28 || at + sizeof frame + frame[1] > p->size)
        return 0;
    return at + sizeof frame;
}

// Its own checksum, and which chunk it is of.
static void seal_digest(struct piece *p, size_t digest, uint32_t size) {
    const struct ct_chunk head = read_head(p);
    memcpy(p->bytes + digest + 16, &head.checksum, sizeof head.checksum);
    const uint64_t sum = ct_xxh64(p->bytes + digest + 16, size - 16);
    memcpy(p->bytes + digest + 8, &sum, sizeof sum);
}

static void change_head(struct ct_chunk *head) {
    switch (draw(6)) {
    case 0:
        head->flags ^= 1u << draw(5);
        break;
    case 1:
        head->seq += draw(5) - 2;
        break;
    case 2:
        head->dict_seq = draw(2) ? head->seq : head->dict_seq + draw(3) - 1;
        break;
    case 3:
        head->first_event += draw(2) ? draw(9) - 4 : draw(1000);
        break;
    case 4:
        head->events += (uint32_t)draw(5) - 2;
        break;
    default:
        head->t_first_ns += draw(2000) - 1000;
        head->t_last_ns += draw(2000) - 1000;
        break;
    }
}

static void lie(struct piece *p) {
    static const uint8_t values[] = {0, 1, 2, 0x7f, 0x80, 0xff, 7, 8, 9, 64};
    uint32_t size;
    const size_t digest = find_digest(p, &size);
    if (!digest || draw(3) == 0) {
        struct ct_chunk head = read_head(p);
        change_head(&head);
        head.checksum = ct_xxh64(&head, offsetof(struct ct_chunk, checksum));
        memcpy(p->bytes + 8, &head, sizeof head);
    }
    for (uint64_t times = draw(4); digest && times--;) {
        uint8_t *at = p->bytes + digest + 24 + draw(size - 24);
        *at = draw(2) ? values[draw(sizeof values)] : (uint8_t)(*at + 1 - 2 * draw(2));
    }
    if (digest)
        seal_digest(p, digest, size);
}

static void write_file(const struct piece *list, size_t count) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (pwrite(file, list[i].bytes, list[i].size, (off_t)n) != (ssize_t)list[i].size)
            abort();
        n += list[i].size;
    }
    if (draw(8) == 0)
        n -= draw(n < 400 ? n : 400);
    if (ftruncate(file, (off_t)n))
        abort();
}

// ---- runs ---------------------------------------------------------------------------------------

enum kind { AS_IS, LACKS, DAMAGED, LIES };

static size_t mutate(struct piece *list, size_t count, enum kind kind) {
    for (uint64_t times = 1 + draw(3); times-- && kind != AS_IS;) {
        struct piece *p = &list[draw(count)];
        if (kind == LIES && draw(4))
            lie(p);
        else if (kind == DAMAGED && draw(2))
            p->bytes[draw(p->size)] ^= (uint8_t)(1 << draw(8));
        else
            count = change_list(list, count);
    }
    return count;
}

static struct ct_time draw_time(const struct piece *list, size_t count) {
    const struct ct_chunk head = read_head(&list[draw(count)]);
    if (draw(3) == 0)
        return (struct ct_time){.kind = CT_TIME_NONE};
    if (draw(2))
        return (struct ct_time){.kind = CT_TIME_OF_EVENT,
                                .ns = head.first_event + draw(head.events + 2)};
    const uint64_t span = head.t_last_ns - head.t_first_ns;
    return (struct ct_time){.kind = CT_TIME_ELAPSED,
                            .ns =
                                head.t_first_ns - 500 + draw(span < 1 << 30 ? span + 3000 : 3000)};
}

static void run(uint64_t number) {
    struct piece list[PIECES_MAX];
    begin_draws(number);
    size_t count = take_apart(&seeds[draw(seed_count)], list);
    const enum kind kind = number < seed_count ? AS_IS : (enum kind)draw(4);
    count = mutate(list, count, kind);
    write_file(list, count);
    struct ct_arguments o = {.device = -1, .json = (int)draw(2), .quick = 1, .no_journal = 1};
    o.command = CT_COMMAND_summary;
    (void)call_silently(print_summary, &o);
    if (kind == AS_IS || kind == LACKS)
        compare_summary();
    compare_damage(kind != LIES);
    for (int i = 0; i < 3; i++) {
        o.command = draw(2) ? CT_COMMAND_top : CT_COMMAND_frag;
        o.at = draw_time(list, count);
        o.at_end = o.at.kind == CT_TIME_NONE;
        compare_moment(&o, kind != LIES);
    }
    for (size_t i = 0; i < count; i++)
        free(list[i].bytes);
}

int main(int argc, char **argv) {
    file = memfd_create("fuzz", 0);
    if (file < 0)
        return 3;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const int status = fuzz(argc, argv, load, run);
    printf("%lu moments known, %lu not; %lu peaks exact, %lu at least\n", known, unknown, exact,
           bounds);
    return status || (known && unknown && exact && bounds) || known + unknown < 1000 ? status : 3;
}
