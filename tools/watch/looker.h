// SPDX-License-Identifier: Apache-2.0
// A thread that looks at the processes, once in an interval, beside the one that answers clients or
// keys: a large trace keeps neither waiting.
#ifndef CT_WATCH_LOOKER_H
#define CT_WATCH_LOOKER_H

#include <pthread.h>
#include <stdint.h>

struct ct_looker {
    int (*look)(void *user); // is called without the lock; anything but 0 is the last look's
    void *user;
    uint64_t interval_ns;
    // The following are those of the thread.
    pthread_t thread;
    int looked;           // a descriptor: can be read when something is new, or it has ended
    pthread_mutex_t lock; // of what follows, and of what looks and others share
    pthread_cond_t wake;
    uint64_t next_ns;
    int is_paused, is_stopping, has_ended, code;
};

// Returns 0 or an error number.
int ct_looker_begin(struct ct_looker *l, int (*look)(void *user), void *user, unsigned interval_ms);
void ct_looker_lock(struct ct_looker *l);
void ct_looker_unlock(struct ct_looker *l);
// That something is new.
void ct_looker_tell(struct ct_looker *l);
// Takes what was told, so that the descriptor can be waited for again. Returns whether it has
// ended.
int ct_looker_listen(struct ct_looker *l);
// With the lock: the next look is at once, also of one that was paused.
void ct_looker_look_now(struct ct_looker *l);
// Ends it, and lets a look end that is under way, but not for longer. Returns whether it has ended;
// if not, what it uses must stay as it is.
int ct_looker_end(struct ct_looker *l, uint64_t most_ns);

#endif
