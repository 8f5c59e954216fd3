/* A C program as others write them: objects, completions, watches, and an image. It prints "done" if all is
 * well, and the line of the first check that failed if not. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rados/librados.h"
#include "rbd/librbd.h"

typedef void *handle;

/* A function that the headers do not declare: the library does not have the feature. */
int rbd_encryption_load(rbd_image_t, int, void *, size_t);

#define CHECK(holds)                                                                                     \
    do {                                                                                                 \
        if (!(holds)) {                                                                                  \
            printf("line %d: %s\n", __LINE__, #holds);                                                   \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

#define WRITES 200

static int order[WRITES + 1], called, writing_pool_calls;
static handle pool;

/* Callbacks come one at a time and may call the library. */
static void completed(handle completion, void *arg) {
    char byte;
    (void)completion;
    order[called++] = *(int *)arg;
    if (*(int *)arg == 0) {
        writing_pool_calls = rados_read(pool, "first", &byte, 1, 0);
    }
}

static void notified(void *arg, uint64_t id, uint64_t cookie, uint64_t notifier, void *data, size_t len) {
    (void)notifier;
    CHECK(len == 4 && memcmp(data, "news", 4) == 0);
    *(int *)arg += 1;
    CHECK(rados_notify_ack(pool, "first", id, cookie, "heard", 5) == 0);
}

static void failed(void *arg, uint64_t cookie, int error) {
    (void)arg, (void)cookie;
    printf("the watch failed: %d\n", error);
    exit(1);
}

static int differs(uint64_t offset, size_t len, int exists, void *arg) {
    CHECK(exists && offset == 0 && len > 0);
    *(int *)arg += 1;
    return 0;
}

static void objects(void) {
    char buffer[64];
    struct rados_pool_stat_t stat;
    CHECK(rados_write_full(pool, "first", "hello", 5) == 0);
    CHECK(rados_read(pool, "first", buffer, sizeof buffer, 0) == 5 && memcmp(buffer, "hello", 5) == 0);
    CHECK(rados_read(pool, "absent", buffer, 1, 0) == -ENOENT);
    CHECK(rados_setxattr(pool, "first", "colour", "blue", 4) == 0);
    CHECK(rados_getxattr(pool, "first", "colour", buffer, 2) == -ERANGE);
    CHECK(rados_getxattr(pool, "first", "colour", buffer, 4) == 4);
    memset(&stat, 0xff, sizeof stat);
    CHECK(rados_ioctx_pool_stat(pool, &stat) == 0);
    CHECK(stat.compressed_bytes_alloc != UINT64_MAX);
}

/* Outputs that are not wanted, and results of operations that were not executed. */
static void answers(handle cluster) {
    uint32_t seed = UINT32_MAX;
    uint64_t size = 1;
    int result = 0;
    char names[8];
    rados_read_op_t op = rados_create_read_op();
    rados_read_op_stat(op, &size, NULL, &result);
    CHECK(rados_read_op_operate(op, pool, "absent", 0) == -ENOENT);
    CHECK(result == -EIO && size == 1);
    rados_release_read_op(op);
    op = rados_create_read_op();
    rados_read_op_checksum(op, LIBRADOS_CHECKSUM_TYPE_CRC32C, (const char *)&seed, sizeof seed, 0, 5, 0, NULL, 0,
                           &result);
    CHECK(rados_read_op_operate(op, pool, "first", 0) == 0 && result == 0);
    rados_release_read_op(op);
    /* As many names as fit; the room that all of them need. */
    memset(names, 'x', sizeof names);
    CHECK(rados_pool_list(cluster, names, 2) >= 3);
    CHECK(strcmp(names, "p") == 0 && names[2] == 'x');
    CHECK(rados_service_register(cluster, "tests", "a", "key\0value\0") == 0);
    CHECK(rados_service_register(cluster, "tests", "b", "key\0value\0") == -EEXIST);
    CHECK(rados_service_update_status(cluster, "state\0good\0") == 0);
}

static void completions(void) {
    static int numbers[WRITES];
    static handle all[WRITES];
    char byte[2] = {0};
    handle completion;
    for (int i = 0; i < WRITES; i++) {
        numbers[i] = i;
        byte[0] = (char)('a' + i % 26);
        CHECK(rados_aio_create_completion(&numbers[i], completed, NULL, &all[i]) == 0);
        /* Writes to one object complete in order, and their data is copied at once. */
        CHECK(rados_aio_write(pool, "ordered", all[i], byte, 1, (uint64_t)i) == 0);
    }
    CHECK(rados_aio_flush(pool) == 0);
    CHECK(called == WRITES);
    for (int i = 0; i < WRITES; i++) {
        CHECK(rados_aio_wait_for_complete_and_cb(all[i]) == 0);
        CHECK(rados_aio_get_return_value(all[i]) == 0);
        CHECK(order[i] == i);
        rados_aio_release(all[i]);
    }
    CHECK(writing_pool_calls == 1);
    char read[WRITES];
    CHECK(rados_aio_create_completion(NULL, NULL, NULL, &completion) == 0);
    CHECK(rados_aio_read(pool, "ordered", completion, read, sizeof read, 0) == 0);
    CHECK(rados_aio_wait_for_complete_and_cb(completion) == 0);
    CHECK(rados_aio_get_return_value(completion) == WRITES && read[27] == 'b');
    rados_aio_release(completion);
}

static void watches(void) {
    int heard = 0;
    uint64_t cookie;
    char *reply = NULL;
    size_t len = 0;
    CHECK(rados_watch3(pool, "first", &cookie, NULL, failed, 0, &heard) == -EINVAL);
    CHECK(rados_watch3(pool, "first", &cookie, notified, failed, 0, &heard) == 0);
    /* Programs take small numbers for none. */
    CHECK(cookie > 1000);
    CHECK(rados_notify2(pool, "first", "news", 4, 10000, &reply, &len) == 0);
    /* A count, a client and a cookie, the answer with its length, and a count of those that said nothing. */
    CHECK(heard == 1 && len == 4 + 8 + 8 + 4 + 5 + 4 && memcmp(reply + 24, "heard", 5) == 0);
    rados_buffer_free(reply);
    CHECK(rados_unwatch2(pool, cookie) == 0);
}

/* The watch may be ended within its callback. */
static uint64_t own_cookie;
static int ended_within;

static void ends_itself(void *arg, uint64_t id, uint64_t cookie, uint64_t notifier, void *data, size_t len) {
    (void)arg, (void)notifier, (void)data, (void)len;
    CHECK(cookie == own_cookie);
    CHECK(rados_notify_ack(pool, "first", id, cookie, NULL, 0) == 0);
    ended_within = rados_unwatch2(pool, cookie) == 0;
}

static void watches_that_end_themselves(handle cluster) {
    CHECK(rados_watch3(pool, "first", &own_cookie, ends_itself, failed, 0, NULL) == 0);
    CHECK(rados_notify2(pool, "first", NULL, 0, 10000, NULL, NULL) == 0);
    CHECK(rados_watch_flush(cluster) == 0);
    CHECK(ended_within == 1);
    CHECK(rados_watch_check(pool, own_cookie) == -ENOTCONN);
}

/* The log is told of once, also if the level changes. */
static int first_lines, second_lines;

static void logged(void *arg, const char *line, const char *who, uint64_t seconds, uint64_t nanoseconds,
                   uint64_t number, const char *level, const char *message) {
    (void)line, (void)who, (void)seconds, (void)nanoseconds, (void)number, (void)level, (void)arg;
    __atomic_add_fetch(&first_lines, strcmp(message, "the first line") == 0, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&second_lines, strcmp(message, "the second line") == 0, __ATOMIC_SEQ_CST);
}

static void say(handle cluster, const char *command) {
    CHECK(rados_mon_command(cluster, &command, 1, NULL, 0, NULL, NULL, NULL, NULL) == 0);
}

static void wait_for(int *count) {
    for (int tries = 0; tries < 12000 && __atomic_load_n(count, __ATOMIC_SEQ_CST) == 0; tries++) {
        usleep(10000);
    }
}

static void cluster_log(handle cluster) {
    CHECK(rados_monitor_log(cluster, "loud", logged, NULL) == -EINVAL);
    CHECK(rados_monitor_log(cluster, "info", logged, NULL) == 0);
    say(cluster, "{\"prefix\": \"log\", \"logtext\": [\"the first line\"]}");
    wait_for(&first_lines);
    CHECK(rados_monitor_log(cluster, "debug", logged, NULL) == 0);
    say(cluster, "{\"prefix\": \"log\", \"logtext\": [\"the second line\"]}");
    wait_for(&second_lines);
    CHECK(rados_monitor_log(cluster, "debug", NULL, NULL) == 0);
    CHECK(first_lines == 1 && second_lines == 1);
}

static void listing(void) {
    handle list;
    const char *name;
    int found = 0, result;
    CHECK(rados_nobjects_list_open(pool, &list) == 0);
    while ((result = rados_nobjects_list_next(list, &name, NULL, NULL)) == 0) {
        found += strcmp(name, "first") == 0 || strcmp(name, "ordered") == 0;
    }
    CHECK(result == -ENOENT && found == 2);
    rados_nobjects_list_close(list);
}

static void image(void) {
    handle disk;
    char buffer[8];
    int object_order = 0, ranges = 0;
    CHECK(rbd_create(pool, "disk", 8 << 20, &object_order) == 0 && object_order == 22);
    CHECK(rbd_open(pool, "nowhere", &disk, NULL) == -ENOENT);
    CHECK(rbd_open(pool, "disk", &disk, NULL) == 0);
    CHECK(rbd_write(disk, 0, 8, "contents") == 8);
    CHECK(rbd_snap_create(disk, "then") == 0);
    CHECK(rbd_read(disk, 0, 8, buffer) == 8 && memcmp(buffer, "contents", 8) == 0);
    CHECK(rbd_read(disk, 16 << 20, 8, buffer) == -EINVAL);
    CHECK(rbd_diff_iterate2(disk, NULL, 0, 8 << 20, 1, 0, differs, &ranges) == 0 && ranges == 1);
    CHECK(rbd_encryption_load(disk, 0, NULL, 0) == -EOPNOTSUPP);
    /* Lengths whose sum is more than there is memory. */
    struct iovec huge[2] = {{buffer, SIZE_MAX}, {buffer, 2}};
    handle completion;
    CHECK(rbd_aio_create_completion(NULL, NULL, &completion) == 0);
    CHECK(rbd_aio_readv(disk, huge, 2, 0, completion) == -EINVAL);
    CHECK(rbd_aio_writev(disk, huge, 2, 0, completion) == -EINVAL);
    rbd_aio_release(completion);
    CHECK(rbd_close(disk) == 0);
}

/* In a child, every call fails, and none hangs. */
static void child(handle cluster) {
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        char byte;
        int result = rados_read(pool, "first", &byte, 1, 0);
        rados_shutdown(cluster);
        _exit(result == -ENOTCONN ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(int argc, char **argv) {
    handle cluster;
    char value[16], names[64];
    CHECK(argc == 2);
    CHECK(rados_create(&cluster, NULL) == 0);
    CHECK(rados_conf_read_file(cluster, "/nowhere/ceph.conf") == -ENOENT);
    CHECK(rados_conf_read_file(cluster, argv[1]) == 0);
    CHECK(rados_conf_set(cluster, "no_such_option", "1") == -ENOENT);
    CHECK(rados_conf_set(cluster, "rados_osd_op_timeout", "30") == 0);
    CHECK(rados_conf_get(cluster, "rados_osd_op_timeout", value, 2) == -ENAMETOOLONG);
    CHECK(rados_conf_get(cluster, "rados_osd_op_timeout", value, sizeof value) == 0);
    CHECK(strcmp(value, "30") == 0);
    CHECK(rados_pool_list(cluster, names, sizeof names) == -ENOTCONN);
    CHECK(rados_connect(cluster) == 0);
    CHECK(rados_connect(cluster) == -EISCONN);
    CHECK(rados_pool_list(cluster, names, sizeof names) >= 3);
    CHECK(rados_ioctx_create(cluster, "nowhere", &pool) == -ENOENT);
    CHECK(rados_ioctx_create(cluster, "p", &pool) == 0);
    objects();
    answers(cluster);
    completions();
    watches();
    watches_that_end_themselves(cluster);
    cluster_log(cluster);
    listing();
    image();
    child(cluster);
    rados_shutdown(cluster);
    /* A pool's handle that is left fails. */
    CHECK(rados_write_full(pool, "first", "late", 4) < 0);
    rados_ioctx_destroy(pool);
    puts("done");
    return 0;
}
