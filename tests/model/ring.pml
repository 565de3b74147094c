// SPDX-License-Identifier: Apache-2.0
// The rings' protocol (preload/store/ring.c), for spin: two threads that publish, one drainer, and a memory that does what
// C11 allows with the orders that the code uses.
//
// Memory: what a thread stores goes into a buffer of its own, and from there to the others at some time: a release
// store behind everything before it, a relaxed store past anything but a store to the same place. Loads happen
// where they stand. The clock is no memory: reading it tells the one true time. What a thread puts into its buffer without
// looking at anything in between is one step, since the buffer gives it out at any time later.
//
// Worlds:  -DEVENTS= of the threads, -DMORE= of the first one, -DSLOTS= of a ring, -DDRAINS= before the last one
//   -DTHREADS_FENCE    the threads wait until their own buffer is empty (seq_cst); without it the drainer makes all
//                      buffers empty (membarrier)
//   -DCLOCK_STANDS     two readings of the clock may be the same
// Faults, each of which must be found:
//   -DNO_ANNOUNCEMENT  nobody says that an event is on its way
//   -DNO_FENCE         neither side fences
//   -DNO_SECOND_LOOK   an event that was timed early does not look at the watermark
//   -DQUIET_TOO_EARLY  the announcement ends before the head has moved
//   -DHEAD_TOO_EARLY   the head moves before the record is written
//   -DHEAD_RELAXED     the head is stored without release
//   -DHEADS_FIRST      the drainer reads the heads before the clock
//   -DTAIL_TOO_EARLY   the drainer moves the tail before it has read the records
//   -DNEVER_FULL       nobody looks at the tail
//   -DLOSS_KEPT        the count of losses is told, but not taken away
#ifndef EVENTS
#define EVENTS 2
#endif
#ifndef MORE
#define MORE 0
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef DRAINS
#define DRAINS 1
#endif
#define THREADS 2
#define BUFFER 6
#define RECORDS (2 * (EVENTS + MORE)) // of a ring, ever
#define QUIET 255

// ---- what all see -----------------------------------------------------------------------------
byte announced[THREADS] = QUIET;
byte head[THREADS];
byte tail[THREADS];
byte lost[THREADS];
byte slot[THREADS * SLOTS]; // which record lies there; 1 is the first one ever
byte watermark;
byte now = 1;

// What the records say. They are written once, before anybody can see them in a slot.
byte time_of[THREADS * RECORDS];
byte losses_in[THREADS * RECORDS]; // of a LOST record; 0: it is an event

// For the claims only.
byte refused, finished;

// ---- store buffers ----------------------------------------------------------------------------
#define TO_ANNOUNCED 1
#define TO_HEAD 2
#define TO_SLOT 3 // and following
byte place[THREADS * BUFFER];
byte value[THREADS * BUFFER];
bit release[THREADS * BUFFER];
byte waiting[THREADS];

#define AT(i) (me * BUFFER + (i))

inline store(where, what, is_release) {
    place[AT(waiting[me])] = where;
    value[AT(waiting[me])] = what;
    release[AT(waiting[me])] = is_release;
    waiting[me]++
}

// Entry i of thread `me` becomes visible.
inline commit(i) {
    if
    :: place[AT(i)] == TO_ANNOUNCED -> announced[me] = value[AT(i)]
    :: place[AT(i)] == TO_HEAD -> head[me] = value[AT(i)]
    :: else -> slot[me * SLOTS + place[AT(i)] - TO_SLOT] = value[AT(i)]
    fi;
    shift = i;
    do
    :: shift + 1 < waiting[me] ->
        place[AT(shift)] = place[AT(shift + 1)];
        value[AT(shift)] = value[AT(shift + 1)];
        release[AT(shift)] = release[AT(shift + 1)];
        shift++
    :: else -> break
    od;
    waiting[me]--;
    place[AT(waiting[me])] = 0;
    value[AT(waiting[me])] = 0;
    release[AT(waiting[me])] = 0;
    shift = 0
}

