// SPDX-License-Identifier: Apache-2.0
// Names in the journal: a name is in the journal before any thread publishes an event with it,
// whatever state the other threads are in. Reads it by cutrace/format/journal.h alone.
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cutrace/format/journal.h>

#include "../lib/unit.h"
#include "store/journal.h"
#include "store/name_table.h"

// ---- threads that stand still (both functions are wrapped by the linker) ------------------------

static sem_t has_come, may_go;
static int of_putting, of_looking; // whether the next that comes is halted

static void halt_once(int *asked) {
    if (!__atomic_exchange_n(asked, 0, __ATOMIC_SEQ_CST))
        return;
    sem_post(&has_come);
    sem_wait(&may_go);
}

void __real_ct_journal_add_name(uint32_t id, const char *text);
void __wrap_ct_journal_add_name(uint32_t id, const char *text);
void __wrap_ct_journal_add_name(uint32_t id, const char *text) {
    halt_once(&of_putting);
    __real_ct_journal_add_name(id, text);
}

const char *__real_ct_name_get_text(uint32_t id);
const char *__wrap_ct_name_get_text(uint32_t id);
const char *__wrap_ct_name_get_text(uint32_t id) {
    halt_once(&of_looking);
    return __real_ct_name_get_text(id);
}

// ---- what the journal says ----------------------------------------------------------------------

static char path[] = "/tmp/cutrace-journal.XXXXXX/trace.zst", folder[sizeof path];

static const char *text_of(uint32_t id) {
    const struct ct_journal *h = ct_journal_get();
    const char *base = (const char *)h;
    uint32_t at;
    assert_non_null(h);
    assert_memory_equal(h->magic, CT_JOURNAL_MAGIC, sizeof h->magic);
    memcpy(&at, base + h->names_at + (uint64_t)id * 4, 4);
    return at ? base + h->texts_at + at : NULL;
}

// ---- the tests ----------------------------------------------------------------------------------

static const char early[] = "a name from before the journal", both[] = "a name that two ask for";
static uint32_t early_id;

static void *opens(void *unused) {
    assert_int_equal(ct_journal_open(path, 7, ct_name_get_text), 0);
    return unused;
}

static void *asks(void *id) {
    *(uint32_t *)id = ct_name_intern(both);
    return NULL;
}

// Who opens the journal is halted before it has put any name: whoever gets a ring all the same
// finds them there.
TEST(a_ring_comes_behind_the_names) {
    pthread_t opener;
    size_t bytes = 0;
    int is_apart;
    early_id = ct_name_intern(early);
    assert_int_not_equal(early_id, 0);
    of_looking = 1;
    assert_int_equal(pthread_create(&opener, NULL, opens, NULL), 0);
    sem_wait(&has_come);
    assert_null(text_of(early_id));
    assert_non_null(ct_journal_add_ring(&bytes, &is_apart));
    assert_string_equal(text_of(early_id), early);
    sem_post(&may_go);
    assert_int_equal(pthread_join(opener, NULL), 0);
    assert_string_equal(text_of(early_id), early);
}

// Two threads record the same new name. The first one stops before it has stored the name in the
// journal; the second one stores it there itself before it gets the number.
TEST(the_second_with_a_name_does_not_wait) {
    pthread_t first;
    uint32_t id_of_first = 0;
    of_putting = 1;
    assert_int_equal(pthread_create(&first, NULL, asks, &id_of_first), 0);
    sem_wait(&has_come);
    const uint32_t id = ct_name_intern(both);
    assert_string_equal(text_of(id), both);
    sem_post(&may_go);
    assert_int_equal(pthread_join(first, NULL), 0);
    assert_int_equal(id_of_first, id);
    assert_string_equal(text_of(id), both);
}

BEFORE_ALL {
    *strrchr(path, '/') = '\0';
    if (!mkdtemp(path))
        return -1;
    strcpy(folder, path);
    strcat(path, "/trace.zst");
    return sem_init(&has_come, 0, 0) || sem_init(&may_go, 0, 0);
}

AFTER_ALL {
    ct_journal_remove_file();
    return rmdir(folder);
}
