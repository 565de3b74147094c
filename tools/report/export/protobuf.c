// SPDX-License-Identifier: Apache-2.0
#include "export/protobuf.h"

#include <string.h>

#include "base/heap.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };

static void append(struct ct_message *m, const void *bytes, size_t size) {
    if (m->room - m->size < size) {
        m->room = (m->size + size) * 2;
        m->bytes = ct_heap_resize(m->bytes, m->room, 1);
    }
    if (size)
        memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

void ct_message_free(struct ct_message *m) {
    free(m->bytes);
    *m = (struct ct_message){0};
}

static size_t encode_varint(uint8_t *to, uint64_t value) {
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        to[n++] = (uint8_t)(value | 0x80);
    to[n++] = (uint8_t)value;
    return n;
}

void ct_message_varint(struct ct_message *m, uint64_t value) {
    uint8_t bytes[10];
    append(m, bytes, encode_varint(bytes, value));
}

void ct_message_number(struct ct_message *m, unsigned number, uint64_t value) {
    ct_message_varint(m, number << 3 | WIRE_VARINT);
    ct_message_varint(m, value);
}

static void put_bytes(struct ct_message *m, unsigned number, const void *bytes, size_t size) {
    ct_message_varint(m, number << 3 | WIRE_BYTES);
    ct_message_varint(m, size);
    append(m, bytes, size);
}

void ct_message_text(struct ct_message *m, unsigned number, const char *text) {
    put_bytes(m, number, text, strlen(text));
}

void ct_message_put(struct ct_message *m, unsigned number, const struct ct_message *field) {
    put_bytes(m, number, field->bytes, field->size);
}

void ct_message_write(FILE *out, unsigned number, const struct ct_message *m) {
    uint8_t head[20];
    const size_t tag = encode_varint(head, number << 3 | WIRE_BYTES);
    const size_t n = tag + encode_varint(head + tag, m->size);
    fwrite(head, 1, n, out);
    if (m->size)
        fwrite(m->bytes, 1, m->size, out);
}
