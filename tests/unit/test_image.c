/* Where the tables of a loaded module are, wherever it was linked to lie and the loader has put it.
 */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "interpose/image.h"

/* A module of that size, whose tables lie behind one another. As glibc does it, all pointers but
 * those to the tables of versions are relocated; as others do, and as it stands in sections that
 * cannot be written to, none. */
enum { SIZE = 0x5000, SYMBOLS = 0x100, STRINGS = 0x200, VERSYM = 0x300, NEEDED = 0x400 };
enum { DEFINED = 0x500, CALLS = 0x600, SOME = 24 };

static void open_one(uintptr_t linked_at, uintptr_t lies_at, bool relocated) {
    uintptr_t base = lies_at - linked_at, table = relocated ? lies_at : linked_at;
    const ElfW(Dyn) dynamic[] = {{DT_SYMTAB, {table + SYMBOLS}},
                                 {DT_STRTAB, {table + STRINGS}},
                                 {DT_VERSYM, {table + VERSYM}},
                                 {DT_VERNEED, {linked_at + NEEDED}},
                                 {DT_VERDEF, {linked_at + DEFINED}},
                                 {DT_JMPREL, {table + CALLS}},
                                 {DT_PLTRELSZ, {SOME}},
                                 {DT_SONAME, {SOME}},
                                 {DT_NULL, {0}}};
    struct module module = {
        .base = base, .low = lies_at, .high = lies_at + SIZE, .dynamic = dynamic};
    struct image image;
    image_open(&module, &image);
    assert_int_equal(image.base, base);
    assert_int_equal((uintptr_t)image.symbols, lies_at + SYMBOLS);
    assert_int_equal((uintptr_t)image.strings, lies_at + STRINGS);
    assert_int_equal((uintptr_t)image.versions, lies_at + VERSYM);
    assert_int_equal((uintptr_t)image.needed, lies_at + NEEDED);
    assert_int_equal((uintptr_t)image.defined, lies_at + DEFINED);
    assert_int_equal((uintptr_t)image.tables[0], lies_at + CALLS);
    assert_int_equal(image.table_bytes[0], SOME);
    assert_int_equal((uintptr_t)image.soname, lies_at + STRINGS + SOME);
}

static void its_tables_are_found_wherever_it_lies(void **state) {
    (void)state;
    const uintptr_t low = 0x10000000, high = 0x7ffff7fc0000;
    const uintptr_t linked[] = {0, low, high};
    for (size_t i = 0; i < sizeof linked / sizeof linked[0]; i++)
        for (int relocated = 0; relocated < 2; relocated++) {
            open_one(linked[i], low, relocated);
            open_one(linked[i], high, relocated);
            open_one(linked[i], low + high, relocated);
        }
}

static void and_where_both_places_overlap(void **state) {
    (void)state;
    const uintptr_t linked = 0x10000000;
    for (uintptr_t by = 0; by < SIZE; by += 0x80) {
        open_one(linked, linked + by, true);
        open_one(linked, linked - by, true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_tables_are_found_wherever_it_lies),
        cmocka_unit_test(and_where_both_places_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