#define PAST(i, j) (place[AT(i)] != place[AT(j)])
#define MAY(i) (waiting[me] > i && !release[AT(i)])

proctype memory(byte me) {
    byte shift;
end:
    do
    :: d_step { waiting[me] > 0 -> commit(0) }
    :: d_step { MAY(1) && PAST(1, 0) -> commit(1) }
    :: d_step { MAY(2) && PAST(2, 0) && PAST(2, 1) -> commit(2) }
    :: d_step { MAY(3) && PAST(3, 0) && PAST(3, 1) && PAST(3, 2) -> commit(3) }
    :: d_step { MAY(4) && PAST(4, 0) && PAST(4, 1) && PAST(4, 2) && PAST(4, 3) -> commit(4) }
    od
}

// ---- a thread that publishes ------------------------------------------------------------------
inline tick() {
#ifdef CLOCK_STANDS
    if
    :: now++
    :: skip
    fi
#else
    now++
#endif
}

// ct_ring_now: strictly rising within the thread.
inline read_clock() {
    tick();
    last = (now > last -> now : last + 1);
    t = last
}

inline put_record(losses) {
    time_of[me * RECORDS + filled] = t;
    losses_in[me * RECORDS + filled] = losses;
    newest = t;
    t = 0;
    filled++;
#if defined(HEAD_TOO_EARLY)
    store(TO_HEAD, filled, 1);
    store(TO_SLOT + (filled - 1) % SLOTS, filled, 0)
#elif defined(HEAD_RELAXED)
    store(TO_SLOT + (filled - 1) % SLOTS, filled, 0);
    store(TO_HEAD, filled, 0)
#else
    store(TO_SLOT + (filled - 1) % SLOTS, filled, 0);
    store(TO_HEAD, filled, 1)
#endif
}

inline put_event() {
#if defined(NO_ANNOUNCEMENT)
    put_record(0)
#elif defined(QUIET_TOO_EARLY)
    store(TO_ANNOUNCED, QUIET, 1);
    put_record(0)
#else
    put_record(0);
    store(TO_ANNOUNCED, QUIET, 1)
#endif
}

inline announce(bound) {
#ifndef NO_ANNOUNCEMENT
    store(TO_ANNOUNCED, bound, 0)
#else
    skip
#endif
}

#if defined(THREADS_FENCE) && !defined(NO_FENCE)
#define FENCED (waiting[me] == 0)
#else
#define FENCED (waiting[me] <= BUFFER - 5) // there is room for what follows
#endif

#ifdef NEVER_FULL
#define FULL 0
#else
#define FULL (filled + (lost[me] -> 2 : 1) - tail[me] > SLOTS)
#endif

#ifdef NO_SECOND_LOOK
#define TOO_LATE 0
#else
#define TOO_LATE (t < watermark || t <= newest)
#endif

#define UNTIMED 0
#define TIMED 1
#define AFTER_LOSS 2

proctype thread(byte me) {
    byte published, filled, last, newest, t, how, losses;
    do
    :: published < EVENTS + (me -> 0 : MORE) ->
        // Its time may have been taken by ct_ring_now, at some time before.
        atomic {
            published++;
            if
            :: read_clock(); how = TIMED
            :: how = UNTIMED
            fi
        };
        atomic {
            waiting[me] < BUFFER ->
            if
            :: FULL -> lost[me]++; refused++; t = 0; goto next
            :: else
            fi;
            if
            :: lost[me] -> how = AFTER_LOSS; t = 0
            :: else
            fi;
            if
            :: how == TIMED -> announce(t)
            :: else -> announce(watermark)
            fi
        };
        atomic {
            FENCED ->
            if
            :: how == TIMED && !TOO_LATE
            :: else -> read_clock()
            fi
        };
        if
        :: how == AFTER_LOSS ->
            atomic {
                losses = lost[me];
#ifndef LOSS_KEPT
                lost[me] = 0;
#endif
                if
                :: losses -> put_record(losses); losses = 0
                :: else
                fi
            };
            atomic { read_clock() }
        :: else
        fi;
        atomic { put_event() };
next:   how = UNTIMED
    :: else -> break
    od;
    finished++
}

