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

/* Asynchronous reads and changes of an image's data, and their completions (`rbd_completion_t`). */
/* Creates a completion. */
int rbd_aio_create_completion(void *arg, rbd_callback_t callback, void **to);
/* Whether the operation is complete. */
int rbd_aio_is_complete(rbd_completion_t completion);
/* Waits until the operation is complete and its callback has returned. */
int rbd_aio_wait_for_complete(rbd_completion_t completion);
/* The operation's result. */
ssize_t rbd_aio_get_return_value(rbd_completion_t completion);
/* Reads; the value is how many bytes. */
int rbd_aio_read(rbd_image_t image, uint64_t offset, size_t len, char *to, rbd_completion_t completion);
/* Reads; the flags are hints. */
int rbd_aio_read2(rbd_image_t image, uint64_t offset, size_t len, char *to, rbd_completion_t completion, int
    flags);
/* Reads into several pieces of memory. */
int rbd_aio_readv(rbd_image_t image, const struct iovec *vector, int count, uint64_t offset, rbd_completion_t
    completion);
/* Writes. */
int rbd_aio_write(rbd_image_t image, uint64_t offset, size_t len, const char *data, rbd_completion_t
    completion);
/* Writes; the flags are hints. */
int rbd_aio_write2(rbd_image_t image, uint64_t offset, size_t len, const char *data, rbd_completion_t
    completion, int flags);
/* Writes data whose checksum is known; EINVAL if it is another one. */
int rbd_aio_write_with_crc32c(rbd_image_t image, uint64_t offset, size_t len, const char *data, uint32_t
    checksum, rbd_completion_t completion, int flags);
/* Writes from several pieces of memory. */
int rbd_aio_writev(rbd_image_t image, const struct iovec *vector, int count, uint64_t offset, rbd_completion_t
    completion);
/* Releases a range. */
int rbd_aio_discard(rbd_image_t image, uint64_t offset, uint64_t len, rbd_completion_t completion);
/* Writes a pattern repeatedly. */
int rbd_aio_writesame(rbd_image_t image, uint64_t offset, size_t len, const char *data, size_t data_len,
    rbd_completion_t completion, int flags);
/* Zeroes a range. */
int rbd_aio_write_zeroes(rbd_image_t image, uint64_t offset, size_t len, rbd_completion_t completion, int
    zero_flags, int flags);
/* Writes if the image has what is expected; EILSEQ, and where it differs, if not. */
ssize_t rbd_aio_compare_and_write(rbd_image_t image, uint64_t offset, size_t len, const char *expected, const
    char *data, rbd_completion_t completion, uint64_t *mismatch, int flags);
/* Writes several pieces of memory if the image has what is expected. */
ssize_t rbd_aio_compare_and_writev(rbd_image_t image, uint64_t offset, const struct iovec *expected, int
    expected_count, const struct iovec *data, int count, rbd_completion_t completion, uint64_t *mismatch, int
    flags);
/* Makes all writes durable. */
int rbd_aio_flush(rbd_image_t image, rbd_completion_t completion);
/* The program's argument. */
void *rbd_aio_get_arg(rbd_completion_t completion);
/* Gives the completion back; the operation goes on. */
void rbd_aio_release(rbd_completion_t completion);

/* The options of images, as a pool or an image has them. */
/* Lists the options that a pool may override, with their values in the pool. */
int rbd_config_pool_list(rados_ioctx_t ioctx, rbd_config_option_t *to, int *count);
/* Lists the options that an image may override, with their values for the image. */
int rbd_config_image_list(rbd_image_t image, rbd_config_option_t *to, int *count);
/* Frees the texts of a list of a pool. */
void rbd_config_pool_list_cleanup(rbd_config_option_t *list, int count);
/* Frees the texts of a list of an image. */
void rbd_config_image_list_cleanup(rbd_config_option_t *list, int count);

/* Creating, cloning, copying, removing, renaming and resizing images. */
/* Creates an image. */
int rbd_create(rados_ioctx_t ioctx, const char *name, uint64_t size, int *order);
/* Creates an image with features. */
int rbd_create2(rados_ioctx_t ioctx, const char *name, uint64_t size, uint64_t features, int *order);
/* Creates an image with features and striping. */
int rbd_create3(rados_ioctx_t ioctx, const char *name, uint64_t size, uint64_t features, int *order, uint64_t
    stripe_unit, uint64_t stripe_count);
