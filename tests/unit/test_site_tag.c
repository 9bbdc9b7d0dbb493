/* Tags: one site for equal texts, nesting, and what does not fit is no tag. */
#include "site_tag.h"

/* cmocka.h needs the others before it. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The name that an allocation would have now; NULL: none. */
static const char *name_now(void) {
    struct call_site site = {.depth = 1};
    return site_tag_find(&site) ? site_tag_name(&site) : NULL;
}

static void the_innermost_tag_counts(void **state) {
    (void)state;
    assert_null(name_now());
    site_tag_push("outer");
    site_tag_push("inner");
    assert_string_equal(name_now(), "inner");
    site_tag_pop();
    assert_string_equal(name_now(), "outer");
    site_tag_pop();
    assert_null(name_now());
    site_tag_pop(); /* one too many */
    site_tag_push("outer");
    assert_string_equal(name_now(), "outer");
    site_tag_pop();
}

static void equal_texts_are_one_site_wherever_they_lie(void **state) {
    (void)state;
    char one[] = "a tag", other[] = "a tag";
    struct call_site first = {.depth = 0}, second = first, third = first;
    site_tag_push(one);
    assert_true(site_tag_find(&first));
    site_tag_pop();
    one[0] = '!'; /* it was copied */
    site_tag_push(other);
    assert_true(site_tag_find(&second));
    assert_memory_equal(&first, &second, sizeof first);
    site_tag_push("another");
    assert_true(site_tag_find(&third));
    assert_int_not_equal(first.frames[0], third.frames[0]);
    site_tag_pop();
    site_tag_pop();
    assert_string_equal(site_tag_name(&first), "a tag");
}

static void null_and_empty_mean_no_tag_until_they_are_popped(void **state) {
    (void)state;
    const char *const none[] = {NULL, ""};
    site_tag_push("outer");
    for (int i = 0; i < 2; i++) {
        site_tag_push(none[i]);
        assert_null(name_now());
        site_tag_pop();
        assert_string_equal(name_now(), "outer");
    }
    site_tag_pop();
}

static void beyond_the_depth_there_is_no_tag_and_each_push_has_its_pop(void **state) {
    (void)state;
    for (int i = 0; i < SITE_TAG_DEPTH; i++)
        site_tag_push(i % 2 ? "odd" : "even");
    assert_string_equal(name_now(), "odd");
    for (int i = 0; i < 100; i++) {
        site_tag_push("too deep");
        assert_null(name_now());
    }
    for (int i = 0; i < 99; i++)
        site_tag_pop();
    assert_null(name_now());
    site_tag_pop();
    assert_string_equal(name_now(), "odd");
    for (int i = 0; i < SITE_TAG_DEPTH; i++)
        site_tag_pop();
    assert_null(name_now());
}

static void a_long_text_is_cut_between_characters(void **state) {
    (void)state;
    char text[200] = "", wanted[SITE_TAG_SIZE] = "";
    memset(text, 'x', 150);
    memset(wanted, 'x', SITE_TAG_SIZE - 1);
    site_tag_push(text);
    assert_string_equal(name_now(), wanted);
    site_tag_pop();
    for (size_t i = 0; i < 3; i++) /* the euro sign would be cut in two */
        text[SITE_TAG_SIZE - 2 + i] = "\xe2\x82\xac"[i];
    wanted[SITE_TAG_SIZE - 2] = '\0';
    site_tag_push(text);
    assert_string_equal(name_now(), wanted);
    site_tag_pop();
}

static void control_characters_are_replaced_and_others_stay(void **state) {
    (void)state;
    site_tag_push("a\x1b[31m\n\x7f\xc2\x9b"
                  "1m \xc3\xa9");
    assert_string_equal(name_now(), "a?[31m???1m \xc3\xa9");
    site_tag_pop();
}

static void other_sites_have_no_name(void **state) {
    (void)state;
    struct call_site site = {.depth = 0};
    site_tag_push("named");
    assert_true(site_tag_find(&site));
    site_tag_pop();
    struct call_site deeper = site;
    deeper.depth = 2;
    assert_null(site_tag_name(&deeper));
    struct call_site code = {.frames = {(uintptr_t)other_sites_have_no_name}, .depth = 1};
    assert_null(site_tag_name(&code));
    code.frames[0] = 0;
    assert_null(site_tag_name(&code));
}

enum { THREADS = 4, NAMES = 100 };
static uintptr_t seen[THREADS][NAMES];

static void *tag(void *data) {
    uintptr_t *mine = data;
    for (int i = 0; i < NAMES; i++) {
        char name[32];
        struct call_site site = {.depth = 0};
        snprintf(name, sizeof name, "thread name %d", i);
        assert_null(name_now()); /* the main thread has one pushed */
        site_tag_push(name);
        assert_true(site_tag_find(&site));
        assert_string_equal(site_tag_name(&site), name);
        mine[i] = site.frames[0];
        site_tag_pop();
    }
    return NULL;
}

static void threads_agree_on_a_name_and_have_each_their_own_scopes(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    site_tag_push("main thread");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, tag, seen[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        assert_memory_equal(seen[i], seen[0], sizeof seen[0]);
    assert_string_equal(name_now(), "main thread");
    site_tag_pop();
}

/* The last test: the table stays full. */
static void beyond_the_table_there_is_no_tag_but_known_ones_stay(void **state) {
    (void)state;
    char name[32];
    for (int i = 0; i < SITE_TAGS + 10; i++) {
        snprintf(name, sizeof name, "name %d", i);
        site_tag_push(name);
        site_tag_pop();
    }
    site_tag_push("one more");
    assert_null(name_now());
    site_tag_pop();
    site_tag_push("outer");
    assert_string_equal(name_now(), "outer");
    site_tag_pop();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_innermost_tag_counts),
        cmocka_unit_test(equal_texts_are_one_site_wherever_they_lie),
        cmocka_unit_test(null_and_empty_mean_no_tag_until_they_are_popped),
        cmocka_unit_test(beyond_the_depth_there_is_no_tag_and_each_push_has_its_pop),
        cmocka_unit_test(a_long_text_is_cut_between_characters),
        cmocka_unit_test(control_characters_are_replaced_and_others_stay),
        cmocka_unit_test(other_sites_have_no_name),
        cmocka_unit_test(threads_agree_on_a_name_and_have_each_their_own_scopes),
        cmocka_unit_test(beyond_the_table_there_is_no_tag_but_known_ones_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
