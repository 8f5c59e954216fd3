/* Opens many images in one process, and tells how long that takes, how many threads the process has then, and
 * how much memory each image takes. It needs a pool, in which it creates the images and removes them again:
 *
 *   cc -O2 -Icrates/apps/capi/include crates/apps/capi/examples/many_images.c -o many_images libs/librados.so.2
 *   LD_LIBRARY_PATH=libs ./many_images CONF POOL 300
 *
 * On Ceph's libraries it runs as well; there it is linked with -lrbd -lrados. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "rbd/librbd.h"

#define IMAGES_MAX 10000

static void check(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(-result));
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* A number of /proc/self/status. */
static long status(const char *name) {
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            value = strtol(line + strlen(name) + 1, NULL, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return value;
}

int main(int argc, char **argv) {
    static rbd_image_t images[IMAGES_MAX];
    rados_t cluster;
    rados_ioctx_t pool;
    char name[32];
    int count = argc == 4 ? atoi(argv[3]) : 0, order = 0;
    if (count < 1 || count > IMAGES_MAX) {
        fprintf(stderr, "usage: many_images CONF POOL COUNT\n");
        return 2;
    }
    check(rados_create(&cluster, NULL), "create");
    check(rados_conf_read_file(cluster, argv[1]), argv[1]);
    check(rados_connect(cluster), "connect");
    check(rados_ioctx_create(cluster, argv[2], &pool), argv[2]);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "many.%d", i);
        check(rbd_create(pool, name, 1 << 30, &order), name);
    }
    long memory = status("VmRSS:"), threads = status("Threads:");
    double begun = now();
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "many.%d", i);
        check(rbd_open(pool, name, &images[i], NULL), name);
    }
    double took = now() - begun;
    printf("%d images: %.3f ms each; threads %ld before, %ld now; %.1f KiB each\n", count, took * 1e3 / count,
           threads, status("Threads:"), (double)(status("VmRSS:") - memory) / count);
    for (int i = 0; i < count; i++) {
        check(rbd_close(images[i]), "close");
        snprintf(name, sizeof name, "many.%d", i);
        check(rbd_remove(pool, name), name);
    }
    rados_ioctx_destroy(pool);
    rados_shutdown(cluster);
    return 0;
}
