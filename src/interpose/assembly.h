/* What the assembly files share. */
#ifndef POOLCUDA_INTERPOSE_ASSEMBLY_H
#define POOLCUDA_INTERPOSE_ASSEMBLY_H

/* ENTER: the first instruction of whatever may be jumped to through a pointer. PROTECTED: that the
 * file keeps to it (IBT, BTI), and that no code of it returns to another place than it was called
 * from (SHSTK). The linker marks an object so only if each of its parts says it: one file that is
 * silent takes it from the whole object, and the loader then from the whole process. */
#if defined(__x86_64__)
#define ENTER         endbr64
#define FEATURES_TYPE 0xc0000002 /* GNU_PROPERTY_X86_FEATURE_1_AND */
#define FEATURES      3          /* IBT, SHSTK */
#elif defined(__aarch64__)
#define ENTER         hint #34   /* bti c */
#define FEATURES_TYPE 0xc0000000 /* GNU_PROPERTY_AARCH64_FEATURE_1_AND */
#define FEATURES      1          /* BTI */
#else
#error "unsupported architecture"
#endif

#define HOOK_ENTRY_SIZE 16 /* bytes: see entry.S */

#ifdef __ASSEMBLER__
/* clang-format off */
	.macro	protected
	.section .note.gnu.property, "a", %note
	.p2align 3
	.long	4, 16, 5 /* NT_GNU_PROPERTY_TYPE_0 */
	.asciz	"GNU"
	.long	FEATURES_TYPE, 4, FEATURES, 0
	.section .note.GNU-stack, "", %progbits
	.endm
/* clang-format on */
#endif

#endif