/* Creates an image with options. */
int rbd_create4(rados_ioctx_t ioctx, const char *name, uint64_t size, rbd_image_options_t bag);
/* Clones a snapshot. */
int rbd_clone(void *parent, const char *parent_name, const char *snapshot, void *child, const char *name,
    uint64_t features, int *order);
/* Clones a snapshot, with striping. */
int rbd_clone2(void *parent, const char *parent_name, const char *snapshot, void *child, const char *name,
    uint64_t features, int *order, uint64_t stripe_unit, int stripe_count);
/* Clones a snapshot, with options. */
int rbd_clone3(void *parent, const char *parent_name, const char *snapshot, void *child, const char *name,
    rbd_image_options_t bag);
/* Clones a snapshot, which is named by its id. */
int rbd_clone4(void *parent, const char *parent_name, uint64_t snapshot, void *child, const char *name,
    rbd_image_options_t bag);
/* Removes an image. */
int rbd_remove(rados_ioctx_t ioctx, const char *name);
/* Removes an image and tells the progress. */
int rbd_remove_with_progress(rados_ioctx_t ioctx, const char *name, librbd_progress_fn_t callback, void *arg);
/* Renames an image. */
int rbd_rename(rados_ioctx_t ioctx, const char *from, const char *to);
/* Resizes an image. */
int rbd_resize(rbd_image_t image, uint64_t size);
/* Resizes an image; it shrinks only if that is allowed. */
int rbd_resize2(rbd_image_t image, uint64_t size, bool allow_shrink, librbd_progress_fn_t callback, void
    *arg);
/* Resizes an image and tells the progress. */
int rbd_resize_with_progress(rbd_image_t image, uint64_t size, librbd_progress_fn_t callback, void *arg);
/* Detaches a clone from its parent. */
int rbd_flatten(rbd_image_t image);
/* Detaches a clone from its parent and tells the progress. */
int rbd_flatten_with_progress(rbd_image_t image, librbd_progress_fn_t callback, void *arg);
/* Releases blocks of zeros. */
int rbd_sparsify(rbd_image_t image, size_t bytes);
/* Releases blocks of zeros and tells the progress. */
int rbd_sparsify_with_progress(rbd_image_t image, size_t bytes, librbd_progress_fn_t callback, void *arg);
/* Makes the object map anew. */
int rbd_rebuild_object_map(rbd_image_t image, librbd_progress_fn_t callback, void *arg);
/* Copies an image. */
int rbd_copy(rbd_image_t image, rados_ioctx_t ioctx, const char *name);
/* Copies an image's data into another open image. */
int rbd_copy2(void *from, void *to);
/* Copies an image's data into another open image, and tells the progress. */
int rbd_copy_with_progress2(void *from, void *to, librbd_progress_fn_t callback, void *arg);
/* Copies an image, with options. */
int rbd_copy3(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t bag);
/* Copies an image, with options and a size of holes. */
int rbd_copy4(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t bag, size_t
    sparse_bytes);
/* Copies an image and tells the progress. */
int rbd_copy_with_progress(rbd_image_t image, rados_ioctx_t ioctx, const char *name, librbd_progress_fn_t
    callback, void *arg);
/* Copies an image with options, and tells the progress. */
int rbd_copy_with_progress3(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t bag,
    librbd_progress_fn_t callback, void *arg);
/* Copies an image with options and a size of holes, and tells the progress. */
int rbd_copy_with_progress4(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t bag,
    librbd_progress_fn_t callback, void *arg, size_t sparse_bytes);
/* Copies an image with its snapshots. */
int rbd_deep_copy(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t bag);
/* Copies an image with its snapshots, and tells the progress. */
int rbd_deep_copy_with_progress(rbd_image_t image, rados_ioctx_t ioctx, const char *name, rbd_image_options_t
    bag, librbd_progress_fn_t callback, void *arg);

/* The differences between two states of an image. */
/* Calls back for each difference between a snapshot, or nothing, and what is open. */
int rbd_diff_iterate(rbd_image_t image, const char *from, uint64_t offset, uint64_t len, int
    (*callback)(uint64_t offset, size_t len, int exists, void *arg), void *arg);
/* As `rbd_diff_iterate`; whole objects count if `whole` is set, and the parent's data if `include_parent` is.
   */