// ---- the drainer ------------------------------------------------------------------------------
byte limit, passed, newest_taken, told, taken;
byte heads[THREADS];
byte at[THREADS];

inline flush(i) {
    d_step {
        me = i;
        do
        :: waiting[me] > 0 -> commit(0)
        :: else -> break
        od;
        me = 0
    }
}

inline bound_by(i) {
    d_step {
        if
        :: announced[i] < limit -> limit = announced[i]
        :: else
        fi
    }
}

inline find_limit() {
    atomic { tick(); limit = now };
    watermark = limit;
#if !defined(THREADS_FENCE) && !defined(NO_FENCE)
    flush(0);
    flush(1);
#endif
#ifndef NO_ANNOUNCEMENT
    bound_by(0);
    bound_by(1)
#endif
}

inline read_heads() {
    heads[0] = head[0];
    heads[1] = head[1]
}

#define RECORD(i) ((i) * RECORDS + slot[(i) * SLOTS + at[i] % SLOTS] - 1)
#define READY(i) (at[i] < heads[i] && time_of[RECORD(i)] < limit)

// The record that belongs there: none overwritten, none half written, each once.
#define SOUND(i) assert(at[i] >= heads[i] || slot[(i) * SLOTS + at[i] % SLOTS] == at[i] + 1)

inline take(i) {
    record = RECORD(i);
    // Nothing comes that is older than what is gone.
    assert(time_of[record] >= passed && time_of[record] >= newest_taken);
    newest_taken = time_of[record];
    if
    :: losses_in[record] -> told = told + losses_in[record]
    :: else -> taken++
    fi;
    time_of[record] = 0;
    losses_in[record] = 0;
    record = 0;
    at[i]++
}

inline take_all() {
    d_step {
        do
        :: true ->
            SOUND(0);
            SOUND(1);
            if
            :: READY(0) && (!READY(1) || time_of[RECORD(0)] <= time_of[RECORD(1)]) -> take(0)
            :: READY(1) && (!READY(0) || time_of[RECORD(1)] < time_of[RECORD(0)]) -> take(1)
            :: else -> break
            fi
        od;
        passed = limit;
        limit = 0;
        heads[0] = 0;
        heads[1] = 0
    }
}

inline move_tails() {
#ifdef TAIL_TOO_EARLY
    tail[0] = heads[0];
    tail[1] = heads[1]
#else
    tail[0] = at[0];
    tail[1] = at[1]
#endif
}

inline tell_losses(i) {
    atomic {
        if
        :: lost[i] && head[i] == tail[i] -> told = told + lost[i]; lost[i] = 0
        :: else
        fi
    }
}

inline drain() {
#ifdef HEADS_FIRST
    read_heads();
    find_limit();
#else
    find_limit();
    read_heads();
#endif
#ifdef TAIL_TOO_EARLY
    move_tails();
    take_all();
#else
    take_all();
    move_tails();
#endif
    tell_losses(0);
    tell_losses(1)
}

init {
    byte drains, record, me, shift;
    atomic {
        run thread(0);
        run thread(1);
        run memory(0);
        run memory(1)
    };
    do
    :: drains < DRAINS -> drain(); drains++
    :: else -> break
    od;
    // The last one, when the threads have gone: later than everything.
    atomic { finished == THREADS && waiting[0] == 0 && waiting[1] == 0 -> now = QUIET - 2 };
    drain();
    assert(taken + told == THREADS * EVENTS + MORE && told == refused);
    assert(at[0] == head[0] && at[1] == head[1])
}
