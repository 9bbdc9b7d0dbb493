/* cuGetProcAddress in both forms, cuGetExportTable, cuDriverGetVersion. */
#include "entry.h"
#include "newer.h"
#include "report.h"
#include "settings.h"
#include "unsimulated.h"

#include <stdio.h>
#include <string.h>

static const struct entry_record records[] = {
#define ENTRY(symbol, base, since, form) {#base, (void *)(symbol), since, form},
#include "entry_points.def"
#undef ENTRY
};

enum { RECORDS = sizeof records / sizeof *records };

static const struct entry_record *newer(const struct entry_record *best,
                                        const struct entry_record *other) {
    return best == NULL || other->form > best->form ||
                   (other->form == best->form && other->since >= best->since)
               ? other
               : best;
}

/* The newest form of `name` that `version` knows; a per-thread form beats a legacy one if allowed.
 * *known says whether any form of that name exists in this driver. */
static void *find(const char *name, int version, bool per_thread, bool *known) {
    const struct entry_record *best = NULL;

    *known = false;
    if (newer_function != NULL && version >= NEWER_VERSION &&
        (*known = newer_function(name) != NULL))
        return newer_function(name);
    for (size_t i = 0; i < RECORDS + unsimulated_count; i++) {
        const struct entry_record *record =
            i < RECORDS ? &records[i] : &unsimulated_records[i - RECORDS];

        if (strcmp(record->base, name) != 0 || record->since > (int)settings()->driver_version)
            continue;
        *known = true;
        if (record->since <= version && (record->form == LEGACY || per_thread))
            best = newer(best, record);
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
    if (*function == NULL && *name != '\0')
        report_unserved(name);
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
    char digits[2 * sizeof(CUuuid) + 1];

    ENTER_UNINITIALIZED(cuGetExportTable);
    if (table == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    for (size_t i = 0; i < sizeof id->bytes; i++)
        snprintf(digits + 2 * i, 3, "%02x", (unsigned char)id->bytes[i]);
    report_unserved(digits);
    return CUDA_ERROR_NOT_FOUND;
}

SIM_EXPORT CUresult cuDriverGetVersion(int *version) {
    ENTER_UNINITIALIZED(cuDriverGetVersion);
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = (int)settings()->driver_version;
    return CUDA_SUCCESS;
}
