// SPDX-License-Identifier: Apache-2.0
// INFO about the command lines that started the process: process.argv, and flag.NAME,
// flag.NAME.from and process.program by cutrace/format/cli_flags.def. Servers start their workers
// by multiprocessing, whose command lines have no flags, and give them titles: the flags are on the
// command line of an ancestor.
#ifndef CT_WRITE_COMMAND_LINE_H
#define CT_WRITE_COMMAND_LINE_H

// Publishes the process's own command line. Drain lock held.
void ct_command_line_publish(void);

// Publishes the flags of its ancestors that are not on its own command line. Writer thread only,
// without the drain lock: the kernel reads the memory of another process, which may take as long as
// that process has it locked.
void ct_command_line_read_ancestors(void);

#endif
