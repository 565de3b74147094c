// SPDX-License-Identifier: Apache-2.0
// cutrace ctl: sends a request to a running recorder, through its journal.
#ifndef CT_CTL_H
#define CT_CTL_H

// `argv` begins after "ctl". Returns the exit code.
int ct_ctl_main(int argc, char **argv);

#endif
