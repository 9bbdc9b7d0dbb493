/* The stubs that stand before the driver's functions: see stubs.c.
 *
 * A stub passes on every argument as it came. One that must see the result calls the driver's function
 * with a copy of the stack's arguments, so that it can call it again. It copies what the function takes
 * (stack_arguments.def), as the stack may end right behind that. One that has only to see whether
 * the function failed calls it as it is, with nothing of the program's copied; that goes where all
 * arguments are in registers. Where they are not, it jumps.
 *
 * The quick way is a table look-up: an entry's `look` has the bits of order_word for which something
 * is to be done. If it is not 0, the entry's function is known. Of the bits ORDER_TRACKED alone is
 * nothing to stop at where the call's stream is noted: see src/order/noted.h. The stream is in the
 * same argument at each call of a stub. stub_call finds it by what the entry says; stub_look has one
 * form for each argument, as too much would have to be saved else. */
#include "interpose/assembly.h"
#include "order/noted.h"

#define STUB_SPARES 1024
#define STUB_SIZE 16	/* also of an entry: what names both is the offset */
#define COPIED_WORDS 16 /* of stack arguments at most: no driver function takes as many */
#define PAGE	     4096 /* or a multiple of it */

/* struct stub_entry */
#define ENTRY_REAL	0
#define ENTRY_LOOK	8
#define ENTRY_WORDS	12	/* its lowest byte: of stack arguments to copy */
#define WORDS_UNKNOWN	0x100
#define FRAME_IS_STUB	1	/* these two as in stub_frame.h, of to_stub */
#define FRAME_TELLS	2
/* Bits of its `look`; the word's are in the first 6. */
#define LOOK_INSIDE	6	/* the stream is in a struct, to which its place points */
#define LOOK_STREAM	8	/* 8 bits, which x86 has a name for: the stream's place, in words from the frame */
#define LOOK_DEFAULT	16	/* the handle that a null stream stands for */
#define CONFIG_STREAM	32	/* its offset there */
#define LEGACY		1
#define PER_THREAD	2

#if defined(__x86_64__)
#define STACK(symbol, words, _)	.set .Lstack_##symbol, words;
#define JUMP jmp
#else
#define STACK(symbol, _, words)	.set .Lstack_##symbol, words;
#define JUMP b
#endif
#include "interpose/stack_arguments.def"

/* To the form of stub_call that copies as many words as the function takes. */
	.macro	jump_to_call symbol
	.ifndef	.Lstack_\symbol
	JUMP	stub_call_0
	.else
	.irp	words, 0, 1, 2, 3, 4, 5, 8
	.if	.Lstack_\symbol == \words
	JUMP	stub_call_\words
	.endif
	.endr
	.endif
	.endm

#if defined(__x86_64__)
/* A stub takes 16 bytes, so that stubs.c can compute its address. r11 is free at every call. */
#define STUB(kind)						\
	.p2align 4;						\
	ENTER;							\
	movl	$stub_number * STUB_SIZE, %r11d;		\
	kind
#else
#define STUB(kind)						\
	.p2align 4;						\
	ENTER;							\
	mov	w16, #stub_number * STUB_SIZE;			\
	kind
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
#define STUB__(symbol, stream)		.p2align 4; .skip STUB_SIZE
#define STUB_hook(symbol, stream)	STUB__(symbol, stream)
#define STUB_jump(symbol, stream)	EXPORTED(symbol, JUMP stub_jump)
#define STUB_look(symbol, stream)	EXPORTED(symbol, JUMP stub_look_##stream)
#define STUB_peek(symbol, stream)	EXPORTED(symbol, JUMP stub_look__)
#define STUB_call(symbol, stream)	EXPORTED(symbol, jump_to_call symbol)
/* No work is submitted to these. */
#define stub_look_L1		stub_look__
#define stub_look_T1		stub_look__
#define stub_look_context	stub_look__

	.text
	.set	stub_number, 0
	.globl	stub_code
	.hidden	stub_code
	.p2align 4
stub_code:
	.cfi_startproc	/* of all stubs: none changes the stack before it jumps */
