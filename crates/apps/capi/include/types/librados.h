/* librados: objects in pools of a cluster.
 *
 * Types and constants of the interface as Loligo's library has them. What a function does is described in
 * Ceph's documentation; where this library differs, docs/book/programs.md says so. */
#ifndef LOLIGO_LIBRADOS_H
#define LOLIGO_LIBRADOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LIBRADOS_VER_MAJOR 3
#define LIBRADOS_VER_MINOR 0
#define LIBRADOS_VER_EXTRA 0
#define LIBRADOS_VERSION(major, minor, extra) (((major) << 16) + ((minor) << 8) + (extra))
#define LIBRADOS_VERSION_CODE LIBRADOS_VERSION(LIBRADOS_VER_MAJOR, LIBRADOS_VER_MINOR, LIBRADOS_VER_EXTRA)

#define LIBRADOS_SUPPORTS_APP_METADATA 1
#define LIBRADOS_SUPPORTS_GETADDRS 1
#define LIBRADOS_SUPPORTS_SERVICES 1
#define LIBRADOS_SUPPORTS_WATCH 1

/* Handles. */
#ifndef VOIDPTR_RADOS_T
#define VOIDPTR_RADOS_T
typedef void *rados_t;
#endif
typedef void *rados_config_t;
typedef void *rados_ioctx_t;
typedef void *rados_completion_t;
typedef void *rados_write_op_t;
typedef void *rados_read_op_t;
typedef void *rados_list_ctx_t;
typedef void *rados_object_list_cursor;
typedef void *rados_xattrs_iter_t;
typedef void *rados_omap_iter_t;
typedef uint64_t rados_snap_t;

/* Snapshots: the object itself, and all of its snapshots together. */
#define LIBRADOS_SNAP_HEAD UINT64_C(-2)
#define LIBRADOS_SNAP_DIR UINT64_C(-1)

/* A namespace for listings: all of them. */
#define LIBRADOS_ALL_NSPACES "\001"

/* rados_write_op_create */
#define LIBRADOS_CREATE_IDEMPOTENT 0
#define LIBRADOS_CREATE_EXCLUSIVE 1

/* Locks. */
#define LIBRADOS_LOCK_FLAG_RENEW (1u << 0)
#define LIBRADOS_LOCK_FLAG_MAY_RENEW LIBRADOS_LOCK_FLAG_RENEW
#define LIBRADOS_LOCK_FLAG_MUST_RENEW (1u << 1)

/* Of one operation of a request. */
enum {
    LIBRADOS_OP_FLAG_EXCL = 0x1,
    LIBRADOS_OP_FLAG_FAILOK = 0x2,
    LIBRADOS_OP_FLAG_FADVISE_RANDOM = 0x4,
    LIBRADOS_OP_FLAG_FADVISE_SEQUENTIAL = 0x8,
    LIBRADOS_OP_FLAG_FADVISE_WILLNEED = 0x10,
    LIBRADOS_OP_FLAG_FADVISE_DONTNEED = 0x20,
    LIBRADOS_OP_FLAG_FADVISE_NOCACHE = 0x40,
    LIBRADOS_OP_FLAG_FADVISE_FUA = 0x80
};

/* Of a whole request. */
enum {
    LIBRADOS_OPERATION_NOFLAG = 0,
    LIBRADOS_OPERATION_BALANCE_READS = 1,
    LIBRADOS_OPERATION_LOCALIZE_READS = 2,
    LIBRADOS_OPERATION_ORDER_READS_WRITES = 4,
    LIBRADOS_OPERATION_IGNORE_CACHE = 8,
    LIBRADOS_OPERATION_SKIPRWLOCKS = 16,
    LIBRADOS_OPERATION_IGNORE_OVERLAY = 32,
    LIBRADOS_OPERATION_FULL_TRY = 64,
    LIBRADOS_OPERATION_FULL_FORCE = 128,
    LIBRADOS_OPERATION_IGNORE_REDIRECT = 256,
    LIBRADOS_OPERATION_ORDERSNAP = 512,
    LIBRADOS_OPERATION_RETURNVEC = 1024
};

