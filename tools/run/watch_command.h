// SPDX-License-Identifier: Apache-2.0
#ifndef CT_WATCH_COMMAND_H
#define CT_WATCH_COMMAND_H

int ct_watch_main(int argc, char **argv);

#endif