int rbd_diff_iterate2(rbd_image_t image, const char *from, uint64_t offset, uint64_t len, uint8_t
    include_parent, uint8_t whole, int (*callback)(uint64_t offset, size_t len, int exists, void *arg), void
    *arg);
/* As `rbd_diff_iterate2`, with the snapshot's id, 0 for nothing, and flags. */
int rbd_diff_iterate3(rbd_image_t image, uint64_t from, uint64_t offset, uint64_t len, uint32_t flags, int
    (*callback)(uint64_t offset, size_t len, int exists, void *arg), void *arg);
/* Reads a range piece by piece; returns how many bytes. */
int64_t rbd_read_iterate(rbd_image_t image, uint64_t offset, size_t len, int (*callback)(uint64_t offset,
    size_t len, const char *data, void *arg), void *arg);
/* Reads a range piece by piece. */
int rbd_read_iterate2(rbd_image_t image, uint64_t offset, uint64_t len, int (*callback)(uint64_t offset,
    size_t len, const char *data, void *arg), void *arg);

/* The names of features, and the version of the interface. */
/* Copies the names of features, with commas; EINVAL if one has no name. */
int rbd_features_to_string(uint64_t bits, char *to, size_t *len);
/* Reads names of features, with commas, or a number. */
int rbd_features_from_string(const char *names, uint64_t *bits);
/* The version of the interface: that of release 20. */
void rbd_version(int *major, int *minor, int *extra);

/* Groups of images. */
/* Creates a group. */
int rbd_group_create(rados_ioctx_t ioctx, const char *name);
/* Removes a group. */
int rbd_group_remove(rados_ioctx_t ioctx, const char *name);
/* Renames a group. */
int rbd_group_rename(rados_ioctx_t ioctx, const char *from, const char *to);
/* Lists the groups, each with a NUL; returns their bytes. */
int rbd_group_list(rados_ioctx_t ioctx, char *to, size_t *len);
/* Adds an image. */
int rbd_group_image_add(rados_ioctx_t ioctx, const char *name, rados_ioctx_t image_ioctx, const char *image);
/* Takes an image out. */
int rbd_group_image_remove(rados_ioctx_t ioctx, const char *name, rados_ioctx_t image_ioctx, const char
    *image);
/* Takes an image out, by its id. */
int rbd_group_image_remove_by_id(rados_ioctx_t ioctx, const char *name, rados_ioctx_t image_ioctx, const char
    *id);
/* Lists the images of a group; returns their number. */
int rbd_group_image_list(rados_ioctx_t ioctx, const char *name, rbd_group_image_info_t *to, size_t size,
    size_t *count);
/* Frees the names of images; the array is the program's. */
int rbd_group_image_list_cleanup(rbd_group_image_info_t *list, size_t size, size_t count);
/* Tells which group an image belongs to; an empty name and the pool −1 are none. */
int rbd_get_group(rbd_image_t image, rbd_group_info_t *info, size_t size);
/* Frees a group's name. */
int rbd_group_info_cleanup(rbd_group_info_t *info, size_t size);
/* Takes a snapshot of all images at one time. */
int rbd_group_snap_create(rados_ioctx_t ioctx, const char *name, const char *snapshot);
/* Takes a snapshot; the flags are checked, and about watchers that quiesce, which there are none of here. */
int rbd_group_snap_create2(rados_ioctx_t ioctx, const char *name, const char *snapshot, uint32_t flags);
/* Removes a snapshot. */
int rbd_group_snap_remove(rados_ioctx_t ioctx, const char *name, const char *snapshot);
/* Renames a snapshot. */
int rbd_group_snap_rename(rados_ioctx_t ioctx, const char *name, const char *from, const char *to);
/* Lists the snapshots of a group; returns their number. */
int rbd_group_snap_list(rados_ioctx_t ioctx, const char *name, rbd_group_snap_info_t *to, size_t size, size_t
    *count);
/* Frees the names of snapshots; the array is the program's. */
int rbd_group_snap_list_cleanup(rbd_group_snap_info_t *list, size_t size, size_t count);
/* Restores the images' states at a snapshot. */
int rbd_group_snap_rollback(rados_ioctx_t ioctx, const char *name, const char *snapshot);
/* Restores the images' states at a snapshot and tells the progress. */
int rbd_group_snap_rollback_with_progress(rados_ioctx_t ioctx, const char *name, const char *snapshot,
    librbd_progress_fn_t callback, void *arg);
