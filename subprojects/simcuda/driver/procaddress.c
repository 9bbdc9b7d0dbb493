/* cuGetProcAddress in both forms, cuGetExportTable, cuDriverGetVersion. */
#include "entry.h"
#include "newer.h"
#include "settings.h"

#include <string.h>

enum form { LEGACY, PER_THREAD };

struct entry_record {
    const char *base;
    void *function;
    int since;
    enum form form;
};

static const struct entry_record records[] = {
#define ENTRY(symbol, base, since, form) {#base, (void *)(symbol), since, form},
#include "entry_points.def"
#undef ENTRY
};

/* The newest form of `name` that `version` knows; a per-thread form beats a legacy one if allowed.
 * *known says whether any form of that name exists in this driver. */
static void *find(const char *name, int version, bool per_thread, bool *known) {
    const struct entry_record *best = NULL;

    *known = false;
    if (newer_function != NULL && version >= NEWER_VERSION &&
        (*known = newer_function(name) != NULL))
        return newer_function(name);
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        const struct entry_record *record = &records[i];

        if (strcmp(record->base, name) != 0 || record->since > (int)settings()->driver_version)
            continue;
        *known = true;
        if (record->since > version || (record->form == PER_THREAD && !per_thread))
            continue;
        if (best == NULL || record->form > best->form ||
            (record->form == best->form && record->since >= best->since))
            best = record;
    }
    return best != NULL ? best->function : NULL;
}

static CUresult look_up(const char *name, void **function, int version, cuuint64_t flags,
                        bool *known) {
    const cuuint64_t allowed =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

    *known = false;
    if (name == NULL || function == NULL || (flags & ~allowed) != 0 || flags == allowed)
        return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    if (version > (int)settings()->driver_version)
        return CUDA_ERROR_INVALID_VALUE;
    *function =
        find(name, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, known);
    return CUDA_SUCCESS;
}

/* The form of CUDA 11.3 to 11.8, which documents NOT_FOUND. */
SIM_EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version,
                                     cuuint64_t flags) {
    bool known;
    CUresult result;

    ENTER_UNINITIALIZED(cuGetProcAddress);
    result = look_up(name, function, version, flags, &known);
    return result == CUDA_SUCCESS && *function == NULL ? CUDA_ERROR_NOT_FOUND : result;
}

/* The form of CUDA 12, which documents success with a null function and a status. */
SIM_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version,
                                        cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
    bool known;
    CUresult result;

    ENTER_UNINITIALIZED(cuGetProcAddress_v2);
    result = look_up(name, function, version, flags, &known);
    if (status != NULL)
        *status = result == CUDA_SUCCESS && *function != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return result;
}

/* The tables behind it are private to NVIDIA's own libraries: there are none here. */
SIM_EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *id) {
    ENTER_UNINITIALIZED(cuGetExportTable);
    if (table == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

SIM_EXPORT CUresult cuDriverGetVersion(int *version) {
    ENTER_UNINITIALIZED(cuDriverGetVersion);
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = (int)settings()->driver_version;
    return CUDA_SUCCESS;
}
