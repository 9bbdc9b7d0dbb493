/* The stubs that stand before the driver's functions: see stubs.c.
 *
 * A stub passes on every argument as it came. One that must see the result calls the driver's function
 * with a copy of the stack's arguments, so that it can call it again. One that has only to see whether
 * the function failed calls it as it is, with nothing of the program's copied; that goes where all
 * arguments are in registers. Where they are not, it jumps.
 *
 * The quick way is a table look-up: stub_quick[i] has the bits of stub_word for which something is to
 * be done for stub i. If it is not 0, stub_real[i] is known. */
#define STUB_SPARES 1024
#define COPIED_WORDS 16 /* of stack arguments: no driver function has as many */

#if defined(__x86_64__)
/* A stub takes 16 bytes, so that stubs.c can compute its address. r11 is free at every call. */
#define STUB(kind)						\
	.p2align 4;						\
	endbr64;						\
	movl	$stub_number, %r11d;				\
	jmp	kind
#elif defined(__aarch64__)
#define STUB(kind)						\
	.p2align 4;						\
	hint	#34; /* bti c */				\
	mov	w16, #stub_number;				\
	b	kind
#else
#error "unsupported architecture"
#endif

#define EXPORTED(symbol, kind)					\
	.globl	symbol;						\
	.type	symbol, %function;				\
	.p2align 4;						\
symbol:								\
	STUB(kind);						\
	.size	symbol, . - symbol

/* What has no stub takes none of the exported names, but a place in the row of stubs: the number of
 * a row is its line in the table. */
#define STUB__(symbol)		.p2align 4; .skip 16
#define STUB_hook(symbol)	STUB__(symbol)
#define STUB_jump(symbol)	EXPORTED(symbol, stub_jump)
#define STUB_look(symbol)	EXPORTED(symbol, stub_look)
#define STUB_peek(symbol)	EXPORTED(symbol, stub_look)
#define STUB_call(symbol)	EXPORTED(symbol, stub_call)

	.text
	.set	stub_number, 0
	.globl	stub_code
	.hidden	stub_code
	.p2align 4
stub_code:
#define ENTRY(symbol, since, ours, ...)				\
	STUB_##ours(symbol);					\
	.set	stub_number, stub_number + 1;
#include "interpose/entry_points.def"
/* For functions that the table does not know, or knows at another address. */
	.rept	STUB_SPARES
	STUB(stub_call)
	.set	stub_number, stub_number + 1
	.endr

#if defined(__x86_64__)
/* struct stub_frame, from its beginning. */
#define FRAME_REGISTERS	0	/* rdi, rsi, rdx, rcx, r8, r9, 2 words unused */
#define FRAME_VECTORS	64	/* xmm0 to xmm7 */
#define FRAME_STACK	192
#define FRAME_NUMBER	200
#define FRAME_ATTEMPTS	208
#define FRAME_TO_STUB	216
#define FRAME_SIZE	240	/* with three words that stubs.c keeps */

	/* frame: the register that points to it */
	.macro	save_arguments frame
	movq	%rdi, FRAME_REGISTERS(\frame)
	movq	%rsi, FRAME_REGISTERS+8(\frame)
	movq	%rdx, FRAME_REGISTERS+16(\frame)
	movq	%rcx, FRAME_REGISTERS+24(\frame)
	movq	%r8, FRAME_REGISTERS+32(\frame)
	movq	%r9, FRAME_REGISTERS+40(\frame)
	movups	%xmm0, FRAME_VECTORS(\frame)
	movups	%xmm1, FRAME_VECTORS+16(\frame)
	movups	%xmm2, FRAME_VECTORS+32(\frame)
	movups	%xmm3, FRAME_VECTORS+48(\frame)
	movups	%xmm4, FRAME_VECTORS+64(\frame)
	movups	%xmm5, FRAME_VECTORS+80(\frame)
	movups	%xmm6, FRAME_VECTORS+96(\frame)
	movups	%xmm7, FRAME_VECTORS+112(\frame)
	leaq	16(%rbp), %r10
	movq	%r10, FRAME_STACK(\frame)
	movq	%r11, FRAME_NUMBER(\frame)
	movq	$0, FRAME_ATTEMPTS(\frame)
	.endm

	.macro	load_arguments frame
	movq	FRAME_REGISTERS(\frame), %rdi
	movq	FRAME_REGISTERS+8(\frame), %rsi
	movq	FRAME_REGISTERS+16(\frame), %rdx
	movq	FRAME_REGISTERS+24(\frame), %rcx
	movq	FRAME_REGISTERS+32(\frame), %r8
	movq	FRAME_REGISTERS+40(\frame), %r9
	movups	FRAME_VECTORS(\frame), %xmm0
	movups	FRAME_VECTORS+16(\frame), %xmm1
	movups	FRAME_VECTORS+32(\frame), %xmm2
	movups	FRAME_VECTORS+48(\frame), %xmm3
	movups	FRAME_VECTORS+64(\frame), %xmm4
	movups	FRAME_VECTORS+80(\frame), %xmm5
	movups	FRAME_VECTORS+96(\frame), %xmm6
	movups	FRAME_VECTORS+112(\frame), %xmm7
	.endm

	.type	stub_jump, %function
	.p2align 4
