/* Images in a C program: changes that are told of, options, migration, the lock that is kept, and parts of
 * differences. It prints "done" if all is well, and the line of the first check that failed if not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rbd/librbd.h"

#define CHECK(holds)                                                                                     \
    do {                                                                                                 \
        if (!(holds)) {                                                                                  \
            printf("line %d: %s\n", __LINE__, #holds);                                                   \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

#define MEBI (1 << 20)
#define OPTIONS_MAX 200

static rados_ioctx_t pool;

static void changed(void *arg) {
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static void wait_for(int *count) {
    for (int tries = 0; tries < 12000 && __atomic_load_n(count, __ATOMIC_SEQ_CST) == 0; tries++) {
        usleep(10000);
    }
}

/* Another client resizes the image; the callback is called, and not any more when the watch has ended. */
static void updates(rados_ioctx_t other_pool, int read_only) {
    rbd_image_t image, other;
    uint64_t handle, size;
    int told = 0;
    CHECK((read_only ? rbd_open_read_only : rbd_open)(pool, "watched", &image, NULL) == 0);
    CHECK(rbd_update_watch(image, &handle, NULL, NULL) == -EINVAL);
    CHECK(rbd_update_watch(image, &handle, changed, &told) == 0);
    CHECK(rbd_open(other_pool, "watched", &other, NULL) == 0);
    CHECK(rbd_resize(other, (read_only ? 12 : 16) * MEBI) == 0);
    wait_for(&told);
    CHECK(told >= 1);
    CHECK(rbd_get_size(image, &size) == 0 && size == (read_only ? 12u : 16u) * MEBI);
    CHECK(rbd_update_unwatch(image, handle) == 0);
    CHECK(rbd_update_unwatch(image, handle) == -EINVAL);
    int before = told;
    CHECK(rbd_resize(other, 8 * MEBI) == 0);
    CHECK(told == before);
    CHECK(rbd_close(other) == 0);
    CHECK(rbd_close(image) == 0);
}

/* Who keeps the lock does not give it to others. */
static void lock(rados_ioctx_t other_pool) {
    rbd_image_t image, other;
    int is_owner;
    CHECK(rbd_open(pool, "watched", &image, NULL) == 0);
    CHECK(rbd_open(other_pool, "watched", &other, NULL) == 0);
    CHECK(rbd_lock_release(image) == -EINVAL);
    CHECK(rbd_lock_acquire(image, RBD_LOCK_MODE_EXCLUSIVE) == 0);
    CHECK(rbd_is_exclusive_lock_owner(image, &is_owner) == 0 && is_owner);
    CHECK(rbd_write(other, 0, 4, "late") == -EROFS);
    CHECK(rbd_lock_acquire(other, RBD_LOCK_MODE_EXCLUSIVE) == -EROFS);
    CHECK(rbd_write(image, 0, 4, "mine") == 4);
    CHECK(rbd_lock_release(image) == 0);
    CHECK(rbd_write(other, 0, 4, "late") == 4);
    CHECK(rbd_close(other) == 0);
    CHECK(rbd_close(image) == 0);
}

