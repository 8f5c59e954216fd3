/* Striped files in a C program. It prints "done" if all is well, and the line of the first check that failed
 * if not. It uses only what libradosstriper answers in the same way. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "radosstriper/libradosstriper.h"

#define CHECK(holds)                                                                                     \
    do {                                                                                                 \
        if (!(holds)) {                                                                                  \
            printf("line %d: %s\n", __LINE__, #holds);                                                   \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

#define KIBI (1 << 10)
#define LEN (1 << 20)

static char written[LEN], got[LEN + 1];

static void layout(rados_striper_t striper) {
    CHECK(rados_striper_set_object_layout_stripe_unit(striper, 0) == -EINVAL);
    CHECK(rados_striper_set_object_layout_stripe_unit(striper, 1000) == -EINVAL);
    CHECK(rados_striper_set_object_layout_stripe_count(striper, 0) == -EINVAL);
    CHECK(rados_striper_set_object_layout_object_size(striper, 100) == -EINVAL);
    CHECK(rados_striper_set_object_layout_stripe_unit(striper, 64 * KIBI) == 0);
    CHECK(rados_striper_set_object_layout_stripe_count(striper, 3) == 0);
    CHECK(rados_striper_set_object_layout_object_size(striper, 128 * KIBI) == 0);
}

static void data(rados_striper_t striper, rados_ioctx_t pool) {
    uint64_t size;
    time_t time;
    struct timespec precise;
    char part[16];
    CHECK(rados_striper_read(striper, "file", got, sizeof got, 0) == -ENOENT);
    CHECK(rados_striper_stat(striper, "file", &size, &time) == -ENOENT);
    CHECK(rados_striper_trunc(striper, "file", 0) == -ENOENT);
    CHECK(rados_striper_write(striper, "file", written, LEN, 0) == 0);
    CHECK(rados_striper_read(striper, "file", got, sizeof got, 0) == LEN);
    CHECK(memcmp(got, written, LEN) == 0);
    CHECK(rados_striper_read(striper, "file", got, 16, LEN) == 0);
    CHECK(rados_striper_stat(striper, "file", &size, &time) == 0 && size == LEN && time > 0);
    CHECK(rados_striper_stat2(striper, "file", &size, &precise) == 0 && precise.tv_sec == time);
    /* The second unit of the stripe is in the second object. */
    CHECK(rados_read(pool, "file.0000000000000001", part, sizeof part, 0) == sizeof part);
    CHECK(memcmp(part, written + 64 * KIBI, sizeof part) == 0);
    CHECK(rados_striper_append(striper, "file", "the end", 7) == 0);
    CHECK(rados_striper_read(striper, "file", got, sizeof got, LEN) == 7 && memcmp(got, "the end", 7) == 0);
    CHECK(rados_striper_trunc(striper, "file", 10) == 0);
    CHECK(rados_striper_trunc(striper, "file", 100 * KIBI) == 0);
    CHECK(rados_striper_read(striper, "file", got, sizeof got, 0) == 100 * KIBI);
    CHECK(memcmp(got, written, 10) == 0 && got[10] == 0 && got[100 * KIBI - 1] == 0);
    CHECK(rados_striper_write_full(striper, "file", "all", 3) == 0);
    CHECK(rados_striper_read(striper, "file", got, sizeof got, 0) == 3 && memcmp(got, "all", 3) == 0);
}

static void attributes(rados_striper_t striper) {
    rados_xattrs_iter_t iterator;
    const char *name, *value;
    char text[16];
    size_t len;
    int count = 0;
    CHECK(rados_striper_getxattr(striper, "file", "colour", text, sizeof text) == -ENODATA);
    CHECK(rados_striper_setxattr(striper, "file", "colour", "blue", 4) == 0);
    CHECK(rados_striper_getxattr(striper, "file", "colour", text, sizeof text) == 4);
    CHECK(rados_striper_getxattrs(striper, "file", &iterator) == 0);
    while (rados_striper_getxattrs_next(iterator, &name, &value, &len) == 0 && name != NULL) {
        CHECK(strcmp(name, "colour") == 0 && len == 4 && memcmp(value, "blue", 4) == 0);
        count++;
    }
    CHECK(count == 1);
    rados_striper_getxattrs_end(iterator);
    CHECK(rados_striper_rmxattr(striper, "file", "colour") == 0);
}

static void told(rados_completion_t completion, void *arg) {
    (void)completion;
    *(int *)arg += 1;
}

static int result_of(rados_completion_t completion) {
    CHECK(rados_aio_wait_for_complete_and_cb(completion) == 0);
    int result = rados_aio_get_return_value(completion);
    rados_aio_release(completion);
    return result;
}

static void asynchronous(rados_striper_t striper) {
    rados_completion_t completion;
    uint64_t size;
    time_t time;
    int called = 0;
    CHECK(rados_aio_create_completion2(&called, told, &completion) == 0);
    CHECK(rados_striper_aio_write(striper, "later", completion, written, LEN, 5) == 0);
    rados_striper_aio_flush(striper);
    CHECK(result_of(completion) == 0 && called == 1);
    CHECK(rados_aio_create_completion2(NULL, NULL, &completion) == 0);
    CHECK(rados_striper_aio_append(striper, "later", completion, "the end", 7) == 0);
    CHECK(result_of(completion) == 0);
    CHECK(rados_aio_create_completion2(NULL, NULL, &completion) == 0);
    CHECK(rados_striper_aio_stat(striper, "later", completion, &size, &time) == 0);
    CHECK(result_of(completion) == 0 && size == LEN + 12);
    CHECK(rados_aio_create_completion2(NULL, NULL, &completion) == 0);
    CHECK(rados_striper_aio_read(striper, "later", completion, got, LEN, 5) == 0);
    CHECK(result_of(completion) == LEN && memcmp(got, written, LEN) == 0);
    CHECK(rados_aio_create_completion2(NULL, NULL, &completion) == 0);
    CHECK(rados_striper_aio_write_full(striper, "later", completion, "all", 3) == 0);
    CHECK(result_of(completion) == 0);
    CHECK(rados_aio_create_completion2(NULL, NULL, &completion) == 0);
    CHECK(rados_striper_aio_remove(striper, "later", completion) == 0);
    CHECK(result_of(completion) == 0);
    CHECK(rados_striper_stat(striper, "later", &size, &time) == -ENOENT);
}

int main(int argc, char **argv) {
    rados_t cluster;
    rados_ioctx_t pool;
    rados_striper_t striper;
    CHECK(argc == 2);
    for (int i = 0; i < LEN; i++) {
        written[i] = (char)(i % 251);
    }
    CHECK(rados_create(&cluster, NULL) == 0);
    CHECK(rados_conf_read_file(cluster, argv[1]) == 0);
    CHECK(rados_connect(cluster) == 0);
    CHECK(rados_ioctx_create(cluster, "p", &pool) == 0);
    CHECK(rados_striper_create(pool, &striper) == 0);
    layout(striper);
    data(striper, pool);
    attributes(striper);
    asynchronous(striper);
    CHECK(rados_striper_remove(striper, "file") == 0);
    rados_striper_destroy(striper);
    rados_ioctx_destroy(pool);
    rados_shutdown(cluster);
    puts("done");
    return 0;
}
