// SPDX-License-Identifier: Apache-2.0
// cutrace ctl: asks a running recorder for something, through its journal alone.
#ifndef CT_CTL_H
#define CT_CTL_H

// `argv` begins behind "ctl". Returns the exit code.
int ct_ctl_main(int argc, char **argv);

#endif