static const rbd_config_option_t *named(const rbd_config_option_t *options, int count, const char *name) {
    for (int i = 0; i < count; i++) {
        if (strcmp(options[i].name, name) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

static void configuration(void) {
    static rbd_config_option_t options[OPTIONS_MAX];
    const rbd_config_option_t *cache;
    rbd_image_t image;
    int count = 0;
    CHECK(rbd_open(pool, "watched", &image, NULL) == 0);
    CHECK(rbd_config_image_list(image, options, &count) == -ERANGE && count > 10 && count <= OPTIONS_MAX);
    CHECK(rbd_pool_metadata_set(pool, "conf_rbd_cache", "false") == 0);
    CHECK(rbd_config_image_list(image, options, &count) == 0);
    cache = named(options, count, "rbd_cache");
    CHECK(cache && strcmp(cache->value, "false") == 0 && cache->source == RBD_CONFIG_SOURCE_POOL);
    CHECK(named(options, count, "rbd_op_threads") == NULL);
    rbd_config_image_list_cleanup(options, count);
    CHECK(rbd_metadata_set(image, "conf_rbd_cache", "true") == 0);
    count = OPTIONS_MAX;
    CHECK(rbd_config_image_list(image, options, &count) == 0);
    cache = named(options, count, "rbd_cache");
    CHECK(cache && strcmp(cache->value, "true") == 0 && cache->source == RBD_CONFIG_SOURCE_IMAGE);
    rbd_config_image_list_cleanup(options, count);
    CHECK(rbd_pool_metadata_remove(pool, "conf_rbd_cache") == 0);
    count = OPTIONS_MAX;
    CHECK(rbd_config_pool_list(pool, options, &count) == 0);
    cache = named(options, count, "rbd_cache");
    CHECK(cache && cache->source == RBD_CONFIG_SOURCE_CONFIG);
    rbd_config_pool_list_cleanup(options, count);
    CHECK(rbd_close(image) == 0);
}

static void migration(void) {
    rbd_image_options_t options;
    rbd_image_migration_status_t status;
    rbd_image_t image;
    char data[4];
    CHECK(rbd_migration_status(pool, "watched", &status, sizeof status) == -EINVAL);
    rbd_image_options_create(&options);
    CHECK(rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_ORDER, 20) == 0);
    CHECK(rbd_migration_prepare(pool, "watched", pool, "moved", options) == 0);
    rbd_image_options_destroy(options);
    CHECK(rbd_migration_status(pool, "moved", &status, sizeof status - 1) == -ERANGE);
    CHECK(rbd_migration_status(pool, "moved", &status, sizeof status) == 0);
    CHECK(status.state == RBD_IMAGE_MIGRATION_STATE_PREPARED);
    CHECK(strcmp(status.source_image_name, "watched") == 0 && strcmp(status.dest_image_name, "moved") == 0);
    rbd_migration_status_cleanup(&status);
    CHECK(rbd_migration_execute(pool, "moved") == 0);
    CHECK(rbd_migration_commit(pool, "moved") == 0);
    CHECK(rbd_open(pool, "moved", &image, NULL) == 0);
    CHECK(rbd_read(image, 0, 4, data) == 4 && memcmp(data, "late", 4) == 0);
    CHECK(rbd_close(image) == 0);
}

struct ranges {
    int count;
    uint64_t first, end;
};

static int differs(uint64_t offset, size_t len, int exists, void *arg) {
    struct ranges *ranges = arg;
    CHECK(exists);
    if (ranges->count++ == 0) {
        ranges->first = offset;
    }
    ranges->end = offset + len;
    return 0;
}

/* Only what is asked for is told of: a part of the image, without what a clone has from its parent. */
static void differences(void) {
    rbd_image_t image, clone;
    rbd_image_options_t options;
    struct ranges all = {0}, part = {0}, own = {0};
    CHECK(rbd_open(pool, "moved", &image, NULL) == 0);
    CHECK(rbd_write(image, 5 * MEBI, 4, "more") == 4);
    CHECK(rbd_snap_create(image, "then") == 0);
    CHECK(rbd_diff_iterate2(image, NULL, 5 * MEBI + 1, MEBI, 1, 0, differs, &part) == 0);
    CHECK(part.count == 1 && part.first == 5 * MEBI + 1 && part.end == 5 * MEBI + 4);
    rbd_image_options_create(&options);
    CHECK(rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_CLONE_FORMAT, 2) == 0);
    CHECK(rbd_clone3(pool, "moved", "then", pool, "clone", options) == 0);
    CHECK(rbd_open(pool, "clone", &clone, NULL) == 0);
    CHECK(rbd_write(clone, 3 * MEBI, 3, "own") == 3);
    CHECK(rbd_diff_iterate2(clone, NULL, 0, 8 * MEBI, 1, 0, differs, &all) == 0 && all.count == 3);
    CHECK(rbd_diff_iterate2(clone, NULL, 0, 8 * MEBI, 0, 0, differs, &own) == 0);
    CHECK(own.count == 1 && own.first == 3 * MEBI && own.end == 3 * MEBI + 3);
    CHECK(rbd_close(clone) == 0);
    /* The snapshot goes when its clones have their own data. */
    CHECK(rbd_snap_remove2(image, "then", RBD_SNAP_REMOVE_FORCE, NULL, NULL) == 0);
    CHECK(rbd_close(image) == 0);
    CHECK(rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_MIRROR_IMAGE_MODE, 1) == 0);
    CHECK(rbd_create4(pool, "mirrored", MEBI, options) == -EOPNOTSUPP);
    rbd_image_options_destroy(options);
}

