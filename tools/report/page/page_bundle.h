// SPDX-License-Identifier: Apache-2.0
// The style and the script of the page (bundle/page.css, bundle/page.js), as they stand in the
// program. Both are ASCII, end with a NUL that does not count, and can be written between their
// tags as they are.
#ifndef CT_PAGE_BUNDLE_H
#define CT_PAGE_BUNDLE_H

#include <stddef.h>

extern const char ct_page_style[], ct_page_script[];
extern const size_t ct_page_style_bytes, ct_page_script_bytes;
// The SHA-256 of each in base64, for the content security policy: 'sha256-HASH'.
extern const char ct_page_style_hash[], ct_page_script_hash[];

#endif
