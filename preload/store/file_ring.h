// SPDX-License-Identifier: Apache-2.0
// The ring of chunks in the trace file: a file of bounded size that is a valid .zst at every
// instant. Chunks go in and are never read back. The caller passes the descriptor. Drain lock held.
#ifndef CT_STORE_FILE_RING_H
#define CT_STORE_FILE_RING_H

#include <stddef.h>
#include <stdint.h>

// The two ranges of chunks that may be protected: those around the first and around the last OOM.
enum ct_protected { CT_PROTECTED_FIRST_OOM, CT_PROTECTED_LAST_OOM, CT_PROTECTED_RANGES };

// Starts with a new file of 0 bytes that may grow to `bound` bytes (0: without a bound).
void ct_file_ring_reset(uint64_t bound);

// Puts a chunk of n bytes (a multiple of 8) into the file and overwrites the oldest chunks where it
// must. Returns 0, or -errno: the chunk is not in the file, or only in place of its provisional
// one, and the file is as valid as before. -EFBIG: the chunk is larger than the bound, or fits only
// where the restart chunk that it depends on lies.
int ct_file_ring_append(int fd, const void *chunk, size_t n, uint64_t seq, unsigned flags);

// Puts a provisional chunk, a version of the chunk that is appended next, into the file. It
// replaces the version before, and is replaced by the next one or by the chunk itself, always after
// that is complete. Returns 0, or -errno: there is no room that it could take, and the version
// before stays. It takes none from protected chunks nor from those that the open chunk depends on.
int ct_file_ring_put_provisional(int fd, const void *chunk, size_t n);

// Removes the provisional chunk: the chunk itself will not come. Returns 0 or -errno.
int ct_file_ring_drop_provisional(int fd);

// The error that kept the file from growing during the last append, or 0. That append may have
// succeeded all the same.
int ct_file_ring_get_growth_error(void);

// Adopts `size`, the size that the file was found to have: forgets the chunks that another program
// cut off, and cuts off bytes that it appended. Returns 1 if chunks were lost, 0 if none, or
// -errno.
int ct_file_ring_adopt_size(int fd, uint64_t size);

// Cuts off free space at the end of the file. Returns 0 or -errno.
int ct_file_ring_trim(int fd);

// Protects chunks first_seq .. last_seq, also future ones, from being overwritten. A call replaces
// the range that an earlier call gave for `which`; first_seq > last_seq removes it. first_seq is a
// restart chunk: without it a reader cannot use the chunks after it. At most half of the file is
// protected. Beyond that, whole restart intervals lose their protection, the oldest one of the
// longer range first.
void ct_file_ring_protect(uint64_t first_seq, uint64_t last_seq, enum ct_protected which);

// From this seq on, all chunks up to the newest are in the file.
uint64_t ct_file_ring_get_oldest_seq(void);

// Bytes of all chunks ever written, provisional ones included.
uint64_t ct_file_ring_get_written_bytes(void);

// Bytes of the file.
uint64_t ct_file_ring_get_size(void);

// Bytes that the file may have: the bound, or its size while it cannot grow. 0: no bound.
uint64_t ct_file_ring_get_capacity(void);

#endif