#define ENTRY(symbol, since, ours, stream, ...)			\
	STUB_##ours(symbol, stream);				\
	.set	stub_number, stub_number + 1;
#include "interpose/entry_points.def"
/* For functions that the table does not know, or knows at another address. */
	.rept	STUB_SPARES
	STUB(JUMP stub_spare)
	.set	stub_number, stub_number + 1
	.endr
	.cfi_endproc

#if defined(__x86_64__)
/* struct stub_frame, from its beginning. */
#define FRAME_REGISTERS	0	/* rdi, rsi, rdx, rcx, r8, r9, 2 words unused */
#define FRAME_VECTORS	64	/* xmm0 to xmm7 */
#define FRAME_STACK	192
#define FRAME_STUB	200
#define FRAME_ATTEMPTS	208
#define FRAME_TO_STUB	216
#define FRAME_SIZE	256	/* with what stubs.c keeps */

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
	movq	%r11, FRAME_STUB(\frame)
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

	/* To `asks` if there is something to do for the call, or if nobody knows; to `tracked` if the word
	 * has a bit that may mean so. Else, at `quick`, r10 is the driver's function. */
	.macro look_at_entry asks, tracked, quick
	leaq	stub_entries(%rip), %rax
	movl	ENTRY_LOOK(%rax,%r11), %r10d
	testl	%r10d, %r10d
	je	\asks
	testl	%r10d, order_word(%rip)
	jne	\tracked
\quick:	movq	ENTRY_REAL(%rax,%r11), %r10
	.endm

	/* Leaves r10d with those bits of the word that concern the function. To `asks` if these are not
	 * ORDER_TRACKED alone. Nothing that is loaded later is loaded before. */
	.macro look_at_word asks
	andl	order_word(%rip), %r10d
	cmpl	$NOTED_WORD, %r10d
	jne	\asks
	.endm

	/* To `asks` if this thread has noted nothing. r10 is used. */
	.macro look_at_thread asks
	movq	thread_marks@gottpoff(%rip), %r10
	movl	%fs:NOTED_NUMBER(%r10), %r10d
	cmpl	noted_by(%rip), %r10d
	jne	\asks
	.endm

	/* To `found` if it has noted the stream. stream, low: the register that has its handle, and the
	 * lower half of it; place, low_place, table: registers to use. */
	.macro look_at_stream stream, low, place, low_place, table, found
	imull	$NOTED_FACTOR, \low, \low_place
	shrl	$32 - NOTED_BITS, \low_place
	leaq	noted_streams(%rip), \table
	cmpq	\stream, (\table,\place,8)
	je	\found
	cmpq	\stream, 8(\table,\place,8)
	je	\found
	.endm

	/* Asks `whom`, with what came in registers as it was. r10 is where to go on then, r11 what the
	 * frame has at `tells`. */
	.macro ask whom, tells
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$FRAME_SIZE, %rsp
	save_arguments %rsp
	movq	%rsp, %rdi
	call	\whom
	movq	%rax, %r10
	movq	\tells(%rsp), %r11
	load_arguments %rsp
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	.endm

	/* Calls r10 and returns what it returns. */
	.macro call_and_return
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	*%r10
	testl	%eax, %eax
	jne	stub_look_failed
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.endm

	/* As call_and_return, for a submission that may have to be made known before the program knows that
	 * it has been made: stub_tells looks. */
	.macro call_tell_and_return
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	*%r10
	testl	%eax, %eax
	jne	stub_look_failed
	testb	$TELLS_WORD, order_word(%rip)
	jne	stub_look_tells
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.endm

	.type	stub_jump, %function
	.p2align 4
stub_jump:
	.cfi_startproc
	look_at_entry 1f, 1f, 2
	jmp	*%r10
1:	ask	stub_before, FRAME_TO_STUB
	cmpq	$FRAME_IS_STUB, %r11
	je	stub_to_stub
	jmp	*%r10
	.cfi_endproc
	.size	stub_jump, . - stub_jump

	/* To another stub, which finds the program's own frame. */
	.type	stub_to_stub, %function
