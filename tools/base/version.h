// SPDX-License-Identifier: Apache-2.0
// The version of the tools.
#ifndef CT_VERSION_H
#define CT_VERSION_H

#define CT_VERSION "0.1.0"

#endif
