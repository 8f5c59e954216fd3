/* librbd: images of block devices.
 *
 * Types and constants of the interface as Loligo's library has them. What a function does is described in
 * Ceph's documentation; where this library differs, docs/book/programs.md says so. Functions of features that
 * the library does not have are not declared: a program that wants them does not compile. */
#ifndef LOLIGO_LIBRBD_H
#define LOLIGO_LIBRBD_H

#include "../rados/librados.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LIBRBD_VER_MAJOR 1
#define LIBRBD_VER_MINOR 20
#define LIBRBD_VER_EXTRA 0
#define LIBRBD_VERSION(major, minor, extra) (((major) << 16) + ((minor) << 8) + (extra))
#define LIBRBD_VERSION_CODE LIBRBD_VERSION(LIBRBD_VER_MAJOR, LIBRBD_VER_MINOR, LIBRBD_VER_EXTRA)

#define LIBRBD_SUPPORTS_AIO_FLUSH 1
#define LIBRBD_SUPPORTS_AIO_OPEN 1
#define LIBRBD_SUPPORTS_COMPARE_AND_WRITE 1
#define LIBRBD_SUPPORTS_COMPARE_AND_WRITE_IOVEC 1
#define LIBRBD_SUPPORTS_DIFF_ITERATE3 1
#define LIBRBD_SUPPORTS_INVALIDATE 1
#define LIBRBD_SUPPORTS_IOVEC 1
#define LIBRBD_SUPPORTS_LOCKING 1
#define LIBRBD_SUPPORTS_WATCH 0
#define LIBRBD_SUPPORTS_WRITESAME 1
#define LIBRBD_SUPPORTS_WRITE_ZEROES 1

/* Handles. */
typedef void *rbd_image_t;
typedef void *rbd_image_options_t;
typedef void *rbd_pool_stats_t;
typedef void *rbd_completion_t;

/* Features of images. */
#define RBD_FEATURE_LAYERING (1ULL << 0)
#define RBD_FEATURE_STRIPINGV2 (1ULL << 1)
#define RBD_FEATURE_EXCLUSIVE_LOCK (1ULL << 2)
#define RBD_FEATURE_OBJECT_MAP (1ULL << 3)
#define RBD_FEATURE_FAST_DIFF (1ULL << 4)
#define RBD_FEATURE_DEEP_FLATTEN (1ULL << 5)
#define RBD_FEATURE_JOURNALING (1ULL << 6)
#define RBD_FEATURE_DATA_POOL (1ULL << 7)
#define RBD_FEATURE_OPERATIONS (1ULL << 8)
#define RBD_FEATURE_MIGRATING (1ULL << 9)
#define RBD_FEATURE_NON_PRIMARY (1ULL << 10)
#define RBD_FEATURE_DIRTY_CACHE (1ULL << 11)

/* rbd_get_flags */
#define RBD_FLAG_OBJECT_MAP_INVALID (1 << 0)
#define RBD_FLAG_FAST_DIFF_INVALID (1 << 1)

/* rbd_image_options_*; the options of journals and of mirroring are kept and have no effect. */
enum {
    RBD_IMAGE_OPTION_FORMAT = 0,
    RBD_IMAGE_OPTION_FEATURES = 1,
    RBD_IMAGE_OPTION_ORDER = 2,
    RBD_IMAGE_OPTION_STRIPE_UNIT = 3,
    RBD_IMAGE_OPTION_STRIPE_COUNT = 4,
    RBD_IMAGE_OPTION_JOURNAL_ORDER = 5,
    RBD_IMAGE_OPTION_JOURNAL_SPLAY_WIDTH = 6,
    RBD_IMAGE_OPTION_JOURNAL_POOL = 7,
    RBD_IMAGE_OPTION_FEATURES_SET = 8,
    RBD_IMAGE_OPTION_FEATURES_CLEAR = 9,
    RBD_IMAGE_OPTION_DATA_POOL = 10,
    RBD_IMAGE_OPTION_FLATTEN = 11,
    RBD_IMAGE_OPTION_CLONE_FORMAT = 12,
    RBD_IMAGE_OPTION_MIRROR_IMAGE_MODE = 13
};

