/* cuGetErrorName and cuGetErrorString. */
#include "entry.h"

static CUresult look_up(CUresult error, const char **text, bool name) {
    if (text == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((unsigned int)error) {
#define ERROR_CODE(number, its_name, its_text)                                                     \
    case number:                                                                                   \
        *text = name ? (its_name) : (its_text);                                                    \
        return CUDA_SUCCESS;
#include "errors.def"
#undef ERROR_CODE
    default:
        *text = NULL;
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_EXPORT CUresult cuGetErrorName(CUresult error, const char **name) {
    entry_count(ENTRY_cuGetErrorName);
    return look_up(error, name, true);
}

SIM_EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    entry_count(ENTRY_cuGetErrorString);
    return look_up(error, text, false);
}
