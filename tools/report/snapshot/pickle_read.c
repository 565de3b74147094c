// SPDX-License-Identifier: Apache-2.0
// A pickle is a program for a machine with a stack and a memo. Each opcode makes at most one value,
// so that the number of values, and with it all memory, is bounded.
#include "snapshot/pickle_read.h"

#include <string.h>

#include "base/heap.h"
#include "base/pickle_opcodes.h"

enum {
    MAX_MARKS = 64,       // nested; snapshots have about ten
    MAX_VALUES = 1 << 27, // in containers, and on the stack
    FREE_MEMO = 1 << 16,  // numbers of the memo need not be given in order
    LONGEST_INTEGER = 9,  // bytes: 8, and one for the sign of the largest
    NEWEST_PROTOCOL = 5,
};

struct parser {
    struct ct_pickle_document *document;
    const char *name;
    const uint8_t *bytes;
    size_t size, at, op_at;
    struct ct_pickle_value *stack, *memo; // a memo's unused numbers are NONE
    size_t depth, stack_room, memo_count, memo_room;
    uint64_t puts;
    size_t marks[MAX_MARKS];
    unsigned mark_count;
    struct ct_error *error;
};

static const struct {
    unsigned code;
    const char *name;
} opcodes[] = {
#define CT_PICKLE_OPCODE(NAME, code) {code, #NAME},
#include "base/pickle_opcodes.def"
};

// Opcodes that make objects of classes, or call functions, or read other files.
static const char objects[] = "cRbioPQ\x81\x82\x83\x84\x92\x93\x97\x98";

static const char *name_of(unsigned code) {
    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes; i++)
        if (opcodes[i].code == code)
            return opcodes[i].name;
    return "?";
}

static int fail(struct parser *p, const char *what) {
    return ct_error_set(p->error, CT_EXIT_BAD_TRACE, "%.400s: offset %zu: %s (opcode %s)", p->name,
                        p->op_at, what, name_of(p->bytes[p->op_at]));
}

static int fail_opcode(struct parser *p) {
    const unsigned code = p->bytes[p->op_at];
    const int is_object = code && strchr(objects, (int)code) != NULL;
    return ct_error_set(p->error, CT_EXIT_BAD_TRACE,
                        "%.400s: offset %zu: %s (opcode 0x%02x), which no memory snapshot of "
                        "PyTorch has",
                        p->name, p->op_at,
                        is_object ? "names a class or calls a function" : "an unknown opcode",
                        code);
}

// ---- arguments ----------------------------------------------------------------------------------

// The next `n` bytes; NULL with the error set if there are fewer.
static const uint8_t *take(struct parser *p, uint64_t n) {
    if (n > p->size - p->at) {
        (void)fail(p, "the file ends within an argument");
        return NULL;
    }
    const uint8_t *from = p->bytes + p->at;
    p->at += (size_t)n;
    return from;
}

// A number of `n` bytes, the lowest first. Returns 0, or -1.
static int take_length(struct parser *p, unsigned n, uint64_t *value) {
    const uint8_t *from = take(p, n);
    *value = 0;
    for (unsigned i = 0; from && i < n; i++)
        *value |= (uint64_t)from[i] << 8 * i;
    return from ? 0 : -1;
}

// ---- the stack ----------------------------------------------------------------------------------

static int push(struct parser *p, struct ct_pickle_value v) {
    if (p->depth >= MAX_VALUES)
        return fail(p, "more values than this program takes");
    CT_HEAP_GROW(p->stack, p->depth, p->stack_room);
    p->stack[p->depth++] = v;
    return 0;
}

// Below a mark nothing may be taken.
static size_t floor_of(const struct parser *p) {
    return p->mark_count ? p->marks[p->mark_count - 1] : 0;
}

static int needs(struct parser *p, size_t n) {
    return p->depth - floor_of(p) < n ? fail(p, "too few values") : 0;
}

static int add_container(struct parser *p, enum ct_pickle_type type, struct ct_pickle_value *v) {
    struct ct_pickle_document *d = p->document;
    if (d->container_count >= MAX_VALUES)
        return fail(p, "more values than this program takes");
    CT_HEAP_GROW(d->containers, d->container_count, d->container_room);
    d->containers[d->container_count] = (struct ct_pickle_container){0};
    *v = (struct ct_pickle_value){.type = type, .container = (uint32_t)d->container_count++};
    return 0;
}