stub_jump:
	.cfi_startproc
	leaq	stub_quick(%rip), %r10
	movzbl	(%r10,%r11), %r10d
	testl	%r10d, %r10d
	je	1f
	testl	%r10d, stub_word(%rip)
	jne	1f
	leaq	stub_real(%rip), %r10
	jmp	*(%r10,%r11,8)
1:	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$FRAME_SIZE, %rsp
	save_arguments %rsp
	movq	%rsp, %rdi
	call	stub_before
	movq	%rax, %r11
	load_arguments %rsp
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	jmp	*%r11
	.cfi_endproc
	.size	stub_jump, . - stub_jump

	.type	stub_look, %function
	.p2align 4
stub_look:
	.cfi_startproc
	leaq	stub_quick(%rip), %r10
	movzbl	(%r10,%r11), %r10d
	testl	%r10d, %r10d
	je	1f
	testl	%r10d, stub_word(%rip)
	jne	1f
	leaq	stub_real(%rip), %r10
	movq	(%r10,%r11,8), %r10
2:	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	*%r10
	testl	%eax, %eax
	jne	3f
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_adjust_cfa_offset 8
3:	movl	%eax, %edi
	movl	%eax, 4(%rsp)
	call	stub_failed
	movl	4(%rsp), %eax
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
1:	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$FRAME_SIZE, %rsp
	save_arguments %rsp
	movq	%rsp, %rdi
	call	stub_before
	movq	%rax, %r10
	movq	FRAME_TO_STUB(%rsp), %r11
	load_arguments %rsp
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	testq	%r11, %r11
	je	2b
	jmp	*%r10		/* another stub, which finds the program's own frame */
	.cfi_endproc
	.size	stub_look, . - stub_look

	.type	stub_call, %function
	.p2align 4
stub_call:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq	%rbx
	.cfi_offset %rbx, -24
	subq	$FRAME_SIZE + COPIED_WORDS * 8 + 8, %rsp
	leaq	COPIED_WORDS * 8(%rsp), %rbx	/* the frame; below it the copied arguments */
	save_arguments %rbx
1:	movq	FRAME_NUMBER(%rbx), %r11
	leaq	stub_quick(%rip), %r10
	movzbl	(%r10,%r11), %r10d
	testl	%r10d, %r10d
	je	3f
	testl	%r10d, stub_word(%rip)
	jne	3f
	leaq	stub_real(%rip), %r10
	movq	(%r10,%r11,8), %r10
2:
	.set	word, 0
	.rept	COPIED_WORDS / 2
	movups	16 + word(%rbp), %xmm0
	movups	%xmm0, word(%rsp)
	.set	word, word + 16
	.endr
	load_arguments %rbx
	call	*%r10
	movq	FRAME_NUMBER(%rbx), %r11
	leaq	stub_quick(%rip), %r10
	cmpb	$0, (%r10,%r11)
	je	4f
	cmpq	$0, FRAME_ATTEMPTS(%rbx)
	jne	4f
	testl	%eax, %eax
	jne	4f
	movq	-8(%rbp), %rbx
	leave
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	.cfi_restore %rbx
	ret
	.cfi_restore_state
3:	movq	%rbx, %rdi
	call	stub_before
	movq	%rax, %r10
	jmp	2b
4:	movq	%rbx, %rdi
	movl	%eax, %esi
	movl	%eax, FRAME_REGISTERS+48(%rbx)
	call	stub_after
	testb	%al, %al
	jne	1b
	movl	FRAME_REGISTERS+48(%rbx), %eax
	movq	-8(%rbp), %rbx
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	.cfi_restore %rbx
	ret
	.cfi_endproc
	.size	stub_call, . - stub_call
