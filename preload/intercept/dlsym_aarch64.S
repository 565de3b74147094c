// SPDX-License-Identifier: Apache-2.0
// The exported dlsym and dlvsym for aarch64. dlsym_x86_64.S explains them.

#ifdef __aarch64__

    .text

.macro INTERPOSE name, wants, hook, real, find
    .globl \name
    .type \name, %function
    .p2align 4
\name:
    hint #34 // bti c
    cbz x1, 1f
    ldrb w9, [x1]
    cmp w9, #'c'
    b.ne 1f
    ldrb w9, [x1, #1]
    cmp w9, #'u'
    b.ne 1f
    ldrb w9, [x1, #2]
    cmp w9, #'p'
    b.eq 3f
    sub w9, w9, #'A'
    cmp w9, #25
    b.hi 1f
3:
    stp x29, x30, [sp, #-48]!
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    mov x2, x30 // the return address
    bl \wants
    mov w9, w0
    ldr x2, [sp, #32]
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #48
    cbz w9, 1f
    b \hook
1:
    adrp x9, \real
    ldr x9, [x9, :lo12:\real]
    cbz x9, 2f
    br x9
2:
    stp x29, x30, [sp, #-48]!
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    bl \find
    mov x9, x0
    ldr x2, [sp, #32]
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #48
    br x9
    .size \name, . - \name
.endm

INTERPOSE dlsym, ct_resolve_wants_dlsym, ct_resolve_dlsym, ct_real_dlsym, ct_real_dlsym_resolve
INTERPOSE dlvsym, ct_resolve_wants_dlsym, ct_resolve_dlvsym, ct_real_dlvsym, ct_real_dlvsym_resolve

#endif
    .section .note.GNU-stack, "", %progbits