/* rbd_set_image_notification */
enum { EVENT_TYPE_PIPE = 1, EVENT_TYPE_EVENTFD = 2 };

/* Flags of functions. */
#define RBD_SNAP_CREATE_SKIP_QUIESCE (1 << 0)
#define RBD_SNAP_CREATE_IGNORE_QUIESCE_ERROR (1 << 1)
#define RBD_SNAP_REMOVE_UNPROTECT (1 << 0)
#define RBD_SNAP_REMOVE_FLATTEN (1 << 1)
#define RBD_SNAP_REMOVE_FORCE (RBD_SNAP_REMOVE_UNPROTECT | RBD_SNAP_REMOVE_FLATTEN)
enum { RBD_WRITE_ZEROES_FLAG_THICK_PROVISION = 1U << 0 };
enum { RBD_DIFF_ITERATE_FLAG_INCLUDE_PARENT = 1U << 0, RBD_DIFF_ITERATE_FLAG_WHOLE_OBJECT = 1U << 1 };

typedef enum { RBD_LOCK_MODE_EXCLUSIVE = 0, RBD_LOCK_MODE_SHARED = 1 } rbd_lock_mode_t;

/* An image's size and layout. */
#define RBD_MAX_IMAGE_NAME_SIZE 96
#define RBD_MAX_BLOCK_NAME_SIZE 24
typedef struct {
    uint64_t size;
    uint64_t obj_size;
    uint64_t num_objs;
    int order;
    char block_name_prefix[RBD_MAX_BLOCK_NAME_SIZE];
    int64_t parent_pool;
    char parent_name[RBD_MAX_IMAGE_NAME_SIZE];
} rbd_image_info_t;

/* Names of images, and of images in other pools. */
typedef struct {
    char *id;
    char *name;
} rbd_image_spec_t;

typedef struct {
    int64_t pool_id;
    char *pool_name;
    char *pool_namespace;
    char *image_id;
    char *image_name;
    bool trash;
} rbd_linked_image_spec_t;

typedef struct {
    const char *pool_name;
    const char *image_name;
    const char *image_id;
    bool trash;
} rbd_child_info_t;

/* Clients that have an image open. */
typedef struct {
    char *addr;
    int64_t id;
    uint64_t cookie;
} rbd_image_watcher_t;

/* Snapshots. */
typedef enum {
    RBD_SNAP_NAMESPACE_TYPE_USER = 0,
    RBD_SNAP_NAMESPACE_TYPE_GROUP = 1,
    RBD_SNAP_NAMESPACE_TYPE_TRASH = 2,
    RBD_SNAP_NAMESPACE_TYPE_MIRROR = 3
} rbd_snap_namespace_type_t;

typedef struct {
    uint64_t id;
    uint64_t size;
    const char *name;
} rbd_snap_info_t;

typedef struct {
    uint64_t id;
    rbd_snap_namespace_type_t namespace_type;
    char *name;
} rbd_snap_spec_t;

typedef struct {
    int64_t group_pool;
    char *group_name;
    char *group_snap_name;
} rbd_snap_group_namespace_t;

/* Groups of images. */
typedef enum { RBD_GROUP_IMAGE_STATE_ATTACHED, RBD_GROUP_IMAGE_STATE_INCOMPLETE } rbd_group_image_state_t;
typedef enum { RBD_GROUP_SNAP_STATE_INCOMPLETE, RBD_GROUP_SNAP_STATE_COMPLETE } rbd_group_snap_state_t;

typedef struct {
    char *name;
    int64_t pool;
    rbd_group_image_state_t state;
} rbd_group_image_info_t;

typedef struct {
    char *name;
    int64_t pool;
} rbd_group_info_t;

