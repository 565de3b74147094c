// SPDX-License-Identifier: Apache-2.0
// The opcodes of Python's pickle that are written and read here.
#ifndef CT_PICKLE_OPCODES_H
#define CT_PICKLE_OPCODES_H

enum ct_pickle_opcode {
#define CT_PICKLE_OPCODE(NAME, code) CT_PICKLE_##NAME = (code),
#include "base/pickle_opcodes.def"
};

#endif