stub_to_stub:
	.cfi_startproc
	leaq	stub_code(%rip), %r11
	addq	%r11, %r10
	jmp	*%r10
	.cfi_endproc
	.size	stub_to_stub, . - stub_to_stub

	.type	stub_look_asks, %function
	.p2align 4
stub_look_asks:
	.cfi_startproc
	ask	stub_before, FRAME_TO_STUB
	testq	%r11, %r11
	je	1f
	cmpq	$FRAME_TELLS, %r11
	je	2f
	jmp	stub_to_stub
1:	call_and_return
2:	call_tell_and_return
	.cfi_endproc
	.size	stub_look_asks, . - stub_look_asks

	.type	stub_look_failed, %function
stub_look_failed:
	.cfi_startproc
	.cfi_def_cfa_offset 16
	movl	%eax, %edi
	movl	%eax, 4(%rsp)
	call	stub_failed
	movl	4(%rsp), %eax
	addq	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	stub_look_failed, . - stub_look_failed

	.type	stub_look_tells, %function
stub_look_tells:
	.cfi_startproc
	.cfi_def_cfa_offset 16
	call	stub_tells
	xorl	%eax, %eax
	addq	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	stub_look_tells, . - stub_look_tells

	/* null: what a null stream stands for; stream, low: the register in which the stream is. Without
	 * them the work goes to the default stream, or without `null` nothing is submitted. */
	.macro look name, null, stream, low
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	.ifb \null
	look_at_entry stub_look_asks, stub_look_asks, 1
	call_and_return
	.else
	look_at_entry stub_look_asks, 2f, 1
	call_tell_and_return
2:	look_at_word stub_look_asks
	.ifnb \stream
	testq	\stream, \stream
	je	3f
	look_at_thread stub_look_asks
	look_at_stream \stream, \low, %rax, %eax, %r10, 4f
	jmp	stub_look_asks
	.endif
3:	look_at_thread stub_look_asks
	.set	null_place, 8 * (((\null * NOTED_FACTOR) & 0xffffffff) >> (32 - NOTED_BITS))
	cmpq	$\null, noted_streams + null_place(%rip)
	je	4f
	cmpq	$\null, noted_streams + null_place + 8(%rip)
	jne	stub_look_asks
4:	leaq	stub_entries(%rip), %rax
	movq	ENTRY_REAL(%rax,%r11), %r10
	call_and_return
	.endif
	.cfi_endproc
	.size	\name, . - \name
	.endm

	look	stub_look__
	look	stub_look_L, LEGACY
	look	stub_look_T, PER_THREAD
	look	stub_look_L0, LEGACY, %rdi, %edi
	look	stub_look_L3, LEGACY, %rcx, %ecx
	look	stub_look_L4, LEGACY, %r8, %r8d
	look	stub_look_L5, LEGACY, %r9, %r9d
	look	stub_look_T0, PER_THREAD, %rdi, %edi
	look	stub_look_T3, PER_THREAD, %rcx, %ecx
	look	stub_look_T4, PER_THREAD, %r8, %r8d
	look	stub_look_T5, PER_THREAD, %r9, %r9d

	/* Calls r10 with a copy of so many words of stack arguments; any: of as many as its entry says. */
	.macro call_with_copy words
	.ifc	\words, any
	movq	FRAME_STUB(%rbx), %rcx
	leaq	stub_entries(%rip), %rax
	movzbl	ENTRY_WORDS(%rax,%rcx), %ecx
	jmp	12f
11:	movq	16(%rbp,%rcx,8), %rax
	movq	%rax, (%rsp,%rcx,8)
12:	subl	$1, %ecx
	jns	11b
	.else
	.set	word, 0
	.rept	\words / 2
	movups	16 + word(%rbp), %xmm0
	movups	%xmm0, word(%rsp)
	.set	word, word + 16
	.endr
	.if	\words & 1
	movq	16 + word(%rbp), %xmm0
	movq	%xmm0, word(%rsp)
	.endif
	.endif
	load_arguments %rbx
	call	*%r10
	.endm

	/* room: for how many words, an even number */
	.macro	stub_that_calls words, room
	.type	stub_call_\words, %function
	.p2align 4