// Appends the top `n` values to a container, and takes them from the stack. Elements of a container
// that follow one another in memory are one chunk.
static int append(struct parser *p, const struct ct_pickle_value *to, size_t n) {
    struct ct_pickle_document *d = p->document;
    struct ct_pickle_container *c = &d->containers[to->container];
    if (!n)
        return 0;
    if (n > MAX_VALUES - d->item_count)
        return fail(p, "more values than this program takes");
    struct ct_pickle_chunk *last = &d->chunks[c->last];
    if (c->last && last->first + last->count == d->item_count) {
        last->count += (uint32_t)n;
    } else {
        CT_HEAP_GROW(d->chunks, d->chunk_count, d->chunk_room);
        const uint32_t made = (uint32_t)d->chunk_count++;
        d->chunks[made] = (struct ct_pickle_chunk){.first = d->item_count, .count = (uint32_t)n};
        if (c->last)
            d->chunks[c->last].next = made;
        else
            c->first = made;
        c->last = made;
    }
    while (d->item_room - d->item_count < n) {
        d->item_room = d->item_room ? d->item_room * 2 : 1024;
        d->items = ct_heap_resize(d->items, d->item_room, sizeof *d->items);
    }
    memcpy(d->items + d->item_count, p->stack + p->depth - n, n * sizeof *d->items);
    d->item_count += n;
    c->count += n;
    p->depth -= n;
    return 0;
}

// How many values an opcode takes: `n`, or FROM_MARK, those above the mark, which goes.
enum { FROM_MARK = -1 };
static int take_count(struct parser *p, int n, size_t *count) {
    if (n == FROM_MARK && !p->mark_count)
        return fail(p, "no mark");
    *count = n == FROM_MARK ? p->depth - p->marks[--p->mark_count] : (size_t)n;
    return 0;
}

// ---- opcodes ------------------------------------------------------------------------------------
// Each of these does what an opcode says, by the arguments of its row.

static int push_constant(struct parser *p, int type, int number) {
    return push(p, (struct ct_pickle_value){.type = (enum ct_pickle_type)type, .number = number});
}

static int read_number(struct parser *p, int n, int is_signed) {
    struct ct_pickle_value v = {.type = CT_PICKLE_IS_NUMBER};
    uint64_t bits;
    if (take_length(p, (unsigned)n, &bits))
        return -1;
    if (is_signed && n && n < 8 && bits >> (8 * n - 1) & 1)
        bits |= UINT64_MAX << 8 * n;
    v.number = (int64_t)bits;
    return push(p, v);
}

// Of 9 bytes only the numbers that a size_t can have, which are shown as the largest.
static int read_long(struct parser *p, int length_bytes, int unused) {
    uint64_t n;
    (void)unused;
    if (take_length(p, (unsigned)length_bytes, &n))
        return -1;
    if (n > LONGEST_INTEGER)
        return fail(p, "an integer of more than 8 bytes");
    if (n < LONGEST_INTEGER)
        return read_number(p, (int)n, 1);
    const uint8_t *from = take(p, n);
    if (!from)
        return -1;
    if (from[8])
        return fail(p, "an integer of more than 8 bytes");
    return push(p, (struct ct_pickle_value){.type = CT_PICKLE_IS_NUMBER, .number = INT64_MAX});
}

static int read_real(struct parser *p, int size, int unused) {
    const uint8_t *from = take(p, (uint64_t)size);
    struct ct_pickle_value v = {.type = CT_PICKLE_IS_REAL};
    uint64_t bits = 0;
    (void)unused;
    for (int i = 0; from && i < size; i++)
        bits = bits << 8 | from[i];
    memcpy(&v.real, &bits, sizeof v.real);
    return from ? push(p, v) : -1;
}

static int read_text(struct parser *p, int length_bytes, int type) {
    uint64_t length;
    if (take_length(p, (unsigned)length_bytes, &length))
        return -1;
    if (length > UINT32_MAX)
        return fail(p, "a text of more than 4 GiB");
    const uint8_t *text = take(p, length);
    return text ? push(p, (struct ct_pickle_value){.type = (enum ct_pickle_type)type,
                                                   .length = (uint32_t)length,
                                                   .text = (const char *)text})
                : -1;
}

// Makes a container of the top values.
static int build(struct parser *p, int type, int n) {
    struct ct_pickle_value v = {.type = (enum ct_pickle_type)type};
    size_t count = 0;
    if (take_count(p, n, &count))
        return -1;
    if (type == CT_PICKLE_IS_DICT && count % 2)
        return fail(p, "a key without a value");
    return needs(p, count) || add_container(p, v.type, &v) || append(p, &v, count) || push(p, v)
               ? -1
               : 0;
}

