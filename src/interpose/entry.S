/* The assembly entries: exported names, and dlsym, which must not change its caller. */
#include "interpose/assembly.h"

#if defined(__x86_64__)
#define JUMP		jmp
#else
#define JUMP		b
#endif

/* Every exported driver name jumps to its hook, so that the hook finds the caller's return address
 * where it would be without us. The entries lie in a section of their own, in the order of
 * hooks.def, HOOK_ENTRY_SIZE bytes each: hooks.c finds them there, and not by names that an
 * interposer can take over. */
#define HOOK(name, base, since, per_thread, parameters)		\
	.globl	name;						\
	.type	name, %function;				\
name:								\
	ENTER;							\
	JUMP	hook_##name;					\
	.size	name, . - name;					\
	.org	name + HOOK_ENTRY_SIZE;

	.section hook_entries, "ax", %progbits
	.p2align 4
	.cfi_startproc
#include "interpose/hooks.def"
	.cfi_endproc

	.text

/* Calls a function of ours with the arguments of the one that has been entered, which stay as they
 * are. */
#if defined(__x86_64__)
	.macro	call_aside function
	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	\function
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	.endm
#else
	/* the result is in x16 */
	.macro	call_aside function
	stp	x29, x30, [sp, #-32]!
	.cfi_adjust_cfa_offset 32
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp	x0, x1, [sp, #16]
	bl	\function
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	.cfi_restore x29
	.cfi_restore x30
	.endm
#endif

/* Jumps to the loader's function that `variable` points to, looking it up first if that has not
 * been done; returns NULL if there is none. The two arguments stay as they are. */
#if defined(__x86_64__)
	.macro	jump_to_real variable
	mov	\variable(%rip), %rax
	test	%rax, %rax
	jne	8f
	call_aside loader_resolve_dlsym
	mov	\variable(%rip), %rax
	test	%rax, %rax
	jne	8f
	ret
8:	jmp	*%rax
	.endm
#else
	.macro	jump_to_real variable
	adrp	x16, \variable
	ldr	x16, [x16, #:lo12:\variable]
	cbnz	x16, 8f
	call_aside loader_resolve_dlsym
	adrp	x16, \variable
	ldr	x16, [x16, #:lo12:\variable]
	cbnz	x16, 8f
	mov	x0, #0
	ret
8:	br	x16
	.endm
#endif

/* void *dlsym(void *handle, const char *name)
 *
 * glibc gives RTLD_NEXT, RTLD_DEFAULT and some error texts their meaning by the caller's return
 * address: whatever is not a "cu..." name looked up through a real handle is jumped to, untouched;
 * but before that, absent.c is asked about such a name. */
	.globl	dlsym
	.type	dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	ENTER
#if defined(__x86_64__)
	test	%rsi, %rsi
	je	1f
	cmpb	$'c', (%rsi)
	jne	1f
	cmpb	$'u', 1(%rsi)
	jne	1f
	lea	1(%rdi), %rax		/* RTLD_NEXT is -1, RTLD_DEFAULT is 0 */
	cmp	$1, %rax
	ja	lookup_dlsym
	mov	(%rsp), %rdx
	call_aside absent_from_scope
	test	%al, %al
	je	1f
	xor	%eax, %eax
	ret
#else
	cbz	x1, 1f
	ldrb	w16, [x1]
	cmp	w16, #'c'
	b.ne	1f
	ldrb	w16, [x1, #1]
	cmp	w16, #'u'
	b.ne	1f
	cbz	x0, 2f
	cmn	x0, #1			/* RTLD_NEXT is -1, RTLD_DEFAULT is 0 */
	b.ne	lookup_dlsym
2:	mov	x2, x30
	call_aside absent_from_scope
	and	w16, w16, #0xff
	cbz	w16, 1f
	mov	x0, #0
	ret
#endif
1:	jump_to_real loader_real_dlsym
	.cfi_endproc
	.size	dlsym, . - dlsym

/* void *dlopen(const char *path, int flags)
 *
 * Only looked at: the loader takes the caller's search path from its return address. */
#define RTLD_DEEPBIND 8
	.globl	dlopen
	.type	dlopen, %function
	.p2align 4
dlopen:
	.cfi_startproc
	ENTER
#if defined(__x86_64__)
	incq	loader_opens(%rip)
	test	$RTLD_DEEPBIND, %sil
	je	1f
	movb	$1, loader_deep(%rip)
#else
	adrp	x16, loader_opens
	ldr	x17, [x16, #:lo12:loader_opens]
	add	x17, x17, #1
	str	x17, [x16, #:lo12:loader_opens]
	tst	w1, #RTLD_DEEPBIND
	b.eq	1f
	adrp	x16, loader_deep
	mov	w17, #1
	strb	w17, [x16, #:lo12:loader_deep]
#endif
1:	call_aside variables_before_open
	jump_to_real loader_real_dlopen
	.cfi_endproc
	.size	dlopen, . - dlopen

	protected