typedef struct {
    char *name;
    rbd_group_snap_state_t state;
} rbd_group_snap_info_t;

/* The trash. */
typedef enum {
    RBD_TRASH_IMAGE_SOURCE_USER = 0,
    RBD_TRASH_IMAGE_SOURCE_MIRRORING = 1,
    RBD_TRASH_IMAGE_SOURCE_MIGRATION = 2,
    RBD_TRASH_IMAGE_SOURCE_REMOVING = 3,
    RBD_TRASH_IMAGE_SOURCE_USER_PARENT = 4
} rbd_trash_image_source_t;

typedef struct {
    char *id;
    char *name;
    rbd_trash_image_source_t source;
    time_t deletion_time;
    time_t deferment_end_time;
} rbd_trash_image_info_t;

/* Migrations. */
typedef enum {
    RBD_IMAGE_MIGRATION_STATE_UNKNOWN = -1,
    RBD_IMAGE_MIGRATION_STATE_ERROR = 0,
    RBD_IMAGE_MIGRATION_STATE_PREPARING = 1,
    RBD_IMAGE_MIGRATION_STATE_PREPARED = 2,
    RBD_IMAGE_MIGRATION_STATE_EXECUTING = 3,
    RBD_IMAGE_MIGRATION_STATE_EXECUTED = 4,
    RBD_IMAGE_MIGRATION_STATE_ABORTING = 5
} rbd_image_migration_state_t;

typedef struct {
    int64_t source_pool_id;
    char *source_pool_namespace;
    char *source_image_name;
    char *source_image_id;
    int64_t dest_pool_id;
    char *dest_pool_namespace;
    char *dest_image_name;
    char *dest_image_id;
    rbd_image_migration_state_t state;
    char *state_description;
} rbd_image_migration_status_t;

/* Options of the configuration, and where their values come from. */
typedef enum {
    RBD_CONFIG_SOURCE_CONFIG = 0,
    RBD_CONFIG_SOURCE_POOL = 1,
    RBD_CONFIG_SOURCE_IMAGE = 2
} rbd_config_source_t;

typedef struct {
    char *name;
    char *value;
    rbd_config_source_t source;
} rbd_config_option_t;

/* Numbers of a pool. */
typedef enum {
    RBD_POOL_STAT_OPTION_IMAGES,
    RBD_POOL_STAT_OPTION_IMAGE_PROVISIONED_BYTES,
    RBD_POOL_STAT_OPTION_IMAGE_MAX_PROVISIONED_BYTES,
    RBD_POOL_STAT_OPTION_IMAGE_SNAPSHOTS,
    RBD_POOL_STAT_OPTION_TRASH_IMAGES,
    RBD_POOL_STAT_OPTION_TRASH_PROVISIONED_BYTES,
    RBD_POOL_STAT_OPTION_TRASH_MAX_PROVISIONED_BYTES,
    RBD_POOL_STAT_OPTION_TRASH_SNAPSHOTS
} rbd_pool_stat_option_t;

/* Mirroring, which is always disabled. */
typedef enum { RBD_MIRROR_MODE_DISABLED, RBD_MIRROR_MODE_IMAGE, RBD_MIRROR_MODE_POOL } rbd_mirror_mode_t;
typedef enum {
    RBD_MIRROR_IMAGE_DISABLING = 0,
    RBD_MIRROR_IMAGE_ENABLED = 1,
    RBD_MIRROR_IMAGE_DISABLED = 2
} rbd_mirror_image_state_t;

typedef struct {
    char *global_id;
    rbd_mirror_image_state_t state;
    bool primary;
} rbd_mirror_image_info_t;

/* Callbacks. */
typedef void (*rbd_callback_t)(rbd_completion_t completion, void *arg);
typedef int (*librbd_progress_fn_t)(uint64_t offset, uint64_t total, void *arg);
typedef void (*rbd_update_callback_t)(void *arg);

/* Functions, by topic. */
