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
    ENTER_UNINITIALIZED(cuGetErrorName);
    return look_up(error, name, true);
}

SIM_EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    ENTER_UNINITIALIZED(cuGetErrorString);
    return look_up(error, text, false);
}
