// SPDX-License-Identifier: Apache-2.0
// The binary ledger (SIM_LEDGER_MAP): a sparse file that the driver maps MAP_SHARED, so that what a
// call has stored outlives the process at any instruction. tests/lib/check_ledger.py reads it.
//
//   page 0    struct sim_map
//   names     SIM_MAP_NAMES texts of SIM_MAP_NAME bytes; the first `names` are complete
//   threads   SIM_MAP_THREADS of struct sim_map_thread; the first `threads` are taken
//   records   struct sim_map_record; the first `records` are complete, in the order in which the
//             driver did the calls
#ifndef SIM_LEDGER_MAP_H
#define SIM_LEDGER_MAP_H

#include <stdatomic.h>
#include <stdint.h>

#define SIM_MAP_MAGIC "SIMLEDG1"
#define SIM_MAP_NAMES 1024u
#define SIM_MAP_NAME 64u
#define SIM_MAP_THREADS 4096u
#define SIM_MAP_NAMES_AT 4096u
#define SIM_MAP_THREADS_AT (SIM_MAP_NAMES_AT + SIM_MAP_NAMES * SIM_MAP_NAME)
#define SIM_MAP_RECORDS_AT (SIM_MAP_THREADS_AT + SIM_MAP_THREADS * 64u)

struct sim_map {
    char magic[8];
    uint32_t pid, reserved;
    uint64_t room; // for so many records
    _Atomic uint64_t records, names, threads;
    _Atomic uint64_t full; // calls that found no room: then the ledger is no truth
};

struct sim_map_thread {
    uint32_t tid;
    _Atomic uint32_t in_call; // name + 1 of the call that is inside the driver, else 0
    // Calls of this thread that are in the ledger, those of the driver itself apart.
    _Atomic uint64_t records;
    // How many of them have come back to the program, as it told (sim_driver_returned).
    _Atomic uint64_t returned;
    uint64_t reserved[5];
};
_Static_assert(sizeof(struct sim_map_thread) == 64, "the reader counts on it");

struct sim_map_record {
    uint64_t t_ns;
    uint32_t tid;
    uint16_t api, op; // names
    uint32_t has;     // enum sim_has
    int32_t device, result, depth;
    uint64_t context, ptr, bytes, offset, handle, pool, stream, free, total;
    uint64_t reserved[2];
};
_Static_assert(sizeof(struct sim_map_record) == 120, "the reader counts on it");

#endif
