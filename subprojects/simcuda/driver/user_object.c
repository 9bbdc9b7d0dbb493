#include "user_object.h"

#include "allocate.h"
#include "entry.h"
#include "graph.h"
#include "lock.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <utlist.h>

/* Invariant: references is the sum of what the program and all graphs have. With none left it is in
 * `ended` until it was destroyed. */
struct CUuserObject_st {
    size_t references;
    CUhostFn destroy;
    void *data;
    struct CUuserObject_st *next;
};

static struct CUuserObject_st *objects; /* that have references */
static struct CUuserObject_st *ended;   /* to be destroyed, in this order */
static bool is_destroying;              /* a thread goes through `ended` */

static struct CUuserObject_st *find(CUuserObject handle) {
    struct CUuserObject_st *object;

    LL_FOREACH(objects, object)
    if (object == handle)
        return object;
    return NULL;
}

/* The program's functions are called one after another, on a thread that is none of its own. */
static void *destroy_all(void *unused) {
    struct CUuserObject_st *object;

    (void)unused;
    entry_enter_host_function(true);
    sim_lock();
    while ((object = ended) != NULL) {
        LL_DELETE(ended, object);
        sim_unlock();
        object->destroy(object->data);
        free(object);
        sim_lock();
    }
    is_destroying = false;
    sim_unlock();
    return NULL;
}

static void end(struct CUuserObject_st *object) {
    pthread_attr_t attributes;
    pthread_t thread;

    LL_DELETE(objects, object);
    LL_APPEND(ended, object);
    if (is_destroying)
        return;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    is_destroying = pthread_create(&thread, &attributes, destroy_all, NULL) == 0;
    pthread_attr_destroy(&attributes);
    if (!is_destroying)
        abort(); /* the program would wait for its function */
}

static void release(struct CUuserObject_st *object, size_t count) {
    object->references -= count;
    if (object->references == 0)
        end(object);
}

static struct user_reference *reference_to(const struct user_references *references,
                                           const struct CUuserObject_st *object) {
    for (size_t i = 0; i < references->count; i++)
        if (references->items[i].object == object)
            return &references->items[i];
    return NULL;
}

static void add(struct user_references *references, struct CUuserObject_st *object, size_t count) {
    struct user_reference *there = reference_to(references, object);

    if (there != NULL) {
        there->count += count;
        return;
    }
    references->items =
        allocate_again(references->items, (references->count + 1) * sizeof *references->items);
    references->items[references->count++] = (struct user_reference){object, count};
}

void user_references_copy(struct user_references *to, const struct user_references *from) {
    sim_check_held();
    *to = (struct user_references){0};
    for (size_t i = 0; i < from->count; i++) {
        add(to, from->items[i].object, from->items[i].count);
        from->items[i].object->references += from->items[i].count;
    }
}

void user_references_clear(struct user_references *references) {
    sim_check_held();
    for (size_t i = 0; i < references->count; i++)
        release(references->items[i].object, references->items[i].count);
    free(references->items);
    *references = (struct user_references){0};
}

/* --- entry points --- */

static bool is_count(unsigned int count) {
    return count != 0 && count <= INT_MAX;
}

SIM_EXPORT CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy,
                                       unsigned int references, unsigned int flags) {
    struct CUuserObject_st *object;

    ENTER(cuUserObjectCreate);
    if (out == NULL || destroy == NULL || !is_count(references) ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    object = allocate_zeroed(sizeof *object);
    object->references = references;
    object->destroy = destroy;
    object->data = data;
    LL_PREPEND(objects, object);
    *out = object;
    sim_unlock();
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuUserObjectRetain);
    sim_lock();
    if (is_count(count) && find(object) != NULL) {
        object->references += count;
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

/* Who has which references is not known: releasing another's is undefined. */
SIM_EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuUserObjectRelease);
    sim_lock();
    if (is_count(count) && find(object) != NULL && object->references >= count) {
        release(object, count);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                            unsigned int flags) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphRetainUserObject);
    sim_lock();
    if (is_count(count) && (flags & ~(unsigned int)CU_GRAPH_USER_OBJECT_MOVE) == 0 &&
        graph_find(graph) != NULL && find(object) != NULL) {
        add(&graph->objects, object, count);
        if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0)
            object->references += count;
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object,
                                             unsigned int count) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    struct user_reference *there = NULL;

    ENTER(cuGraphReleaseUserObject);
    sim_lock();
    if (is_count(count) && graph_find(graph) != NULL)
        there = reference_to(&graph->objects, object);
    if (there != NULL && there->count >= count) {
        there->count -= count;
        if (there->count == 0)
            *there = graph->objects.items[--graph->objects.count];
        release(object, count);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}
