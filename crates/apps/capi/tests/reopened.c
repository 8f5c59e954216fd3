/* A program that loads the library, uses it and closes it, 1,000 times. It prints "done" if all is well, and
 * the line of the first check that failed if not. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "rados/librados.h"

#define CHECK(holds)                                                                                     \
    do {                                                                                                 \
        if (!(holds)) {                                                                                  \
            printf("line %d: %s\n", __LINE__, #holds);                                                   \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

#define TIMES 1000
#define CONNECTED 20

/* ISO C knows no cast between pointers to data and to functions. */
static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    return found;
}

#define LOAD(library, name) memcpy(&name, &(void *){function(library, "rados_" #name)}, sizeof name)

static int threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    CHECK(tasks != NULL);
    while (readdir(tasks) != NULL) {
        count++;
    }
    closedir(tasks);
    return count - 2;
}

static void use(void *library, const char *conf, int connects) {
    int (*create)(rados_t *, const char *), (*conf_read_file)(rados_t, const char *), (*connect)(rados_t);
    int (*pool_list)(rados_t, char *, size_t);
    void (*shutdown)(rados_t);
    rados_t cluster;
    char names[64];
    LOAD(library, create);
    LOAD(library, conf_read_file);
    LOAD(library, connect);
    LOAD(library, pool_list);
    LOAD(library, shutdown);
    CHECK(create(&cluster, NULL) == 0);
    if (connects) {
        CHECK(conf_read_file(cluster, conf) == 0);
        CHECK(connect(cluster) == 0);
        CHECK(pool_list(cluster, names, sizeof names) > 0);
    }
    shutdown(cluster);
}

int main(int argc, char **argv) {
    int at_first = 0;
    CHECK(argc == 3);
    for (int i = 0; i < TIMES; i++) {
        void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        use(library, argv[1], i % (TIMES / CONNECTED) == 0);
        CHECK(dlclose(library) == 0);
        if (i == TIMES / 10) {
            at_first = threads();
        }
    }
    /* The threads of the first use serve all others. */
    CHECK(threads() <= at_first + 2);
    puts("done");
    return 0;
}
