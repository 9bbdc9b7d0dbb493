/* built_in ARGUMENT...: CPython with a module of its own that calls CUDA through libffi, all of it
 * in one program, as interpreters that are handed out for any system have ctypes. */
#include <Python.h>

#include <dlfcn.h>
#include <ffi.h>

/* A function of the driver's by its name; the arguments are numbers of 64 bits. */
static PyObject *call(PyObject *self, PyObject *arguments) {
    enum { MOST = 4 };
    const char *name;
    uint64_t numbers[MOST] = {0};
    ffi_type *types[MOST] = {&ffi_type_uint64, &ffi_type_uint64, &ffi_type_uint64,
                             &ffi_type_uint64};
    void *values[MOST] = {&numbers[0], &numbers[1], &numbers[2], &numbers[3]};
    (void)self;
    if (!PyArg_ParseTuple(arguments, "sKK", &name, &numbers[0], &numbers[1]))
        return NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW),
         *function = driver ? dlsym(driver, name) : NULL;
    ffi_cif cif;
    ffi_arg result = 0;
    if (!function || ffi_prep_cif(&cif, FFI_DEFAULT_ABI, MOST, &ffi_type_uint32, types) != FFI_OK)
        return PyErr_Format(PyExc_OSError, "%s cannot be called", name);
    ffi_call(&cif, FFI_FN(function), &result, values);
    return PyLong_FromUnsignedLong((unsigned)result);
}

/* The address of eight bytes that last, and what is in them. */
static uint64_t word;

static PyObject *address(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return PyLong_FromVoidPtr(&word);
}

static PyObject *value(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return PyLong_FromUnsignedLongLong(word);
}

static PyMethodDef methods[] = {{"call", call, METH_VARARGS, NULL},
                                {"address", address, METH_NOARGS, NULL},
                                {"value", value, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef inside = {
    PyModuleDef_HEAD_INIT, "inside", NULL, -1, methods, NULL, NULL, NULL, NULL};

static PyObject *make(void) {
    return PyModule_Create(&inside);
}

int main(int count, char **arguments) {
    PyImport_AppendInittab("inside", make);
    return Py_BytesMain(count, arguments);
}
