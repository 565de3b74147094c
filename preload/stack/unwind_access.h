// SPDX-License-Identifier: Apache-2.0
// Whether an address can be read, without a file descriptor and without a signal.
#ifndef CT_UNWIND_ACCESS_H
#define CT_UNWIND_ACCESS_H

// Whether the 8 bytes that hold the address can be read. A system call; changes errno.
int ct_unwind_access_is_readable(const void *address);

#endif
