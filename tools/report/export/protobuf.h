// SPDX-License-Identifier: Apache-2.0
// Writes messages of Protocol Buffers: fields one after the other in memory, a message inside
// another one as bytes. The encoding is that of protobuf.dev/programming-guides/encoding.
#ifndef CT_PROTOBUF_H
#define CT_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ct_message {
    uint8_t *bytes;
    size_t size, room;
};

void ct_message_free(struct ct_message *m);
// Empties a message, which keeps its memory.
static inline void ct_message_clear(struct ct_message *m) {
    m->size = 0;
}
void ct_message_varint(struct ct_message *m, uint64_t value);
// Fields: `number` is that of the .proto file. A negative int64 is its two's complement.
void ct_message_number(struct ct_message *m, unsigned number, uint64_t value);
void ct_message_text(struct ct_message *m, unsigned number, const char *text);
void ct_message_put(struct ct_message *m, unsigned number, const struct ct_message *field);
// Writes a message to a stream as a field of the outermost one.
void ct_message_write(FILE *out, unsigned number, const struct ct_message *m);

#endif
