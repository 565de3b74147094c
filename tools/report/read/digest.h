// SPDX-License-Identifier: Apache-2.0
// The digests of chunks: read by the index alone, without decompressing anything.
#ifndef CT_DIGEST_READ_H
#define CT_DIGEST_READ_H

#include <cutrace/model/digest_code.h>

#include "read/index.h"

// Reads the digest of a chunk. 1; 0: it has none that counts; -1: it is damaged, and `*what` says
// how.
int ct_digest_read(const struct ct_source *source, const struct ct_index_chunk *chunk,
                   struct ct_digest *digest, struct ct_digest_body *body, const char **what);

// How many chunks of a trace have one that counts. The damaged ones are added to the index.
size_t ct_digest_count(struct ct_index *index, const struct ct_source *source);

// Reads the digests alone and compares each with that of the chunk before: what is live before a
// chunk is what was live after the other. Adds to the index what is damaged. Returns how many
// chunks have a digest.
size_t ct_digest_check_chain(struct ct_index *index, const struct ct_source *source);

// Adds the damage of a digest's frame to the index.
void ct_digest_add_damage(struct ct_index *index, const struct ct_index_chunk *chunk,
                          const char *what);

#endif
