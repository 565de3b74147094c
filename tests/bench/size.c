// SPDX-License-Identifier: Apache-2.0
// Measures how large a trace is and how fast it is coded: size STREAM EVENTS [without-durations].
// STREAM: see streams.h.
//
// Prints: bytes of an event in the trace (chunks of 65,536 events, zstd level 1, ticks of 100 ns,
// prefixes included; definitions are not), the same as heaptrack's raw text (address, size, stack;
// a time each 10 ms) through zstd -3, and the speeds of coding. Every chunk is decoded again and
// compared.
#include <time.h>
#include <zstd.h>

#include <cutrace/format/decode.h>

#include "body_cut.h"
#include "pack.h"
#include "streams.h"

enum { CHUNK = 65536, BODY = 8 << 20, FRAMES = 104 + 15 /* prefix and filler */ };

static struct ct_event events[CHUNK];
static uint8_t body[BODY], packed[2 * BODY];
static ZSTD_CCtx *trace_zstd, *text_zstd;
static uint64_t trace_bytes, text_bytes;
static double encode_s, compress_s, decode_s;

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what) {
    fprintf(stderr, "size: %s\n", what);
    exit(1);
}

// ---- a chunk ------------------------------------------------------------------------------------

static size_t encode(size_t n) {
    struct ct_out o = {body, body + BODY, 0};
    pack_events(&o, events, n);
    if (o.bad)
        fail("body too large");
    return (size_t)(o.at - body);
}

// As the recorder does: one frame, its blocks cut between columns.
static size_t compress(size_t raw) {
    ZSTD_inBuffer in = {body, 0, 0};
    ZSTD_outBuffer out = {packed, sizeof packed, 0};
    ZSTD_CCtx_reset(trace_zstd, ZSTD_reset_session_only);
    ZSTD_CCtx_setPledgedSrcSize(trace_zstd, raw);
    while (in.size < raw) {
        in.size = ct_body_next_cut(body, raw, in.size);
        if (ZSTD_isError(ZSTD_compressStream2(trace_zstd, &out, &in,
                                              in.size < raw ? ZSTD_e_flush : ZSTD_e_end)))
            fail("zstd");
    }
    return out.pos;
}

static int same(const struct ct_event *got, const struct ct_event *want) {
    if (got->present != want->present || want->t_ns - got->t_ns >= PACK_TICK_NS ||
        got->duration_ns != want->duration_ns / PACK_TICK_NS * PACK_TICK_NS)
        return 0;
    for (unsigned f = 2; f < CT_FIELDS_END; f++)
        if (want->present >> f & 1 && f != CT_FIELD_duration_ns &&
            ct_event_get(got, f) != ct_event_get(want, f))
            return 0;
    return 1;
}

static void decode(struct ct_decoder *r, size_t raw, size_t n) {
    static struct ct_event got[CHUNK];
    struct ct_in all = {body, body + raw, 0}, section;
    unsigned kind;
    size_t i = 0;
    const double start = cpu();
    if (ct_section_next(&all, &kind, &section) != 1 || ct_decoder_open(r, section))
        fail("malformed");
    while (i < n && ct_decoder_next(r, &got[i]) > 0)
        i++;
    decode_s += cpu() - start;
    for (i = 0; i < n; i++) {
        if (!(events[i].present & CT_BIT(duration_ns)))
            got[i].duration_ns = events[i].duration_ns = 0;
        if (!same(&got[i], &events[i]))
            fail("what was decoded differs");
    }
}

// ---- the peer -----------------------------------------------------------------------------------

static void text_put(const char *text, size_t n, ZSTD_EndDirective end) {
    ZSTD_inBuffer in = {text, n, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {packed, sizeof packed, 0};
        left = ZSTD_compressStream2(text_zstd, &out, &in, end);
        if (ZSTD_isError(left))
            fail("zstd");
        text_bytes += out.pos;
    } while (in.pos < n || (end == ZSTD_e_end && left));
}

static void peer(size_t n, int last) {
    static uint64_t ticks;
    static char text[CHUNK * 64];
    char *at = text;
    for (size_t i = 0; i < n; i++) {
        const struct ct_event *e = &events[i];
        if (e->t_ns / 10000000 != ticks) {
            ticks = e->t_ns / 10000000;
            at += sprintf(at, "c %llx\n", (unsigned long long)ticks * 10);
        }
        if (e->op == CT_OP_ALLOC)
            at += sprintf(at, "+ %llx %x %llx\n", (unsigned long long)e->bytes, e->stack,
                          (unsigned long long)e->ptr);
        else
            at += sprintf(at, "- %llx\n", (unsigned long long)e->ptr);
    }
    text_put(text, (size_t)(at - text), last ? ZSTD_e_end : ZSTD_e_continue);
}

// ---- all of it ----------------------------------------------------------------------------------

static void prepare(void) {
    trace_zstd = ZSTD_createCCtx();
    text_zstd = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(trace_zstd, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(trace_zstd, ZSTD_c_windowLog, 17);
    ZSTD_CCtx_setParameter(trace_zstd, ZSTD_c_hashLog, 12);
    ZSTD_CCtx_setParameter(trace_zstd, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(text_zstd, ZSTD_c_compressionLevel, 3);
}

int main(int argc, char **argv) {
    const struct stream *s = argc > 2 && !strcmp(argv[1], "periodic") ? &streams[1] : &streams[0];
    if (argc < 3 || strcmp(argv[1], s->name) != 0) {
        fputs("usage: size iid|periodic EVENTS [without-durations]\n", stderr);
        return 2;
    }
    const size_t count = strtoull(argv[2], NULL, 10);
    const int durations = argc == 3;
    struct ct_decoder reader = {.memory = malloc(ct_decoder_memory_bytes())};
    prepare();
    stream_begin(s);
    for (size_t done = 0, n; done < count; done += n) {
        for (n = 0; n < CHUNK && done + n < count; n++) {
            s->next(&events[n]);
            if (!durations)
                events[n].present &= ~CT_BIT(duration_ns);
        }
        const double start = cpu();
        const size_t raw = encode(n);
        const double encoded = cpu();
        trace_bytes += compress(raw) + FRAMES;
        compress_s += cpu() - encoded;
        encode_s += encoded - start;
        decode(&reader, raw, n);
        peer(n, done + n == count);
    }
    const double mine = (double)trace_bytes / (double)count,
                 text = (double)text_bytes / (double)count;
    printf("size %-8s %-17s %5.2f bytes/event, heaptrack's text by zstd -3 %5.2f, ratio %.2f; "
           "encode %3.0f, with zstd -1 %3.0f, decode %3.0f M events/s\n",
           s->name, durations ? "" : "without durations", mine, text, mine / text,
           (double)count / encode_s / 1e6, (double)count / (encode_s + compress_s) / 1e6,
           (double)count / decode_s / 1e6);
    return 0;
}
