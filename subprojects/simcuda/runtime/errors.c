/* Names and texts of errors. No device is needed for them, nor a driver. */
#include "driver_calls.h"

static const struct {
    int error;
    const char *name, *text;
} errors[] = {
#define ERROR_CODE(number, name, text) {number, name, text},
#include "errors.def"
#undef ERROR_CODE
};

static const char *const unknown = "unrecognized error code";

const char *cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == (int)error)
            return errors[i].name;
    return unknown;
}

const char *cudaGetErrorString(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == (int)error)
            return errors[i].text;
    return unknown;
}