/* Tells which group's snapshot an image's snapshot belongs to. */
int rbd_snap_get_group_namespace(rbd_image_t image, uint64_t id, rbd_snap_group_namespace_t *info, size_t
    size);
/* Frees the names of a group and its snapshot. */
int rbd_snap_group_namespace_cleanup(rbd_snap_group_namespace_t *info, size_t size);

/* The handle of an open image, `rbd_image_t`, and what the image tells of itself. */
/* Size and layout. */
int rbd_stat(rbd_image_t image, rbd_image_info_t *info, size_t room);
/* Whether the image is of format 1. */
int rbd_get_old_format(rbd_image_t image, uint8_t *old);
/* The size in bytes. */
int rbd_get_size(rbd_image_t image, uint64_t *size);
/* The features. */
int rbd_get_features(rbd_image_t image, uint64_t *features);
/* The features that operations have brought about. */
int rbd_get_op_features(rbd_image_t image, uint64_t *features);
/* Switches features on or off. */
int rbd_update_features(rbd_image_t image, uint64_t features, uint8_t enabled);
/* Whether object map and fast diff are invalid. */
int rbd_get_flags(rbd_image_t image, uint64_t *flags);
/* The stripe unit in bytes. */
int rbd_get_stripe_unit(rbd_image_t image, uint64_t *bytes);
/* The stripe count in objects. */
int rbd_get_stripe_count(rbd_image_t image, uint64_t *count);
/* When the image was created. */
int rbd_get_create_timestamp(rbd_image_t image, struct timespec *time);
/* When the image was last read. */
int rbd_get_access_timestamp(rbd_image_t image, struct timespec *time);
/* When the image was last changed. */
int rbd_get_modify_timestamp(rbd_image_t image, struct timespec *time);
/* How much of the parent's data shows. */
int rbd_get_overlap(rbd_image_t image, uint64_t *overlap);
/* Copies the name; the length that is needed is told if there is no room. */
int rbd_get_name(rbd_image_t image, char *to, size_t *len);
/* Copies the id. */
int rbd_get_id(rbd_image_t image, char *to, size_t room);
/* Copies the prefix of the data objects' names. */
int rbd_get_block_name_prefix(rbd_image_t image, char *to, size_t room);
/* The pool of the data. */
int64_t rbd_get_data_pool_id(rbd_image_t image);
/* Nothing is cached. */
int rbd_invalidate_cache(rbd_image_t image);

/* Synchronous reads and changes of an image's data. */
/* Reads; returns how many bytes. */
ssize_t rbd_read(rbd_image_t image, uint64_t offset, size_t len, char *to);
/* Reads; the flags are hints. */
ssize_t rbd_read2(rbd_image_t image, uint64_t offset, size_t len, char *to, int flags);
/* Writes; returns how many bytes. */
ssize_t rbd_write(rbd_image_t image, uint64_t offset, size_t len, const char *data);
/* Writes; the flags are hints. */
ssize_t rbd_write2(rbd_image_t image, uint64_t offset, size_t len, const char *data, int flags);
/* Releases a range; returns how many bytes. */
int rbd_discard(rbd_image_t image, uint64_t offset, uint64_t len);
/* Writes a pattern repeatedly; returns how many bytes. */
ssize_t rbd_writesame(rbd_image_t image, uint64_t offset, size_t len, const char *data, size_t data_len, int
    flags);
/* Zeroes a range; returns how many bytes. */
ssize_t rbd_write_zeroes(rbd_image_t image, uint64_t offset, size_t len, int zero_flags, int flags);
/* Writes if the image has what is expected; EILSEQ, and where it differs, if not. */
ssize_t rbd_compare_and_write(rbd_image_t image, uint64_t offset, size_t len, const char *expected, const char
    *data, uint64_t *mismatch, int flags);
/* Makes all writes durable. */
int rbd_flush(rbd_image_t image);