/* Comparisons of attributes and of values of omaps. */
enum {
    LIBRADOS_CMPXATTR_OP_EQ = 1,
    LIBRADOS_CMPXATTR_OP_NE = 2,
    LIBRADOS_CMPXATTR_OP_GT = 3,
    LIBRADOS_CMPXATTR_OP_GTE = 4,
    LIBRADOS_CMPXATTR_OP_LT = 5,
    LIBRADOS_CMPXATTR_OP_LTE = 6
};

/* rados_set_alloc_hint2 */
enum {
    LIBRADOS_ALLOC_HINT_FLAG_SEQUENTIAL_WRITE = 1,
    LIBRADOS_ALLOC_HINT_FLAG_RANDOM_WRITE = 2,
    LIBRADOS_ALLOC_HINT_FLAG_SEQUENTIAL_READ = 4,
    LIBRADOS_ALLOC_HINT_FLAG_RANDOM_READ = 8,
    LIBRADOS_ALLOC_HINT_FLAG_APPEND_ONLY = 16,
    LIBRADOS_ALLOC_HINT_FLAG_IMMUTABLE = 32,
    LIBRADOS_ALLOC_HINT_FLAG_SHORTLIVED = 64,
    LIBRADOS_ALLOC_HINT_FLAG_LONGLIVED = 128,
    LIBRADOS_ALLOC_HINT_FLAG_COMPRESSIBLE = 256,
    LIBRADOS_ALLOC_HINT_FLAG_INCOMPRESSIBLE = 512
};

/* rados_checksum */
typedef enum {
    LIBRADOS_CHECKSUM_TYPE_XXHASH32 = 0,
    LIBRADOS_CHECKSUM_TYPE_XXHASH64 = 1,
    LIBRADOS_CHECKSUM_TYPE_CRC32C = 2
} rados_checksum_type_t;

/* What a cluster holds. */
struct rados_cluster_stat_t {
    uint64_t kb;
    uint64_t kb_used;
    uint64_t kb_avail;
    uint64_t num_objects;
};

/* What a pool holds, and what was done there. */
struct rados_pool_stat_t {
    uint64_t num_bytes;
    uint64_t num_kb;
    uint64_t num_objects;
    uint64_t num_object_clones;
    uint64_t num_object_copies;
    uint64_t num_objects_missing_on_primary;
    uint64_t num_objects_unfound;
    uint64_t num_objects_degraded;
    uint64_t num_rd;
    uint64_t num_rd_kb;
    uint64_t num_wr;
    uint64_t num_wr_kb;
    uint64_t num_user_bytes;
    uint64_t compressed_bytes_orig;
    uint64_t compressed_bytes;
    uint64_t compressed_bytes_alloc;
};

/* An object of a listing. */
typedef struct {
    size_t oid_length;
    char *oid;
    size_t nspace_length;
    char *nspace;
    size_t locator_length;
    char *locator;
} rados_object_list_item;

/* A watcher's answer to a notification, and one that did not answer in time. */
struct notify_ack_t {
    uint64_t notifier_id;
    uint64_t cookie;
    char *payload;
    uint64_t payload_len;
};

struct notify_timeout_t {
    uint64_t notifier_id;
    uint64_t cookie;
};

/* Callbacks. */
typedef void (*rados_callback_t)(rados_completion_t completion, void *arg);
typedef void (*rados_watchcb_t)(uint8_t opcode, uint64_t version, void *arg);
typedef void (*rados_watchcb2_t)(void *arg, uint64_t notify_id, uint64_t handle, uint64_t notifier_id,
                                 void *data, size_t data_len);
typedef void (*rados_watcherrcb_t)(void *arg, uint64_t cookie, int error);
typedef void (*rados_log_callback_t)(void *arg, const char *line, const char *who, uint64_t seconds,
                                     uint64_t nanoseconds, uint64_t number, const char *level,
                                     const char *message);
typedef void (*rados_log_callback2_t)(void *arg, const char *line, const char *channel, const char *who,
                                      const char *name, uint64_t seconds, uint64_t nanoseconds,
                                      uint64_t number, const char *level, const char *message);

/* Functions, by topic. */