// Appends the top values to the container below them.
static int extend(struct parser *p, int type, int n) {
    size_t count = 0;
    if (take_count(p, n, &count) || needs(p, count + 1))
        return -1;
    const struct ct_pickle_value to = p->stack[p->depth - count - 1];
    if (to.type != (enum ct_pickle_type)type)
        return fail(p, "the value is no container of this kind");
    if (type == CT_PICKLE_IS_DICT && count % 2)
        return fail(p, "a key without a value");
    return append(p, &to, count);
}

static int mark(struct parser *p, int unused, int unused_too) {
    (void)unused;
    (void)unused_too;
    if (p->mark_count == MAX_MARKS)
        return fail(p, "nested too deeply");
    p->marks[p->mark_count++] = p->depth;
    return 0;
}

// `bytes`: of the number in the memo; 0: the next one.
static int put(struct parser *p, int bytes, int unused) {
    uint64_t number = p->puts;
    (void)unused;
    if ((bytes && take_length(p, (unsigned)bytes, &number)) || needs(p, 1))
        return -1;
    if (number >= FREE_MEMO + 2 * p->puts || number >= MAX_VALUES)
        return fail(p, "a number of the memo that is out of order");
    while (p->memo_count <= number) {
        CT_HEAP_GROW(p->memo, p->memo_count, p->memo_room);
        p->memo[p->memo_count++] = (struct ct_pickle_value){.type = CT_PICKLE_IS_NONE};
    }
    p->memo[number] = p->stack[p->depth - 1];
    p->puts++;
    return 0;
}

static int get(struct parser *p, int bytes, int unused) {
    uint64_t number;
    (void)unused;
    if (take_length(p, (unsigned)bytes, &number))
        return -1;
    if (number >= p->memo_count)
        return fail(p, "a number of the memo that has no value");
    return push(p, p->memo[number]);
}

static int read_protocol(struct parser *p, int oldest, int newest) {
    uint64_t number;
    if (take_length(p, 1, &number))
        return -1;
    if (number < (uint64_t)oldest || number > (uint64_t)newest)
        return fail(p, "a protocol of pickle that is not 2 to 5");
    p->document->protocol = (unsigned)number;
    return 0;
}

// (The length of a frame says nothing that is needed here.)
static int skip(struct parser *p, int bytes, int unused) {
    (void)unused;
    return take(p, (uint64_t)bytes) ? 0 : -1;
}

static const struct {
    int (*run)(struct parser *, int, int);
    int a, b;
} actions[256] = {
    [CT_PICKLE_NONE] = {push_constant, CT_PICKLE_IS_NONE, 0},
    [CT_PICKLE_TRUE] = {push_constant, CT_PICKLE_IS_BOOL, 1},
    [CT_PICKLE_FALSE] = {push_constant, CT_PICKLE_IS_BOOL, 0},
    [CT_PICKLE_BININT] = {read_number, 4, 1},
    [CT_PICKLE_BININT1] = {read_number, 1, 0},
    [CT_PICKLE_BININT2] = {read_number, 2, 0},
    [CT_PICKLE_LONG1] = {read_long, 1, 0},
    [CT_PICKLE_LONG4] = {read_long, 4, 0},
    [CT_PICKLE_BINFLOAT] = {read_real, 8, 0},
    [CT_PICKLE_SHORT_BINUNICODE] = {read_text, 1, CT_PICKLE_IS_TEXT},
    [CT_PICKLE_BINUNICODE] = {read_text, 4, CT_PICKLE_IS_TEXT},
    [CT_PICKLE_BINUNICODE8] = {read_text, 8, CT_PICKLE_IS_TEXT},
    [CT_PICKLE_SHORT_BINBYTES] = {read_text, 1, CT_PICKLE_IS_BYTES},
    [CT_PICKLE_BINBYTES] = {read_text, 4, CT_PICKLE_IS_BYTES},
    [CT_PICKLE_BINBYTES8] = {read_text, 8, CT_PICKLE_IS_BYTES},
    [CT_PICKLE_EMPTY_DICT] = {build, CT_PICKLE_IS_DICT, 0},
    [CT_PICKLE_EMPTY_LIST] = {build, CT_PICKLE_IS_LIST, 0},
    [CT_PICKLE_EMPTY_TUPLE] = {build, CT_PICKLE_IS_TUPLE, 0},
    [CT_PICKLE_TUPLE1] = {build, CT_PICKLE_IS_TUPLE, 1},
    [CT_PICKLE_TUPLE2] = {build, CT_PICKLE_IS_TUPLE, 2},
    [CT_PICKLE_TUPLE3] = {build, CT_PICKLE_IS_TUPLE, 3},
    [CT_PICKLE_DICT] = {build, CT_PICKLE_IS_DICT, FROM_MARK},
    [CT_PICKLE_LIST] = {build, CT_PICKLE_IS_LIST, FROM_MARK},
    [CT_PICKLE_TUPLE] = {build, CT_PICKLE_IS_TUPLE, FROM_MARK},
    [CT_PICKLE_MARK] = {mark, 0, 0},
    [CT_PICKLE_SETITEM] = {extend, CT_PICKLE_IS_DICT, 2},
    [CT_PICKLE_APPEND] = {extend, CT_PICKLE_IS_LIST, 1},
    [CT_PICKLE_SETITEMS] = {extend, CT_PICKLE_IS_DICT, FROM_MARK},
    [CT_PICKLE_APPENDS] = {extend, CT_PICKLE_IS_LIST, FROM_MARK},
    [CT_PICKLE_MEMOIZE] = {put, 0, 0},
    [CT_PICKLE_BINPUT] = {put, 1, 0},
    [CT_PICKLE_LONG_BINPUT] = {put, 4, 0},
    [CT_PICKLE_BINGET] = {get, 1, 0},
    [CT_PICKLE_LONG_BINGET] = {get, 4, 0},
    [CT_PICKLE_FRAME] = {skip, 8, 0},
    [CT_PICKLE_PROTO] = {read_protocol, 2, NEWEST_PROTOCOL},
};

