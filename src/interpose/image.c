#include "interpose/image.h"

#include <link.h>
#include <string.h>

#if defined(__x86_64__)
#define SLOT_TYPES(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define SLOT_TYPES(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#endif

/* The table that an entry tells of. The loader has relocated most of these pointers in place where
 * the section can be written to, but never those to the tables of versions. Which it has is seen by
 * where they point to: the base tells nothing, a module can be linked at any address. */
static const void *at(const struct module *module, const ElfW(Dyn) * entry) {
    ElfW(Addr) value = entry->d_un.d_ptr;
    bool relocated = entry->d_tag != DT_VERNEED && entry->d_tag != DT_VERDEF &&
                     value >= module->low && value < module->high;
    return (const void *)(relocated ? value : module->base + value);
}

void image_open(const struct module *module, struct image *opened) {
    struct image image = {.base = module->base, .soname = ""};
    ElfW(Addr) soname = 0;
    for (const ElfW(Dyn) *entry = module->dynamic; entry && entry->d_tag != DT_NULL; entry++) {
        const void *pointer = at(module, entry);
        switch (entry->d_tag) {
        case DT_SYMTAB:
            image.symbols = pointer;
            break;
        case DT_STRTAB:
            image.strings = pointer;
            break;
        case DT_VERSYM:
            image.versions = pointer;
            break;
        case DT_VERNEED:
            image.needed = pointer;
            break;
        case DT_VERDEF:
            image.defined = pointer;
            break;
        case DT_JMPREL:
            image.tables[0] = pointer;
            break;
        case DT_PLTRELSZ:
            image.table_bytes[0] = entry->d_un.d_val;
            break;
        case DT_RELA:
            image.tables[1] = pointer;
            break;
        case DT_RELASZ:
            image.table_bytes[1] = entry->d_un.d_val;
            break;
        case DT_GNU_HASH:
            image.gnu_hash = pointer;
            image.imports = image.gnu_hash[1];
            break;
        case DT_HASH:
            image.hash = pointer;
            if (!image.imports)
                image.imports = image.hash[1];
            break;
        case DT_SONAME:
            soname = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
    if (image.strings && soname)
        image.soname = image.strings + soname;
    if (!image.symbols || !image.strings) {
        image.imports = 0;
        image.gnu_hash = image.hash = NULL;
    }
    *opened = image;
}

static struct image open_image(const struct module *module) {
    struct image image;
    image_open(module, &image);
    return image;
}

static size_t find_import(const struct image *image, const char *name) {
    for (size_t i = 1; i < image->imports; i++)
        if (image->symbols[i].st_shndx == SHN_UNDEF &&
            strcmp(image->strings + image->symbols[i].st_name, name) == 0)
            return i;
    return 0;
}

static const char *version_name(const struct image *image, size_t symbol) {
    if (!image->versions || !image->needed)
        return "";
    unsigned index = image->versions[symbol] & 0x7fff;
    const ElfW(Verneed) *need = image->needed;
    for (;;) {
        const ElfW(Vernaux) *version = (const void *)((const char *)need + need->vn_aux);
        for (int i = 0; i < need->vn_cnt; i++) {
            if (version->vna_other == index)
                return image->strings + version->vna_name;
            version = (const void *)((const char *)version + version->vna_next);
        }
        if (!need->vn_next)
            return "";
        need = (const void *)((const char *)need + need->vn_next);
    }
}

const char *image_import_version(const struct module *module, const char *name) {
    struct image image = open_image(module);
    size_t symbol = find_import(&image, name);
    return symbol ? version_name(&image, symbol) : NULL;
}

uintptr_t image_import_slot(const struct module *module, const char *name) {
    struct image image = open_image(module);
    size_t symbol = find_import(&image, name);
    for (int t = 0; symbol && t < 2; t++)
        for (size_t i = 0; image.tables[t] && i < image.table_bytes[t] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Rela) *entry = &image.tables[t][i];
            if (ELF64_R_SYM(entry->r_info) == symbol && SLOT_TYPES(ELF64_R_TYPE(entry->r_info)))
                return *(const uintptr_t *)(module->base + entry->r_offset);
        }
    return 0;
}

static size_t slots_of(const struct image *image, int table) {
    return image->tables[table] ? image->table_bytes[table] / sizeof(ElfW(Rela)) : 0;
}

size_t image_slots(const struct image *image) {
    return slots_of(image, 0) + slots_of(image, 1);
}

uintptr_t *image_slot(const struct image *image, size_t number, uintptr_t *own) {
    size_t first = slots_of(image, 0);
    const ElfW(Rela) *entry =
        number < first ? &image->tables[0][number] : &image->tables[1][number - first];
    const ElfW(Sym) *symbol = &image->symbols[ELF64_R_SYM(entry->r_info)];
    *own = 0;
    if (!SLOT_TYPES(ELF64_R_TYPE(entry->r_info)))
        return NULL;
    if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_shndx != SHN_UNDEF)
        *own = image->base + symbol->st_value;
    return (uintptr_t *)(image->base + entry->r_offset); // NOLINT(performance-no-int-to-ptr)
}