stub_call_\words:
	.cfi_startproc
	.ifc	\words, any
	ENTER
	.endif
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq	%rbx
	.cfi_offset %rbx, -24
	subq	$FRAME_SIZE + \room * 8 + 8, %rsp
	leaq	\room * 8(%rsp), %rbx	/* the frame; below it the copied arguments */
	save_arguments %rbx
	look_at_entry 3f, 5f, 1
	call_with_copy \words
	testl	%eax, %eax
	jne	4f
	testb	$NOTED_WORD, order_word(%rip)
	jne	8f
2:	movq	-8(%rbp), %rbx
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
	call_with_copy \words
	movq	FRAME_STUB(%rbx), %r11
	leaq	stub_entries(%rip), %r10
	cmpl	$0, ENTRY_LOOK(%r10,%r11)
	je	4f
	cmpq	$0, FRAME_ATTEMPTS(%rbx)
	jne	4f
	testl	%eax, %eax
	jne	4f
	cmpq	$FRAME_TELLS, FRAME_TO_STUB(%rbx)
	jne	2b
	testb	$TELLS_WORD, order_word(%rip)
	je	2b
	jmp	9f
4:	movq	%rbx, %rdi
	movl	%eax, %esi
	movl	%eax, FRAME_REGISTERS+48(%rbx)
	call	stub_after
	testb	%al, %al
	jne	3b
	movl	FRAME_REGISTERS+48(%rbx), %eax
	jmp	2b
5:	movl	%r10d, %edx
	look_at_word 3b
	testb	$1 << LOOK_INSIDE, %dl
	movzbl	%dh, %ecx
	movq	(%rbx,%rcx,8), %rcx
	je	6f
	testq	%rcx, %rcx
	je	3b
	movq	CONFIG_STREAM(%rcx), %rcx
6:	shrl	$LOOK_DEFAULT, %edx
	testq	%rcx, %rcx
	cmoveq	%rdx, %rcx
	look_at_thread 3b
	look_at_stream %rcx, %ecx, %rdx, %edx, %rsi, 10f
	jmp	3b
8:	movq	FRAME_STUB(%rbx), %r11
	leaq	stub_entries(%rip), %r10
	testl	$NOTED_WORD, ENTRY_LOOK(%r10,%r11)
	je	2b		/* it submits nothing */
9:	call	stub_tells
	xorl	%eax, %eax
	jmp	2b
10:	movq	ENTRY_REAL(%rax,%r11), %r10
	call_with_copy \words
	testl	%eax, %eax
	je	2b
	jmp	4b
	.cfi_endproc
	.size	stub_call_\words, . - stub_call_\words
	.endm

	stub_that_calls	0, 0
	stub_that_calls	1, 2
	stub_that_calls	2, 2
	stub_that_calls	3, 4
	stub_that_calls	4, 4
	stub_that_calls	5, 6
	stub_that_calls	8, 8
	stub_that_calls	any, COPIED_WORDS

	/* An unknown function gets a copy of as many words as any takes, if they are there. */
	.type	stub_spare, %function
	.p2align 4
stub_spare:
	.cfi_startproc
	leaq	stub_entries(%rip), %rax
	testl	$WORDS_UNKNOWN, ENTRY_WORDS(%rax,%r11)
	je	stub_call_any
	leaq	7 + COPIED_WORDS * 8(%rsp), %rax	/* the last byte */
	xorq	%rsp, %rax
	testq	$-PAGE, %rax
	je	stub_call_any
	ask	stub_before_unseen, FRAME_STUB
	testq	%r10, %r10
	je	stub_call_any
	jmp	*%r10
	.cfi_endproc
	.size	stub_spare, . - stub_spare