static int run(struct parser *p) {
    while (p->at < p->size) {
        p->op_at = p->at;
        const unsigned op = p->bytes[p->at++];
        if (op == CT_PICKLE_STOP) {
            if (p->depth != 1 || p->mark_count)
                return fail(p, "it ends with values that belong to nothing");
            p->document->root = p->stack[0];
            return 0;
        }
        if (actions[op].run ? actions[op].run(p, actions[op].a, actions[op].b) : fail_opcode(p))
            return -1;
    }
    return ct_error_set(p->error, CT_EXIT_BAD_TRACE,
                        "%.400s: the pickle has no end: the file is cut", p->name);
}

int ct_pickle_parse(struct ct_pickle_document *d, const char *name, const void *bytes, size_t size,
                    struct ct_error *error) {
    struct parser p = {.document = d, .name = name, .bytes = bytes, .size = size, .error = error};
    *d = (struct ct_pickle_document){0};
    CT_HEAP_GROW(d->chunks, d->chunk_count, d->chunk_room);
    d->chunks[d->chunk_count++] = (struct ct_pickle_chunk){0}; // 0 is none
    const int status = run(&p);
    free(p.stack);
    free(p.memo);
    return status;
}

void ct_pickle_document_free(struct ct_pickle_document *d) {
    free(d->items);
    free(d->containers);
    free(d->chunks);
    *d = (struct ct_pickle_document){0};
}

// ---- looking at it ------------------------------------------------------------------------------

static int is_container(const struct ct_pickle_value *v) {
    return v && v->type >= CT_PICKLE_IS_LIST;
}

struct ct_pickle_walk ct_pickle_walk(const struct ct_pickle_document *d,
                                     const struct ct_pickle_value *v) {
    return (struct ct_pickle_walk){
        .document = d, .chunk = is_container(v) ? d->containers[v->container].first : 0};
}

const struct ct_pickle_value *ct_pickle_next(struct ct_pickle_walk *w) {
    const struct ct_pickle_chunk *c = &w->document->chunks[w->chunk];
    if (!w->chunk)
        return NULL;
    const struct ct_pickle_value *v = &w->document->items[c->first + w->at];
    if (++w->at == c->count) {
        w->chunk = c->next;
        w->at = 0;
    }
    return v;
}

uint64_t ct_pickle_count(const struct ct_pickle_document *d, const struct ct_pickle_value *v) {
    return is_container(v) ? d->containers[v->container].count : 0;
}

int ct_pickle_is_text(const struct ct_pickle_value *v, const char *text) {
    const size_t n = strlen(text);
    return v && v->type == CT_PICKLE_IS_TEXT && v->length == n && memcmp(v->text, text, n) == 0;
}

const struct ct_pickle_value *ct_pickle_find(const struct ct_pickle_document *d,
                                             const struct ct_pickle_value *dict, const char *key) {
    const struct ct_pickle_value *k, *found = NULL;
    if (!dict || dict->type != CT_PICKLE_IS_DICT)
        return NULL;
    struct ct_pickle_walk w = ct_pickle_walk(d, dict);
    while ((k = ct_pickle_next(&w))) {
        const struct ct_pickle_value *v = ct_pickle_next(&w);
        if (ct_pickle_is_text(k, key))
            found = v;
    }
    return found;
}
