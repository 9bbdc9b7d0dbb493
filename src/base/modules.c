#include "base/modules.h"

#include "base/signals.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Without a rank: nothing is taken under it but the loader's. Recursive, as that is: the handler of
 * a fault may look while its thread does. */
pthread_mutex_t modules_iterating = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* A signal's handler may fork, and its child would find the loader's lock taken for good: so it
 * runs afterwards. A fault's cannot. */
void modules_iterate(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data) {
    uint64_t before = signals_hold();
    pthread_mutex_lock(&modules_iterating);
    dl_iterate_phdr(visit, data);
    pthread_mutex_unlock(&modules_iterating);
    signals_let_come(before);
}

void modules_iterating_anew(void) {
    modules_iterating = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

static void copy_path(char *to, size_t size, const char *from) {
    size_t length = strlen(from);
    if (length >= size)
        length = size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

/* The program's path as it was first read, for when it cannot be read any more: a program may
 * forbid itself the system call. */
static struct {
    atomic_int state;
    char path[MODULE_PATH_MAX];
} program;
enum { UNKNOWN, BEING_WRITTEN, KNOWN };

static void name_program(char path[MODULE_PATH_MAX]) {
    ssize_t length = readlink("/proc/self/exe", path, MODULE_PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    int unknown = UNKNOWN;
    if (length <= 0) {
        if (atomic_load_explicit(&program.state, memory_order_acquire) == KNOWN)
            copy_path(path, MODULE_PATH_MAX, program.path);
    } else if (atomic_compare_exchange_strong(&program.state, &unknown, BEING_WRITTEN)) {
        copy_path(program.path, sizeof program.path, path);
        atomic_store_explicit(&program.state, KNOWN, memory_order_release);
    }
}

/* Writes the module's name. The loader names the program "". */
static void name_module(struct module *module, const struct dl_phdr_info *info) {
    copy_path(module->path, sizeof module->path, info->dlpi_name ? info->dlpi_name : "");
    if (module->path[0])
        return;
    module->executable = true;
    name_program(module->path);
}

/* Fills *module, its path aside, if `address` (any, if 0) is in an executable segment of it. */
static bool describe_segments(const struct dl_phdr_info *info, uintptr_t address,
                              struct module *module) {
    *module = (struct module){.base = info->dlpi_addr};
    bool found = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t low = info->dlpi_addr + header->p_vaddr, high = low + header->p_memsz;
        if (header->p_type == PT_LOAD) { /* in the order of their addresses */
            module->low = module->high ? module->low : low;
            module->high = high;
        }
        if (header->p_type == PT_DYNAMIC)
            module->dynamic = (const void *)low;
        else if (header->p_type == PT_GNU_EH_FRAME)
            module->eh_frame_header = (const void *)low;
        else if (header->p_type == PT_TLS && info->dlpi_tls_data) {
            module->thread_data = info->dlpi_tls_data;
            module->thread_bytes = header->p_memsz;
        } else if (header->p_type == PT_GNU_RELRO) {
            module->relro_low = low;
            module->relro_high = high;
        } else if (header->p_type == PT_LOAD && (header->p_flags & PF_X) && !found &&
                   (!address || (address >= low && address - low < header->p_memsz))) {
            module->text_low = low;
            module->text_high = high;
            found = true;
        }
    }
    return found;
}

struct search {
    uintptr_t address;
    struct module *module;
    bool found;
};

static int visit_search(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    if (!describe_segments(info, search->address, search->module))
        return 0;
    name_module(search->module, info);
    search->found = true;
    return 1;
}

bool modules_find(uintptr_t address, struct module *module) {
    if (!address)
        return false;
    struct search search = {.address = address, .module = module};
    modules_iterate(visit_search, &search);
    return search.found;
}

struct walk {
    bool (*visit)(const struct module *module, void *state);
    void *state;
};

static int visit_walk(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct walk *walk = data;
    struct module module;
    if (!describe_segments(info, 0, &module))
        return 0;
    name_module(&module, info);
    return !walk->visit(&module, walk->state);
}

void modules_each(bool (*visit)(const struct module *module, void *state), void *state) {
    struct walk walk = {visit, state};
    modules_iterate(visit_walk, &walk);
}

struct build_id {
    const struct module *module;
    unsigned char *id;
    size_t room, size;
};

/* Looks for the build id among the notes from `note` to `end`. */
static void search_notes(const char *note, const char *end, struct build_id *wanted) {
    ElfW(Nhdr) header;
    while ((size_t)(end - note) >= sizeof header) {
        memcpy(&header, note, sizeof header);
        size_t name = (header.n_namesz + (size_t)3) & ~(size_t)3;
        size_t content = (header.n_descsz + (size_t)3) & ~(size_t)3;
        note += sizeof header;
        if (name > (size_t)(end - note) || content > (size_t)(end - note) - name)
            return;
        if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == sizeof ELF_NOTE_GNU &&
            memcmp(note, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0 &&
            header.n_descsz <= wanted->room) {
            memcpy(wanted->id, note + name, header.n_descsz);
            wanted->size = header.n_descsz;
        }
        note += name + content;
    }
}

/* Whether a segment that is mapped for reading holds these notes. */
static bool is_loaded(const struct dl_phdr_info *info, const ElfW(Phdr) * notes) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && (header->p_flags & PF_R) &&
            notes->p_vaddr >= header->p_vaddr && notes->p_memsz <= header->p_filesz &&
            notes->p_vaddr - header->p_vaddr <= header->p_filesz - notes->p_memsz)
            return true;
    }
    return false;
}

static int visit_build_id(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct build_id *wanted = data;
    struct module module;
    if (info->dlpi_addr != wanted->module->base ||
        !describe_segments(info, wanted->module->text_low, &module))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const char *notes = (const char *)(info->dlpi_addr + header->p_vaddr);
        if (header->p_type == PT_NOTE && is_loaded(info, header))
            search_notes(notes, notes + header->p_memsz, wanted);
    }
    return 1;
}

size_t modules_build_id(const struct module *module, unsigned char *id, size_t room) {
    struct build_id wanted = {.module = module, .id = id, .room = room};
    modules_iterate(visit_build_id, &wanted);
    return wanted.size;
}

bool modules_describe(uintptr_t address, char *path, size_t size, uint64_t *offset) {
    struct module module;
    if (!modules_find(address, &module))
        return false;
    copy_path(path, size, module.path);
    *offset = address - module.base;
    return true;
}

uint64_t modules_name(uintptr_t address, char *name, size_t size) {
    static const char unknown[] = "(unknown)";
    uint64_t offset = address;
    if (!modules_describe(address, name, size, &offset)) {
        memcpy(name, unknown, size < sizeof unknown ? size : sizeof unknown);
        return address;
    }
    const char *slash = strrchr(name, '/');
    if (slash)
        memmove(name, slash + 1, strlen(slash + 1) + 1);
    return offset;
}
