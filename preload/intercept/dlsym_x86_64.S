// SPDX-License-Identifier: Apache-2.0
// The exported dlsym and dlvsym for x86-64. A look-up of a name `cu[A-Zp]...` may go to the
// resolver; every other look-up goes on to the next definition by a jump.
//
// glibc takes the return address of dlsym as the caller, and resolves RTLD_NEXT and RTLD_DEFAULT
// relative to the caller's object. A call from here would make this library the caller, and an
// interposer of the host would find itself (LLVM's OpenMP did, under HAMi-core#315). Hence
// assembly: a C compiler promises a jump at some optimization levels only.

#ifdef __x86_64__

    .text

// name: the exported function; wants: int (handle, name, return
// address), whether the look-up goes to hook; hook:
// the C function with the same parameters; real: a pointer to the next definition; find: returns
// the next definition while the pointer is empty.
.macro INTERPOSE name, wants, hook, real, find
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    endbr64
    testq %rsi, %rsi
    je 1f
    cmpb $'c', (%rsi)
    jne 1f
    cmpb $'u', 1(%rsi)
    jne 1f
    movzbl 2(%rsi), %eax
    cmpl $'p', %eax
    je 3f
    subl $'A', %eax
    cmpl $25, %eax
    ja 1f
3:
    pushq %rdi
    pushq %rsi
    pushq %rdx
    movq 24(%rsp), %rdx // the return address
    call \wants
    popq %rdx
    popq %rsi
    popq %rdi
    testl %eax, %eax
    je 1f
    jmp \hook
1:
    movq \real(%rip), %rax
    testq %rax, %rax
    je 2f
    jmp *%rax
2:
    pushq %rdi
    pushq %rsi
    pushq %rdx
    call \find
    popq %rdx
    popq %rsi
    popq %rdi
    jmp *%rax
    .size \name, . - \name
.endm

INTERPOSE dlsym, ct_resolve_wants_dlsym, ct_resolve_dlsym, ct_real_dlsym, ct_real_dlsym_resolve
INTERPOSE dlvsym, ct_resolve_wants_dlsym, ct_resolve_dlvsym, ct_real_dlvsym, ct_real_dlvsym_resolve

#endif
    .section .note.GNU-stack, "", @progbits
