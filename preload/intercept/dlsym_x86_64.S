// SPDX-License-Identifier: Apache-2.0
// dlsym and dlvsym for x86-64: look-ups that are none of ours go on by a jump.
//
// glibc takes the return address of dlsym as its caller and resolves RTLD_NEXT and RTLD_DEFAULT
// relative to that object. A call from here would make this library the caller, and the host's
// interposers would find themselves (LLVM's OpenMP did, under HAMi-core#315). Hence assembly: a C
// compiler only promises a jump at some optimisation levels.

#ifdef __x86_64__

    .text

// name: the exported function; wants: int (handle, name); hook: the C body, same arguments;
// real: pointer to the next definition; find: returns it when the pointer is still empty
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
    subl $'A', %eax
    cmpl $25, %eax
    ja 1f
    pushq %rdi
    pushq %rsi
    pushq %rdx
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
