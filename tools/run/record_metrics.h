// SPDX-License-Identifier: Apache-2.0
// cutrace record-metrics: writes a server's metrics over time to a file.
#ifndef CT_RECORD_METRICS_H
#define CT_RECORD_METRICS_H

// `argv` begins after "record-metrics". Returns the exit code.
int ct_record_metrics_main(int argc, char **argv);

#endif