/* Lists of images and namespaces, clients that have an image open, and pools for images. */
/* Lists the names, each with a NUL; returns their bytes. */
int rbd_list(rados_ioctx_t ioctx, char *to, size_t *len);
/* Lists names and ids. */
int rbd_list2(rados_ioctx_t ioctx, rbd_image_spec_t *to, size_t *count);
/* Whether there is a namespace. */
int rbd_namespace_exists(rados_ioctx_t ioctx, const char *name, bool *exists);
/* Creates a namespace. */
int rbd_namespace_create(rados_ioctx_t ioctx, const char *name);
/* Removes a namespace. */
int rbd_namespace_remove(rados_ioctx_t ioctx, const char *name);
/* Lists the namespaces, each with a NUL. */
int rbd_namespace_list(rados_ioctx_t ioctx, char *to, size_t *len);
/* Makes a pool one for images. */
int rbd_pool_init(rados_ioctx_t ioctx, bool force);
/* Lists the clients that have the image open. */
int rbd_watchers_list(rbd_image_t image, rbd_image_watcher_t *to, size_t *count);
/* Frees what names an image. */
void rbd_image_spec_cleanup(rbd_image_spec_t *spec);
/* Frees what names images; the array is the program's. */
void rbd_image_spec_list_cleanup(rbd_image_spec_t *specs, size_t count);
/* Frees the addresses of watchers; the array is the program's. */
void rbd_watchers_list_cleanup(rbd_image_watcher_t *watchers, size_t count);

/* The exclusive lock of an image, and the locks that users take. */
/* Whether this client has the exclusive lock. One that thinks so asks the OSD: the lock may have been taken
   away. */
int rbd_is_exclusive_lock_owner(rbd_image_t image, int *is_owner);
/* Takes the exclusive lock, and keeps it until it is given back: other clients that want it are refused. */
int rbd_lock_acquire(rbd_image_t image, int mode);
/* Gives the exclusive lock back; EINVAL without it. */
int rbd_lock_release(rbd_image_t image);
/* The owners of the exclusive lock, by address: there is one. */
int rbd_lock_get_owners(rbd_image_t image, int *mode, char **owners, size_t *count);
/* Takes the exclusive lock away from its owner, and puts the owner on the blocklist. */
int rbd_lock_break(rbd_image_t image, int mode, const char *owner);
/* Lists the clients that have locked the image. */
ssize_t rbd_list_lockers(rbd_image_t image, int *exclusive, char *tag, size_t *tag_len, char *clients, size_t
    *clients_len, char *cookies, size_t *cookies_len, char *addrs, size_t *addrs_len);
/* Locks the image for this client alone, until it is unlocked. */
int rbd_lock_exclusive(rbd_image_t image, const char *cookie);
/* Locks the image together with others that give the same tag. */
int rbd_lock_shared(rbd_image_t image, const char *cookie, const char *tag);
/* Unlocks the image. */
int rbd_unlock(rbd_image_t image, const char *cookie);
/* Takes a lock away from another client. */
int rbd_break_lock(rbd_image_t image, const char *client, const char *cookie);
/* Frees the addresses of owners; the array is the program's. */
void rbd_lock_get_owners_cleanup(char **owners, size_t count);

/* Keys and values of images and of pools. */
/* Copies the value of a key. */
int rbd_metadata_get(rbd_image_t image, const char *key, char *to, size_t *len);
/* Sets a key. */
int rbd_metadata_set(rbd_image_t image, const char *key, const char *value);
/* Removes a key. */
int rbd_metadata_remove(rbd_image_t image, const char *key);
/* Lists keys and values. */
int rbd_metadata_list(rbd_image_t image, const char *start, uint64_t max, char *keys, size_t *keys_len, char
    *values, size_t *values_len);
/* Copies the value of a pool's key. */
int rbd_pool_metadata_get(rados_ioctx_t ioctx, const char *key, char *to, size_t *len);
/* Sets a pool's key. */
int rbd_pool_metadata_set(rados_ioctx_t ioctx, const char *key, const char *value);
/* Removes a pool's key. */
int rbd_pool_metadata_remove(rados_ioctx_t ioctx, const char *key);
/* Lists a pool's keys and values. */
int rbd_pool_metadata_list(rados_ioctx_t ioctx, const char *start, uint64_t max, char *keys, size_t *keys_len,
    char *values, size_t *values_len);

/* Migration: moving an image while it is in use. */
/* Begins to move an image: from now on the new one is used. */
int rbd_migration_prepare(rados_ioctx_t ioctx, const char *name, rados_ioctx_t to_ioctx, const char *to_name,
    rbd_image_options_t bag);
