/* What the doctor checks of GStreamer: which of its plugins use CUDA, and whether a pipeline has
 * one of their elements. */
#include "cli/doctor/checks.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GST_PLUGINS = 2048 };

struct gst_plugins {
    char *paths[GST_PLUGINS]; /* of those that use CUDA */
    size_t count;
};

static void look_at_plugins(struct doctor *doctor, struct gst_plugins *plugins,
                            const char *folder) {
    DIR *files = opendir(folder);
    const struct dirent *entry;
    while (files && (entry = readdir(files)) && plugins->count < GST_PLUGINS) {
        char path[PATH_MAX];
        size_t length = strlen(entry->d_name);
        if (length > 3 && strcmp(entry->d_name + length - 3, ".so") == 0 &&
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < sizeof path &&
            library_uses_cuda(doctor, path))
            plugins->paths[plugins->count++] = strdup(path);
    }
    if (files)
        closedir(files);
}

/* Each folder of a list as PATH has it. */
static void look_at_folders(struct doctor *doctor, struct gst_plugins *plugins, const char *list) {
    while (list && *list) {
        char folder[PATH_MAX];
        size_t length = strcspn(list, ":");
        if (length && length < sizeof folder) {
            snprintf(folder, sizeof folder, "%.*s", (int)length, list);
            look_at_plugins(doctor, plugins, folder);
        }
        list += length + (list[length] == ':');
    }
}

static const char *get_either(const char *first, const char *second) {
    const char *value = getenv(first);
    return value ? value : getenv(second);
}

/* Where libgstreamer looks for plugins. */
static void find_gst_plugins(struct doctor *doctor, struct gst_plugins *plugins,
                             const char *library) {
    const char *own = get_either("GST_PLUGIN_PATH_1_0", "GST_PLUGIN_PATH"), *home = getenv("HOME");
    const char *system = get_either("GST_PLUGIN_SYSTEM_PATH_1_0", "GST_PLUGIN_SYSTEM_PATH");
    look_at_folders(doctor, plugins, own);
    if (system) {
        look_at_folders(doctor, plugins, system);
        return;
    }
    char folder[PATH_MAX + 64];
    snprintf(folder, sizeof folder, "%s/.local/share/gstreamer-1.0/plugins", home ? home : "");
    look_at_plugins(doctor, plugins, folder);
    snprintf(folder, sizeof folder, "%.*sgstreamer-1.0", (int)(base_name(library) - library),
             library);
    look_at_plugins(doctor, plugins, folder);
}

/* Whether the file has this very text in it, with a zero on both sides. */
static bool file_has_text(const char *path, const char *text) {
    size_t length = strlen(text), have = 0;
    char piece[65536];
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && length + 2 < sizeof piece) {
        size_t got = fread(piece + have, 1, sizeof piece - have, file);
        if (!got)
            break;
        have += got;
        for (const char *at = piece;
             !found && (at = memmem(at, have - (size_t)(at - piece), text, length)); at++)
            found = at > piece && !at[-1] && at + length < piece + have && !at[length];
        size_t kept = have < length + 2 ? have : length + 2;
        memmove(piece, piece + have - kept, kept);
        have = kept;
    }
    if (file)
        fclose(file);
    return found;
}

static bool is_autoplugging(const char *element) {
    static const char *const names[] = {"decodebin",    "playbin",   "uridecodebin", "encodebin",
                                        "parsebin",     "autovideo", "autoconvert",  "transcodebin",
                                        "urisourcebin", "camerabin"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(element, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* The plugin of CUDA's that has this element; NULL if none has. Names of decoders are put together:
 * nv and cuda stand before those of NVIDIA's. */
static const char *find_element(const struct gst_plugins *plugins, const char *element) {
    for (size_t i = 0; i < plugins->count; i++)
        if (file_has_text(plugins->paths[i], element))
            return plugins->paths[i];
    bool nvidias = strncmp(element, "nv", 2) == 0 || strncmp(element, "cuda", 4) == 0;
    return nvidias && plugins->count ? plugins->paths[0] : NULL;
}

static void check_pipeline(struct doctor *doctor, const struct gst_plugins *plugins,
                           const struct subject *subject, char *const *arguments) {
    bool autoplugs = false;
    for (; arguments && *arguments; arguments++) {
        char *copy = strdup(*arguments), *rest = copy, *word;
        while (copy && (word = strtok_r(rest, " \t\n!", &rest))) {
            const char *plugin = NULL;
            if (*word != '-' && !strchr(word, '=') && !strchr(word, '/'))
                plugin = find_element(plugins, word);
            autoplugs = autoplugs || is_autoplugging(word);
            if (!plugin || doctor->cuda_seen)
                continue;
            findings_add(&doctor->findings, "gstreamer", SEVERITY_OK, "%s is given %s, of %s",
                         subject->name, word, plugin);
            check_opened(doctor, plugin, NULL);
        }
        free(copy);
    }
    if (autoplugs && plugins->count && !doctor->cuda_seen)
        doctor_doubt(doctor, "GStreamer chooses elements by itself, and %s would use CUDA",
                     base_name(plugins->paths[0]));
}

void check_gstreamer(struct doctor *doctor, const struct subject *subject, char *const *arguments) {
    const char *library = bindings_library(&subject->loaded, "libgstreamer-1.0.so");
    if (!library)
        return;
    struct gst_plugins *plugins = calloc(1, sizeof *plugins);
    if (!plugins)
        return;
    find_gst_plugins(doctor, plugins, library);
    if (strncmp(base_name(subject->path), "gst-launch", 10) == 0)
        check_pipeline(doctor, plugins, subject, arguments);
    else if (plugins->count)
        doctor_doubt(doctor, "%s uses GStreamer, whose plugin %s would use CUDA in some pipelines",
                     subject->name, base_name(plugins->paths[0]));
    for (size_t i = 0; i < plugins->count; i++)
        free(plugins->paths[i]);
    free(plugins);
}
