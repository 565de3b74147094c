// SPDX-License-Identifier: Apache-2.0
// The version of the tools, and the day of their manual.
#ifndef CT_VERSION_H
#define CT_VERSION_H

#define CT_VERSION "0.1.0"
#define CT_VERSION_DATE "2026-11-24"

#endif
