/* A module of the name service that knows one user, "probe", and finds the user's number by the
 * loader's functions: the C library opens it when a user is first asked for, and before glibc 2.34
 * libdl comes into the process only with it. The test builds it with the libraries of the system on
 * which it is to be used. */
#include <dlfcn.h>
#include <nss.h>
#include <pwd.h>
#include <string.h>

enum { PROBE = 4242 };

enum nss_status _nss_probe_getpwnam_r(const char *name, struct passwd *user, char *text,
                                      size_t size, int *error);

/* PROBE, or the number of the step that failed. */
static unsigned number(void) {
    if (dlopen("libnothing-has-this-name.so", RTLD_LAZY))
        return 1;
    const char *fault = dlerror();
    if (!fault || !strstr(fault, "libnothing-has-this-name.so"))
        return 2;
    void *library = dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return 3;
    double (*floor_of)(double) = 0;
    *(void **)&floor_of = dlsym(library, "floor");
    if (!floor_of || floor_of(2.5) != 2)
        return 4;
    if (dlsym(library, "curious") || !dlerror())
        return 5;
    if (!dlsym(RTLD_NEXT, "getpid") || !dlsym(RTLD_DEFAULT, "getpid"))
        return 6;
    return dlclose(library) ? 7 : PROBE;
}

enum nss_status _nss_probe_getpwnam_r(const char *name, struct passwd *user, char *text,
                                      size_t size, int *error) {
    static const char words[] = "probe\0x\0/nowhere";
    if (strcmp(name, "probe") != 0)
        return NSS_STATUS_NOTFOUND;
    if (size < sizeof words) {
        *error = 34; /* ERANGE */
        return NSS_STATUS_TRYAGAIN;
    }
    for (size_t i = 0; i < sizeof words; i++)
        text[i] = words[i];
    *user = (struct passwd){.pw_name = text,
                            .pw_passwd = text + 6,
                            .pw_uid = number(),
                            .pw_gid = PROBE,
                            .pw_gecos = text + 6,
                            .pw_dir = text + 8,
                            .pw_shell = text + 8};
    return NSS_STATUS_SUCCESS;
}