/* The version under which a symbol is defined, "" without one. */
static const char *defined_version(const struct image *image, size_t symbol) {
    unsigned index = image->versions[symbol] & 0x7fff;
    const ElfW(Verdef) *defined = image->defined;
    while (defined && defined->vd_ndx != index)
        defined =
            defined->vd_next ? (const void *)((const char *)defined + defined->vd_next) : NULL;
    if (!defined)
        return "";
    const ElfW(Verdaux) *name = (const void *)((const char *)defined + defined->vd_aux);
    return image->strings + name->vda_name;
}

/* Whether the symbol is the function that somebody gets who asks for that name and version. */
static bool is_function(const struct image *image, size_t symbol, const char *name,
                        const char *version) {
    enum { HIDDEN = 0x8000 }; /* given only to those who ask for the version */
    const ElfW(Sym) *entry = &image->symbols[symbol];
    unsigned type = ELF64_ST_TYPE(entry->st_info);
    if (entry->st_shndx == SHN_UNDEF || !entry->st_value ||
        ELF64_ST_BIND(entry->st_info) == STB_LOCAL || (type != STT_FUNC && type != STT_NOTYPE) ||
        strcmp(image->strings + entry->st_name, name) != 0)
        return false;
    if (!image->versions)
        return true;
    return version ? strcmp(defined_version(image, symbol), version) == 0
                   : !(image->versions[symbol] & HIDDEN);
}

uint32_t image_hash(const char *name) {
    uint32_t hash = 5381;
    for (const char *letter = name; *letter; letter++)
        hash = hash * 33 + (unsigned char)*letter;
    return hash;
}

/* What most modules answer with about most names: they have a filter before their table. */
static bool has_surely_not(const struct image *image, uint32_t wanted) {
    enum { BITS = 8 * sizeof(ElfW(Addr)) };
    const ElfW(Addr) *filter = (const void *)(image->gnu_hash + 4);
    uint32_t words = image->gnu_hash[2], shift = image->gnu_hash[3];
    ElfW(Addr) word = words ? filter[wanted / BITS & (words - 1)] : ~(ElfW(Addr))0;
    return !(word >> wanted % BITS & word >> (wanted >> shift) % BITS & 1);
}

bool image_surely_lacks(const struct image *image, const char *name) {
    return image->gnu_hash ? has_surely_not(image, image_hash(name)) : !image->hash;
}

static size_t find_by_gnu_hash(const struct image *image, const char *name, uint32_t wanted,
                               const char *version) {
    uint32_t buckets = image->gnu_hash[0], first = image->gnu_hash[1];
    const uint32_t *bucket =
        image->gnu_hash + 4 + image->gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    if (has_surely_not(image, wanted))
        return 0;
    uint32_t symbol = buckets ? bucket[wanted % buckets] : 0;
    if (symbol < first)
        return 0;
    for (;; symbol++) {
        uint32_t hash = chain[symbol - first];
        if ((hash | 1) == (wanted | 1) && is_function(image, symbol, name, version))
            return symbol;
        if (hash & 1) /* the last one of its bucket */
            return 0;
    }
}

static size_t find_in_table(const struct image *image, const char *name, const char *version) {
    for (size_t i = 1; i < image->hash[1]; i++)
        if (is_function(image, i, name, version))
            return i;
    return 0;
}

uintptr_t image_find(const struct image *image, const char *name, uint32_t hash,
                     const char *version) {
    size_t symbol = 0;
    if (image->gnu_hash)
        symbol = find_by_gnu_hash(image, name, hash, version);
    else if (image->hash)
        symbol = find_in_table(image, name, version);
    return symbol ? image->base + image->symbols[symbol].st_value : 0;
}

uintptr_t image_find_function(const struct module *module, const char *name, const char *version) {
    struct image image = open_image(module);
    return image_find(&image, name, image_hash(name), version);
}

/* How many symbols the table has: the chains of the hash table cover all that are exported. */
static size_t symbol_count(const struct image *image) {
    if (image->hash)
        return image->hash[1];
    if (!image->gnu_hash)
        return 0;
    uint32_t buckets = image->gnu_hash[0], first = image->gnu_hash[1], last = 0;
    const uint32_t *bucket =
        image->gnu_hash + 4 + image->gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last)
            last = bucket[i];
    if (last < first)
        return 0;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

void image_functions_each(const struct module *module,
                          void (*visit)(const char *name, uintptr_t low, uintptr_t high,
                                        void *state),
                          void *state) {
    struct image image = open_image(module);
    if (!image.symbols || !image.strings)
        return;
    size_t count = symbol_count(&image);
    for (size_t i = image.gnu_hash ? image.imports : 1; i < count; i++) {
        const ElfW(Sym) *symbol = &image.symbols[i];
        if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_size &&
            symbol->st_shndx != SHN_UNDEF)
            visit(image.strings + symbol->st_name, module->base + symbol->st_value,
                  module->base + symbol->st_value + symbol->st_size, state);
    }
}

uintptr_t image_find_object(const struct module *module, const char *name) {
    struct image image = open_image(module);
    if (!image.symbols || !image.strings)
        return 0;
    size_t count = symbol_count(&image);
    for (size_t i = image.gnu_hash ? image.imports : 1; i < count; i++) {
        const ElfW(Sym) *symbol = &image.symbols[i];
        if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_shndx != SHN_UNDEF &&
            strcmp(image.strings + symbol->st_name, name) == 0)
            return module->base + symbol->st_value;
    }
    return 0;
}

const char *image_soname(const struct module *module) {
    return open_image(module).soname;
}