/* Copies what is still in the old image. */
int rbd_migration_execute(rados_ioctx_t ioctx, const char *name);
/* Copies what is still in the old image and tells the progress. */
int rbd_migration_execute_with_progress(rados_ioctx_t ioctx, const char *name, librbd_progress_fn_t callback,
    void *arg);
/* Removes the old image. */
int rbd_migration_commit(rados_ioctx_t ioctx, const char *name);
/* Removes the old image and tells the progress. */
int rbd_migration_commit_with_progress(rados_ioctx_t ioctx, const char *name, librbd_progress_fn_t callback,
    void *arg);
/* Goes back to the old image. */
int rbd_migration_abort(rados_ioctx_t ioctx, const char *name);
/* Goes back to the old image and tells the progress. */
int rbd_migration_abort_with_progress(rados_ioctx_t ioctx, const char *name, librbd_progress_fn_t callback,
    void *arg);
/* Tells where the data of an image that is being migrated comes from, as JSON; ENOENT of another image. */
int rbd_get_migration_source_spec(rbd_image_t image, char *to, size_t *len);
/* Tells how far a migration is; EINVAL if there is none. */
int rbd_migration_status(rados_ioctx_t ioctx, const char *name, rbd_image_migration_status_t *status, size_t
    size);
/* Frees the texts of a status. */
void rbd_migration_status_cleanup(rbd_image_migration_status_t *status);

/* Opening and closing images. */
/* Opens an image; with a snapshot's name, that snapshot. */
int rbd_open(rados_ioctx_t ioctx, const char *name, rbd_image_t *image, const char *snapshot);
/* Opens an image by its id. */
int rbd_open_by_id(rados_ioctx_t ioctx, const char *id, rbd_image_t *image, const char *snapshot);
/* Opens an image for reading. */
int rbd_open_read_only(rados_ioctx_t ioctx, const char *name, rbd_image_t *image, const char *snapshot);
/* Opens an image for reading, by its id. */
int rbd_open_by_id_read_only(rados_ioctx_t ioctx, const char *id, rbd_image_t *image, const char *snapshot);
/* Opens an image asynchronously. */
int rbd_aio_open(rados_ioctx_t ioctx, const char *name, rbd_image_t *image, const char *snapshot,
    rbd_completion_t completion);
/* Opens an image by its id, asynchronously. */
int rbd_aio_open_by_id(rados_ioctx_t ioctx, const char *id, rbd_image_t *image, const char *snapshot,
    rbd_completion_t completion);
/* Opens an image for reading, asynchronously. */
int rbd_aio_open_read_only(rados_ioctx_t ioctx, const char *name, rbd_image_t *image, const char *snapshot,
    rbd_completion_t completion);
/* Opens an image for reading by its id, asynchronously. */
int rbd_aio_open_by_id_read_only(rados_ioctx_t ioctx, const char *id, rbd_image_t *image, const char
    *snapshot, rbd_completion_t completion);
/* Closes an image, when the operations under way have ended. */
int rbd_close(rbd_image_t image);
/* Closes an image asynchronously. */
int rbd_aio_close(rbd_image_t image, rbd_completion_t completion);

/* Bags of options for new images, `rbd_image_options_t`, and the options of the configuration. */
/* Sets an option to a text; a number may be written as one. */
int rbd_image_options_set_string(rbd_image_options_t bag, int option, const char *value);
/* Sets an option to a number. */
int rbd_image_options_set_uint64(rbd_image_options_t bag, int option, uint64_t value);
/* Copies a text. */
int rbd_image_options_get_string(rbd_image_options_t bag, int option, char *to, size_t room);
/* Reads a number. */
int rbd_image_options_get_uint64(rbd_image_options_t bag, int option, uint64_t *value);
/* Whether an option was set. */
int rbd_image_options_is_set(rbd_image_options_t bag, int option, bool *is_set);
/* Takes an option out. */
int rbd_image_options_unset(rbd_image_options_t bag, int option);
/* Whether no option was set. */
int rbd_image_options_is_empty(rbd_image_options_t bag);
/* Creates an empty bag. */
void rbd_image_options_create(void **to);
/* Frees a bag. */
void rbd_image_options_destroy(rbd_image_options_t bag);
/* Takes all options out. */
void rbd_image_options_clear(rbd_image_options_t bag);