static void copies(void) {
    rbd_image_t from, to;
    int order = 0;
    char data[4];
    CHECK(rbd_create(pool, "small", MEBI, &order) == 0 && rbd_create(pool, "large", 9 * MEBI, &order) == 0);
    CHECK(rbd_open(pool, "moved", &from, NULL) == 0);
    CHECK(rbd_open(pool, "small", &to, NULL) == 0);
    CHECK(rbd_copy2(from, to) == -EINVAL);
    CHECK(rbd_close(to) == 0);
    CHECK(rbd_open(pool, "large", &to, NULL) == 0);
    CHECK(rbd_copy2(from, to) == 0);
    CHECK(rbd_read(to, 5 * MEBI, 4, data) == 4 && memcmp(data, "more", 4) == 0);
    CHECK(rbd_close(to) == 0);
    CHECK(rbd_close(from) == 0);
}

/* What is refused, and with what. */
static void refusals(void) {
    rbd_image_t image;
    rbd_image_options_t options;
    char text[128];
    size_t len = sizeof text;
    uint64_t features;
    CHECK(rbd_features_to_string(1ULL << 40, text, &len) == -EINVAL);
    CHECK(rbd_open_read_only(pool, "moved", &image, NULL) == 0);
    CHECK(rbd_flatten(image) == -EROFS);
    CHECK(rbd_get_migration_source_spec(image, text, &len) == -ENOENT);
    CHECK(rbd_close(image) == 0);
    CHECK(rbd_open(pool, "moved", &image, NULL) == 0);
    CHECK(rbd_snap_create2(image, "both", 3, NULL, NULL) == -EINVAL);
    CHECK(rbd_snap_create(image, "gone") == 0);
    CHECK(rbd_snap_set(image, "gone") == 0);
    CHECK(rbd_snap_remove(image, "gone") == 0);
    CHECK(rbd_read(image, 0, 4, text) == -ENOENT);
    CHECK(rbd_snap_set(image, NULL) == 0);
    CHECK(rbd_read(image, 0, 4, text) == 4);
    /* Less than a whole multiple of rbd_discard_granularity_bytes is not released. */
    CHECK(rbd_discard(image, 0, 4) == 4);
    CHECK(rbd_read(image, 0, 4, text) == 4 && memcmp(text, "late", 4) == 0);
    CHECK(rbd_get_features(image, &features) == 0);
    CHECK(rbd_close(image) == 0);
    rbd_image_options_create(&options);
    CHECK(rbd_image_options_set_uint64(options, RBD_IMAGE_OPTION_ORDER, 40) == 0);
    CHECK(rbd_create4(pool, "huge", MEBI, options) == -EDOM);
    rbd_image_options_destroy(options);
}

/* Closing waits for what is under way. */
static void closing(void) {
    enum { READS = 100 };
    static char data[READS][64];
    rbd_completion_t completions[READS];
    rbd_image_t image;
    CHECK(rbd_open(pool, "moved", &image, NULL) == 0);
    for (int i = 0; i < READS; i++) {
        CHECK(rbd_aio_create_completion(NULL, NULL, &completions[i]) == 0);
        CHECK(rbd_aio_read(image, (uint64_t)i * 64, sizeof data[i], data[i], completions[i]) == 0);
    }
    CHECK(rbd_close(image) == 0);
    for (int i = 0; i < READS; i++) {
        CHECK(rbd_aio_is_complete(completions[i]));
        CHECK(rbd_aio_get_return_value(completions[i]) == 64);
        rbd_aio_release(completions[i]);
    }
}

int main(int argc, char **argv) {
    rados_t clusters[2];
    rados_ioctx_t pools[2];
    int order = 0;
    CHECK(argc == 2);
    for (int i = 0; i < 2; i++) {
        CHECK(rados_create(&clusters[i], NULL) == 0);
        CHECK(rados_conf_read_file(clusters[i], argv[1]) == 0);
        CHECK(rados_connect(clusters[i]) == 0);
        CHECK(rados_ioctx_create(clusters[i], "p", &pools[i]) == 0);
    }
    pool = pools[0];
    CHECK(rbd_create(pool, "watched", 8 * MEBI, &order) == 0);
    updates(pools[1], 0);
    updates(pools[1], 1);
    lock(pools[1]);
    configuration();
    migration();
    differences();
    copies();
    refusals();
    closing();
    for (int i = 0; i < 2; i++) {
        rados_ioctx_destroy(pools[i]);
        rados_shutdown(clusters[i]);
    }
    puts("done");
    return 0;
}
