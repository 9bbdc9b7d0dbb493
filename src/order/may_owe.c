/* Whether a free may owe its wait, and the word that says that it does: without the lock, as each
 * free asks. */
#include "base/planted.h"
#include "order/order.h"
#include "thread_marks.h"

atomic_int order_word;

bool order_has_streams_about(const struct order *order) {
    return atomic_load_explicit(&order->streams_used, memory_order_relaxed);
}

bool order_is_tracked(const struct order *order) {
    return !atomic_load_explicit(&order->several, memory_order_relaxed) ||
           !order_has_streams_about(order);
}

bool order_is_sole(const struct order *order, uint32_t number) {
    return number && (atomic_load_explicit(&order->sole, memory_order_relaxed) == number ||
                      PLANTED(other_thread_not_seen));
}

bool order_may_owe(const struct order *order, uint32_t number) {
    bool nobody = !atomic_load_explicit(&order->sole, memory_order_relaxed);
    if (!atomic_load_explicit(&order->only, memory_order_relaxed))
        return thread_numbers() <= 1;
    return !order_has_streams_about(order) ||
           (order_is_tracked(order) &&
            (nobody ? thread_numbers() <= 1 : order_is_sole(order, number)));
}

bool order_is_only(const struct order *order, CUcontext context) {
    return atomic_load_explicit(&order->only, memory_order_relaxed) == context;
}

bool order_has_crossings(const struct order *order) {
    return atomic_load_explicit(&order->crossings, memory_order_relaxed) != 0;
}

/* In most cases the word says so already, and is not written to: other threads look at it. */
void order_owe_quickly(void) {
#ifdef __SANITIZE_THREAD__
    int word = atomic_load_explicit(&order_word, memory_order_relaxed);
#else
    int word = *(const int *)&order_word; /* as above, but the compiler may test it in place */
#endif
    if (__builtin_expect(!(word & ORDER_FREED), 0))
        atomic_fetch_or_explicit(&order_word, ORDER_OWED | ORDER_UNFENCED | ORDER_FREED,
                                 memory_order_release);
}

void order_defers(void) {
    if (!(atomic_load_explicit(&order_word, memory_order_relaxed) & ORDER_DEFERRED))
        atomic_fetch_or_explicit(&order_word, ORDER_DEFERRED, memory_order_release);
}