/* Parents of clones, and clones of snapshots. */
/* Tells about the image and the snapshot that this image is a clone of. */
int rbd_get_parent(rbd_image_t image, rbd_linked_image_spec_t *parent, rbd_snap_spec_t *snapshot);
/* Copies the names of the parent. */
int rbd_get_parent_info(rbd_image_t image, char *pool, size_t pool_room, char *name, size_t name_room, char
    *snapshot, size_t snapshot_room);
/* Copies the names and the id of the parent. */
int rbd_get_parent_info2(rbd_image_t image, char *pool, size_t pool_room, char *name, size_t name_room, char
    *id, size_t id_room, char *snapshot, size_t snapshot_room);
/* Lists the clones' pools and names, each with a NUL; returns their number. */
ssize_t rbd_list_children(rbd_image_t image, char *pools, size_t *pools_len, char *names, size_t *names_len);
/* Lists the clones; returns their number. */
int rbd_list_children2(rbd_image_t image, rbd_child_info_t *to, int *room);
/* Lists the clones. */
int rbd_list_children3(rbd_image_t image, rbd_linked_image_spec_t *to, size_t *count);
/* Lists the clones, their clones, and so on. */
int rbd_list_descendants(rbd_image_t image, rbd_linked_image_spec_t *to, size_t *count);
/* Frees what names a linked image. */
void rbd_linked_image_spec_cleanup(rbd_linked_image_spec_t *spec);
/* Frees what names linked images; the array is the program's. */
void rbd_linked_image_spec_list_cleanup(rbd_linked_image_spec_t *specs, size_t count);
/* Frees the name of a snapshot. */
void rbd_snap_spec_cleanup(rbd_snap_spec_t *spec);
/* Frees what names a clone. */
void rbd_list_child_cleanup(rbd_child_info_t *child);
/* Frees what names clones; the array is the program's. */
void rbd_list_children_cleanup(rbd_child_info_t *children, size_t count);

/* The functions by which a program collects completions. */
/* Has a descriptor told of each completion from now on. */
int rbd_set_image_notification(rbd_image_t image, int descriptor, int kind);
/* Collects completions; returns how many. */
int rbd_poll_io_events(rbd_image_t image, void **to, int room);

/* Statistics of the images of a pool, `rbd_pool_stats_t`. */
/* Adds a number. */
int rbd_pool_stats_option_add_uint64(rbd_pool_stats_t stats, int option, uint64_t *to);
/* Stores the numbers. Of each image, the largest of its own and its snapshots' sizes stands for both. */
int rbd_pool_stats_get(rados_ioctx_t ioctx, rbd_pool_stats_t stats);
/* Creates an empty list of wanted numbers. */
void rbd_pool_stats_create(void **to);
/* Frees the list. */
void rbd_pool_stats_destroy(rbd_pool_stats_t stats);

/* Snapshots of an image. */
/* Lists the snapshots; ERANGE, with the room that is needed, if there is not enough. One more entry with a
   NULL name ends the list. */
int rbd_snap_list(rbd_image_t image, rbd_snap_info_t *to, int *room);
/* Whether there is a snapshot. */
int rbd_snap_exists(rbd_image_t image, const char *name, bool *exists);
/* Takes a snapshot. */
int rbd_snap_create(rbd_image_t image, const char *name);
/* Takes a snapshot; the flags are checked, and about watchers that quiesce, which there are none of here. */
int rbd_snap_create2(rbd_image_t image, const char *name, uint32_t flags, librbd_progress_fn_t callback, void
    *arg);
/* Removes a snapshot. */
int rbd_snap_remove(rbd_image_t image, const char *name);
/* Removes a snapshot, also a protected one or one with clones if that is asked for. */
int rbd_snap_remove2(rbd_image_t image, const char *name, uint32_t flags, librbd_progress_fn_t callback, void
    *arg);
/* Removes a snapshot by its id. */
int rbd_snap_remove_by_id(rbd_image_t image, uint64_t id);
/* Restores the image's state at a snapshot. */
int rbd_snap_rollback(rbd_image_t image, const char *name);
/* Restores the image's state at a snapshot and tells the progress. */
int rbd_snap_rollback_with_progress(rbd_image_t image, const char *name, librbd_progress_fn_t callback, void
    *arg);