#else
#define FRAME_REGISTERS	0	/* x0 to x7 */
#define FRAME_VECTORS	64	/* q0 to q7 */
#define FRAME_STACK	192
#define FRAME_STUB	200
#define FRAME_ATTEMPTS	208
#define FRAME_TO_STUB	216
#define FRAME_SIZE	256

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

	/* To `asks` if there is something to do for the call, or if nobody knows; to `tracked` if the word
	 * has a bit that may mean so. Else, at `quick`, x17 is the driver's function. */
	.macro look_at_entry asks, tracked, quick
	adrp	x14, stub_entries
	add	x14, x14, #:lo12:stub_entries
	add	x14, x14, x16
	add	x17, x14, #ENTRY_LOOK
	ldar	w17, [x17]	/* the function was stored before */
	cbz	w17, \asks
	adrp	x15, order_word
	ldr	w15, [x15, #:lo12:order_word]
	tst	w17, w15
	b.ne	\tracked
\quick:	ldr	x17, [x14, #ENTRY_REAL]
	.endm

	/* To `asks` if those bits of the word that concern the function are not ORDER_TRACKED alone. */
	.macro look_at_word asks
	adrp	x15, order_word
	add	x15, x15, #:lo12:order_word
	ldar	w15, [x15]	/* what follows is loaded afterwards */
	and	w15, w15, w17
	cmp	w15, #NOTED_WORD
	b.ne	\asks
	.endm

	/* To `asks` if this thread has noted nothing. */
	.macro look_at_thread asks
	adrp	x10, :gottprel:thread_marks
	ldr	x10, [x10, #:gottprel_lo12:thread_marks]
	mrs	x9, tpidr_el0
	add	x9, x9, x10
	ldr	w10, [x9, #NOTED_NUMBER]
	adrp	x9, noted_by
	ldr	w9, [x9, #:lo12:noted_by]
	cmp	w9, w10
	b.ne	\asks
	.endm

	/* To `found` if it has noted the stream. stream, low: the register that has its handle, and the
	 * lower half of it. */
	.macro look_at_stream stream, low, found
	mov	w11, #NOTED_FACTOR & 0xffff
	movk	w11, #NOTED_FACTOR >> 16, lsl #16
	mul	w11, w11, \low
	lsr	w11, w11, #32 - NOTED_BITS
	adrp	x9, noted_streams
	add	x9, x9, #:lo12:noted_streams
	add	x9, x9, x11, lsl #3
	ldp	x10, x12, [x9]
	cmp	x10, \stream
	b.eq	\found
	cmp	x12, \stream
	b.eq	\found
	.endm

	/* Asks `whom`, with what came in registers as it was. x17 is where to go on then, `told` what the
	 * frame has at `tells`. */
	.macro ask whom, told, tells
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	mov	x29, sp
	.cfi_def_cfa_register x29
	add	x17, sp, #16
	sub	sp, sp, #FRAME_SIZE
	save_arguments sp, x17
	mov	x0, sp
	bl	\whom
	mov	x17, x0
	ldr	\told, [sp, #\tells]
	load_arguments sp
	mov	sp, x29
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa sp, 0
	.cfi_restore x29
	.cfi_restore x30
	.endm

	/* Calls x17 and returns what it returns. */
	.macro call_and_return
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov	x29, sp
	blr	x17
	cbnz	w0, stub_look_failed
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
	.endm

	/* As call_and_return, for a submission that may have to be made known before the program knows that
	 * it has been made: stub_tells looks. */
	.macro call_tell_and_return
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov	x29, sp
	blr	x17
	cbnz	w0, stub_look_failed
	adrp	x15, order_word
	ldr	w15, [x15, #:lo12:order_word]
	mov	w17, #TELLS_WORD
	tst	w15, w17
	b.ne	stub_look_tells
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
	.endm

	.type	stub_jump, %function
	.p2align 4
stub_jump:
	.cfi_startproc
	look_at_entry 1f, 1f, 2
	br	x17
1:	ask	stub_before, x15, FRAME_TO_STUB
	cmp	x15, #FRAME_IS_STUB
	b.eq	stub_to_stub
	br	x17
	.cfi_endproc
	.size	stub_jump, . - stub_jump

	/* To another stub, which finds the program's own frame. */
	.type	stub_to_stub, %function
stub_to_stub:
	.cfi_startproc
	adrp	x15, stub_code
	add	x15, x15, #:lo12:stub_code
	add	x17, x17, x15
	br	x17
	.cfi_endproc
	.size	stub_to_stub, . - stub_to_stub

	.type	stub_look_asks, %function
	.p2align 4
stub_look_asks:
	.cfi_startproc
	ask	stub_before, x15, FRAME_TO_STUB
	cbz	x15, 1f
	cmp	x15, #FRAME_TELLS
	b.eq	2f
	b	stub_to_stub
1:	call_and_return
2:	call_tell_and_return
	.cfi_endproc
	.size	stub_look_asks, . - stub_look_asks

	.type	stub_look_failed, %function
stub_look_failed:
	.cfi_startproc
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	str	w0, [x29, #16]
	bl	stub_failed
	ldr	w0, [x29, #16]
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
	.cfi_endproc
	.size	stub_look_failed, . - stub_look_failed

	.type	stub_look_tells, %function
stub_look_tells:
	.cfi_startproc
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	bl	stub_tells
	mov	w0, #0
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
	.cfi_endproc
	.size	stub_look_tells, . - stub_look_tells

	/* null: what a null stream stands for; stream, low: the register in which the stream is. Without
	 * them the work goes to the default stream, or without `null` nothing is submitted. */
	.macro look name, null, stream, low
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	.ifb \null
	look_at_entry stub_look_asks, stub_look_asks, 1
	call_and_return
	.else
	look_at_entry 3f, 2f, 1
	call_tell_and_return
2:	look_at_word 3f
	look_at_thread 3f
	mov	x13, #\null
	.ifnb \stream
	cmp	\stream, #0
	csel	x13, x13, \stream, eq
	.endif
	look_at_stream x13, w13, 4f
3:	b	stub_look_asks
4:	ldr	x17, [x14, #ENTRY_REAL]
	call_and_return
	.endif
	.cfi_endproc
	.size	\name, . - \name
	.endm

	look	stub_look__
	look	stub_look_L, LEGACY
	look	stub_look_T, PER_THREAD
	look	stub_look_L0, LEGACY, x0
	look	stub_look_L3, LEGACY, x3
	look	stub_look_L4, LEGACY, x4
	look	stub_look_L5, LEGACY, x5
	look	stub_look_T0, PER_THREAD, x0
	look	stub_look_T3, PER_THREAD, x3
	look	stub_look_T4, PER_THREAD, x4
	look	stub_look_T5, PER_THREAD, x5

	/* Calls x17 with a copy of so many words of stack arguments; any: of as many as its entry says. */
	.macro call_with_copy words
	.ifc	\words, any
	ldr	x9, [x19, #FRAME_STUB]
	adrp	x10, stub_entries
	add	x10, x10, #:lo12:stub_entries
	add	x10, x10, x9
	ldrb	w9, [x10, #ENTRY_WORDS]
	add	x10, x29, #32
	b	12f
11:	ldr	x11, [x10, x9, lsl #3]
	str	x11, [sp, x9, lsl #3]
12:	subs	w9, w9, #1
	b.pl	11b
	.else
	.set	word, 0
	.rept	\words / 2
	ldr	q0, [x29, #32 + word]
	str	q0, [sp, #word]
	.set	word, word + 16
	.endr
	.if	\words & 1
	ldr	x9, [x29, #32 + word]
	str	x9, [sp, #word]
	.endif
	.endif
	load_arguments x19
	blr	x17
	.endm

	/* room: for how many words, an even number */
	.macro	stub_that_calls words, room
	.type	stub_call_\words, %function
	.p2align 4
stub_call_\words:
	.cfi_startproc
	.ifc	\words, any
	ENTER
	.endif
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov	x29, sp
	.cfi_def_cfa_register x29
	stp	x19, x30, [x29, #16]	/* where the call returns to is the word before the stack's arguments */
	.cfi_offset x19, -16
	add	x17, sp, #32
	sub	sp, sp, #FRAME_SIZE + \room * 8
	add	x19, sp, #\room * 8	/* the frame; below it the copied arguments */
	save_arguments x19, x17
	look_at_entry 3f, 5f, 1
	call_with_copy \words
	cbnz	w0, 4f
	adrp	x15, order_word
	ldr	w15, [x15, #:lo12:order_word]
	tst	w15, #NOTED_WORD
	b.ne	8f
2:	ldr	x19, [x29, #16]
	mov	sp, x29
	ldp	x29, x30, [sp], #32
	.cfi_remember_state
	.cfi_def_cfa sp, 0
	.cfi_restore x29
	.cfi_restore x30
	.cfi_restore x19
	ret
	.cfi_restore_state
3:	mov	x0, x19
	bl	stub_before
	mov	x17, x0
	call_with_copy \words
	ldr	x16, [x19, #FRAME_STUB]
	adrp	x17, stub_entries
	add	x17, x17, #:lo12:stub_entries
	add	x17, x17, x16
	ldr	w17, [x17, #ENTRY_LOOK]
	cbz	w17, 4f
	ldr	x17, [x19, #FRAME_ATTEMPTS]
	cbnz	x17, 4f
	cbnz	w0, 4f
	ldr	x17, [x19, #FRAME_TO_STUB]
	cmp	x17, #FRAME_TELLS
	b.ne	2b
	adrp	x15, order_word
	ldr	w15, [x15, #:lo12:order_word]
	mov	w17, #TELLS_WORD
	tst	w15, w17
	b.eq	2b
	b	9f
4:	mov	w1, w0
	str	w0, [x29, #24]
	mov	x0, x19
	bl	stub_after
	tst	w0, #0xff
	b.ne	3b
	ldr	w0, [x29, #24]
	b	2b
5:	look_at_word 3b
	look_at_thread 3b
	ubfx	x13, x17, #LOOK_STREAM, #8
	ldr	x13, [x19, x13, lsl #3]
	tbz	w17, #LOOK_INSIDE, 6f
	cbz	x13, 3b
	ldr	x13, [x13, #CONFIG_STREAM]
6:	cbnz	x13, 7f
	lsr	x13, x17, #LOOK_DEFAULT
7:	look_at_stream x13, w13, 10f
	b	3b
8:	ldr	x16, [x19, #FRAME_STUB]
	adrp	x17, stub_entries
	add	x17, x17, #:lo12:stub_entries
	add	x17, x17, x16
	ldr	w17, [x17, #ENTRY_LOOK]
	tst	w17, #NOTED_WORD
	b.eq	2b		/* it submits nothing */
9:	bl	stub_tells
	mov	w0, #0
	b	2b
10:	ldr	x17, [x14, #ENTRY_REAL]
	call_with_copy \words
	cbz	w0, 2b
	b	4b
	.cfi_endproc
	.size	stub_call_\words, . - stub_call_\words
	.endm

	stub_that_calls	0, 0
	stub_that_calls	1, 2
	stub_that_calls	2, 2
	stub_that_calls	3, 4
	stub_that_calls	any, COPIED_WORDS

	/* An unknown function gets a copy of as many words as any takes, if they are there. */
	.type	stub_spare, %function
	.p2align 4
stub_spare:
	.cfi_startproc
	adrp	x14, stub_entries
	add	x14, x14, #:lo12:stub_entries
	add	x14, x14, x16
	ldr	w14, [x14, #ENTRY_WORDS]
	tbz	w14, #8, stub_call_any
	mov	x14, sp
	sub	x14, x14, #1		/* what is below is ours */
	add	x15, x14, #COPIED_WORDS * 8	/* the last byte */
	eor	x14, x14, x15
	lsr	x14, x14, #12
	cbz	x14, stub_call_any
	ask	stub_before_unseen, x16, FRAME_STUB
	cbz	x17, stub_call_any
	br	x17
	.cfi_endproc
	.size	stub_spare, . - stub_spare
#endif

	protected