#else
#define FRAME_REGISTERS	0	/* x0 to x7 */
#define FRAME_VECTORS	64	/* q0 to q7 */
#define FRAME_STACK	192
#define FRAME_NUMBER	200
#define FRAME_ATTEMPTS	208
#define FRAME_TO_STUB	216
#define FRAME_SIZE	240

	/* frame: the register that points to it; caller: to the stack's arguments */
	.macro	save_arguments frame, caller
	stp	x0, x1, [\frame, #FRAME_REGISTERS]
	stp	x2, x3, [\frame, #FRAME_REGISTERS+16]
	stp	x4, x5, [\frame, #FRAME_REGISTERS+32]
	stp	x6, x7, [\frame, #FRAME_REGISTERS+48]
	stp	q0, q1, [\frame, #FRAME_VECTORS]
	stp	q2, q3, [\frame, #FRAME_VECTORS+32]
	stp	q4, q5, [\frame, #FRAME_VECTORS+64]
	stp	q6, q7, [\frame, #FRAME_VECTORS+96]
	stp	\caller, x16, [\frame, #FRAME_STACK]
	str	xzr, [\frame, #FRAME_ATTEMPTS]
	.endm

	.macro	load_arguments frame
	ldp	x0, x1, [\frame, #FRAME_REGISTERS]
	ldp	x2, x3, [\frame, #FRAME_REGISTERS+16]
	ldp	x4, x5, [\frame, #FRAME_REGISTERS+32]
	ldp	x6, x7, [\frame, #FRAME_REGISTERS+48]
	ldp	q0, q1, [\frame, #FRAME_VECTORS]
	ldp	q2, q3, [\frame, #FRAME_VECTORS+32]
	ldp	q4, q5, [\frame, #FRAME_VECTORS+64]
	ldp	q6, q7, [\frame, #FRAME_VECTORS+96]
	.endm

	/* To `slow` if something is to be done first; else x17 is the driver's function. */
	.macro	load_real slow
	adrp	x17, stub_quick
	add	x17, x17, #:lo12:stub_quick
	add	x17, x17, x16
	ldarb	w17, [x17]	/* what stub_real holds was stored before */
	cbz	w17, \slow
	adrp	x15, stub_word
	ldr	w15, [x15, #:lo12:stub_word]
	tst	w17, w15
	b.ne	\slow
	adrp	x17, stub_real
	add	x17, x17, #:lo12:stub_real
	ldr	x17, [x17, x16, lsl #3]
	.endm

	.type	stub_jump, %function
	.p2align 4
stub_jump:
	.cfi_startproc
	load_real 1f
	br	x17
1:	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	mov	x29, sp
	.cfi_def_cfa_register x29
	add	x17, sp, #16
	sub	sp, sp, #FRAME_SIZE
	save_arguments sp, x17
	mov	x0, sp
	bl	stub_before
	mov	x17, x0
	load_arguments sp
	mov	sp, x29
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa sp, 0
	.cfi_restore x29
	.cfi_restore x30
	br	x17
	.cfi_endproc
	.size	stub_jump, . - stub_jump

	.type	stub_look, %function
	.p2align 4
stub_look:
	.cfi_startproc
	load_real 1f
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov	x29, sp
2:	blr	x17
	cbz	w0, 3f
	str	w0, [x29, #16]
	bl	stub_failed
	ldr	w0, [x29, #16]
3:	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
1:	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov	x29, sp
	.cfi_def_cfa_register x29
	add	x17, sp, #32
	sub	sp, sp, #FRAME_SIZE
	save_arguments sp, x17
	mov	x0, sp
	bl	stub_before
	mov	x17, x0
	ldr	x15, [sp, #FRAME_TO_STUB]
	load_arguments sp
	mov	sp, x29
	.cfi_def_cfa_register sp
	cbz	x15, 2b
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	br	x17		/* another stub, which finds the program's own frame */
	.cfi_endproc
	.size	stub_look, . - stub_look

	.type	stub_call, %function
	.p2align 4
stub_call:
	.cfi_startproc
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov	x29, sp
	.cfi_def_cfa_register x29
	str	x19, [x29, #16]
	.cfi_offset x19, -16
	add	x17, sp, #32
	sub	sp, sp, #FRAME_SIZE + COPIED_WORDS * 8
	add	x19, sp, #COPIED_WORDS * 8	/* the frame; below it the copied arguments */
	save_arguments x19, x17
1:	ldr	x16, [x19, #FRAME_NUMBER]
	load_real 3f
2:
	.set	word, 0
	.rept	COPIED_WORDS / 2
	ldr	q0, [x29, #32 + word]
	str	q0, [sp, #word]
	.set	word, word + 16
	.endr
	load_arguments x19
	blr	x17
	ldr	x16, [x19, #FRAME_NUMBER]
	adrp	x17, stub_quick
	add	x17, x17, #:lo12:stub_quick
	ldrb	w17, [x17, x16]
	cbz	w17, 4f
	ldr	x17, [x19, #FRAME_ATTEMPTS]
	cbnz	x17, 4f
	cbz	w0, 5f
	b	4f
3:	mov	x0, x19
	bl	stub_before
	mov	x17, x0
	b	2b
4:	mov	w1, w0
	str	w0, [x29, #24]
	mov	x0, x19
	bl	stub_after
	tst	w0, #0xff
	b.ne	1b
	ldr	w0, [x29, #24]
5:	ldr	x19, [x29, #16]
	mov	sp, x29
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa sp, 0
	.cfi_restore x29
	.cfi_restore x30
	.cfi_restore x19
	ret
	.cfi_endproc
	.size	stub_call, . - stub_call
#endif

	.section .note.GNU-stack, "", %progbits