/* Renames a snapshot. */
int rbd_snap_rename(rbd_image_t image, const char *from, const char *to);
/* Protects a snapshot from removal. */
int rbd_snap_protect(rbd_image_t image, const char *name);
/* Allows a snapshot's removal again. */
int rbd_snap_unprotect(rbd_image_t image, const char *name);
/* Whether a snapshot is protected. */
int rbd_snap_is_protected(rbd_image_t image, const char *name, int *is_protected);
/* Limits the number of snapshots; the largest number is no limit. */
int rbd_snap_set_limit(rbd_image_t image, uint64_t limit);
/* The limit of the number of snapshots; the largest number is none. */
int rbd_snap_get_limit(rbd_image_t image, uint64_t *limit);
/* Copies the name that a snapshot had before it was put into the trash. */
int rbd_snap_get_trash_namespace(rbd_image_t image, uint64_t id, char *to, size_t room);
/* When a snapshot was taken. */
int rbd_snap_get_timestamp(rbd_image_t image, uint64_t id, struct timespec *time);
/* Reads see this snapshot from now on; NULL is the image itself. */
int rbd_snap_set(rbd_image_t image, const char *name);
/* Reads see this snapshot from now on; `LIBRADOS_SNAP_HEAD` is the image itself. */
int rbd_snap_set_by_id(rbd_image_t image, uint64_t id);
/* Copies a snapshot's name. */
int rbd_snap_get_name(rbd_image_t image, uint64_t id, char *to, size_t *len);
/* Finds a snapshot's id. */
int rbd_snap_get_id(rbd_image_t image, const char *name, uint64_t *id);
/* What made a snapshot: 0 a user, 1 a group, 2 the trash, 3 mirroring. */
int rbd_snap_get_namespace_type(rbd_image_t image, uint64_t id, int *kind);
/* Frees the names of a list; the array is the program's. */
void rbd_snap_list_end(rbd_snap_info_t *list);

/* The trash of a pool: images that were removed for a while. */
/* Puts an image into the trash for so many seconds. */
int rbd_trash_move(rados_ioctx_t ioctx, const char *name, uint64_t delay);
/* Tells about an image in the trash. */
int rbd_trash_get(rados_ioctx_t ioctx, const char *id, rbd_trash_image_info_t *info);
/* Lists the trash; returns the number of images. */
int rbd_trash_list(rados_ioctx_t ioctx, rbd_trash_image_info_t *to, size_t *count);
/* Removes an image from the trash for good. */
int rbd_trash_remove(rados_ioctx_t ioctx, const char *id, bool force);
/* Removes an image from the trash for good and tells the progress. */
int rbd_trash_remove_with_progress(rados_ioctx_t ioctx, const char *id, bool force, librbd_progress_fn_t
    callback, void *arg);
/* Removes the images whose time is over. */
int rbd_trash_purge(rados_ioctx_t ioctx, time_t until, float threshold);
/* Removes the images whose time is over and tells the progress. */
int rbd_trash_purge_with_progress(rados_ioctx_t ioctx, time_t until, float threshold, librbd_progress_fn_t
    callback, void *arg);
/* Takes an image out of the trash; NULL is its old name. */
int rbd_trash_restore(rados_ioctx_t ioctx, const char *id, const char *name);
/* Frees the texts about an image in the trash. */
void rbd_trash_get_cleanup(rbd_trash_image_info_t *info);
/* Frees the texts of a list; the array is the program's. */
void rbd_trash_list_cleanup(rbd_trash_image_info_t *list, size_t count);

/* Callbacks for changes of an image's header. */
/* Has the callback called when the image's header changes. */
int rbd_update_watch(rbd_image_t image, uint64_t *handle, rbd_update_callback_t callback, void *arg);
/* Ends the calls. The callback does not run any more when this returns. */
int rbd_update_unwatch(rbd_image_t image, uint64_t handle);

/* More. */
int rbd_mirror_mode_get(rados_ioctx_t ioctx, rbd_mirror_mode_t *mode);
int rbd_mirror_image_get_info(rbd_image_t image, rbd_mirror_image_info_t *info, size_t room);
void rbd_mirror_image_get_info_cleanup(rbd_mirror_image_info_t *info);

#ifdef __cplusplus
}
#endif

#endif
