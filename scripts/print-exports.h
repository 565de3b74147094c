// SPDX-License-Identifier: Apache-2.0
// Expands the hook table into the names that the library exports; used by `make print-exports`
// only.
#define CT_HOOK(symbol, ...) CT_EXPORT symbol
#define CT_RTHOOK(symbol, ...) CT_EXPORT symbol
#define CT_TORCH(symbol, ...) CT_EXPORT symbol
#define CT_ANNOTATION(symbol, ...) CT_EXPORT symbol
#define CT_INJECTION(symbol) CT_EXPORT symbol
CT_EXPORT dlsym
CT_EXPORT dlvsym
CT_EXPORT cuptiSubscribe
CT_EXPORT cuptiSubscribe_v2
#include CT_HOOKS_DEF
