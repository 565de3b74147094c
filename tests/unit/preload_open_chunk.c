// SPDX-License-Identifier: Apache-2.0
// The open chunk: its header in the journal, and the prefix of the chunk that is built from it,
// have the times of the numbered events, wherever AMEND records stand.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/unit.h"
#include "store/chunk_encode.h"
#include "store/journal.h"
#include "store/name_table.h"
#include "write/drain_lock.h"
#include "write/open_chunk.h"

static char path[] = "/tmp/cutrace-open-chunk.XXXXXX/trace.zst", folder[sizeof path];

static void put(enum ct_op op, uint64_t t_ns) {
    struct ct_event e = {0};
    CT_SET(&e, op, op);
    CT_SET(&e, t_ns, t_ns);
    if (op == CT_OP_AMEND)
        CT_SET(&e, amends_ns, t_ns - 1);
    const struct ct_encoder_probe probe = ct_encoder_probe(ct_open_chunk_get_encoder(), &e);
    assert_int_equal(ct_open_chunk_put_event(&e, &probe, 0), 0);
}

// What the chunk says of itself: in the file, and in the journal after a kill.
static void expect(uint32_t events, uint64_t t_first_ns, uint64_t t_last_ns) {
    static uint8_t out[1 << 16];
    struct ct_chunk head = {.trace_id = 7};
    ct_open_chunk_commit(1);
    const struct ct_journal *h = ct_journal_get();
    const struct ct_journal_open *open = &h->open[h->committed & 1];
    assert_int_not_equal(ct_open_chunk_build(&head, NULL, 0, NULL, out, sizeof out), 0);
    memcpy(&head, out + 8, sizeof head);
    assert_int_equal(head.events, events);
    assert_int_equal(head.t_first_ns, t_first_ns);
    assert_int_equal(head.t_last_ns, t_last_ns);
    assert_int_equal(open->events, events);
    assert_int_equal(open->t_first_ns, t_first_ns);
    assert_int_equal(open->t_last_ns, t_last_ns);
}

TEST(times_are_those_of_numbered_events) {
    struct ct_signal_guard guard;
    assert_int_equal(ct_drain_lock_wait(&guard, 1000), 0);
    assert_int_equal(ct_open_chunk_begin(0, 0, 0), 0);
    expect(0, 0, 0);
    put(CT_OP_AMEND, 1000);
    expect(0, 0, 0);
    put(CT_OP_FREE, 2000);
    expect(1, 2000, 2000);
    put(CT_OP_FREE, 3000);
    expect(2, 2000, 3000);
    put(CT_OP_AMEND, 4000);
    expect(2, 2000, 3000);
    ct_drain_lock_release(&guard);
}

BEFORE_ALL {
    *strrchr(path, '/') = '\0';
    if (!mkdtemp(path))
        return -1;
    strcpy(folder, path);
    strcat(path, "/trace.zst");
    return ct_journal_open(path, 7, ct_name_get_text);
}

AFTER_ALL {
    ct_journal_remove_file();
    return rmdir(folder);
}
