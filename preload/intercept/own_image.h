// SPDX-License-Identifier: Apache-2.0
// The address range of this library.
#ifndef CT_OWN_IMAGE_H
#define CT_OWN_IMAGE_H

// Whether an address lies in this library's image. Any thread at any time.
int ct_own_image_has(const void *address);

#endif
