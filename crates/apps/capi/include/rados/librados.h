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

/* Asynchronous operations, and completions (`rados_completion_t`). */
/* Creates a completion with callbacks: `complete` is called first, then `safe`. */
int rados_aio_create_completion(void *arg, rados_callback_t complete, rados_callback_t safe, void **to);
/* Creates a completion with one callback. */
int rados_aio_create_completion2(void *arg, rados_callback_t complete, void **to);
/* Waits until the operation is complete. */
int rados_aio_wait_for_complete(rados_completion_t completion);
/* As `rados_aio_wait_for_complete`: what is complete is safe. */
int rados_aio_wait_for_safe(rados_completion_t completion);
/* Waits until the operation is complete and its callbacks have returned. */
int rados_aio_wait_for_complete_and_cb(rados_completion_t completion);
/* As `rados_aio_wait_for_complete_and_cb`. */
int rados_aio_wait_for_safe_and_cb(rados_completion_t completion);
/* Whether the operation is complete. */
int rados_aio_is_complete(rados_completion_t completion);
/* As `rados_aio_is_complete`. */
int rados_aio_is_safe(rados_completion_t completion);
/* Whether the operation is complete and its callbacks have returned. */
int rados_aio_is_complete_and_cb(rados_completion_t completion);
/* As `rados_aio_is_complete_and_cb`. */
int rados_aio_is_safe_and_cb(rados_completion_t completion);
/* The operation's result. */
int rados_aio_get_return_value(rados_completion_t completion);
/* Cancels the operation; ENOENT if it is not under way. */
int rados_aio_cancel(rados_ioctx_t ioctx, rados_completion_t completion);
/* The version of the object that the operation found. */
uint64_t rados_aio_get_version(rados_completion_t completion);
/* Gives the completion back; the operation goes on. */
void rados_aio_release(rados_completion_t completion);
/* Writes data. */
int rados_aio_write(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *data,
    size_t len, uint64_t offset);
/* Appends data. */
int rados_aio_append(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *data,
    size_t len);
/* Replaces an object's data. */
int rados_aio_write_full(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char
    *data, size_t len);
/* Writes a pattern repeatedly. */
int rados_aio_writesame(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *data,
    size_t data_len, size_t len, uint64_t offset);
/* Removes an object. */
int rados_aio_remove(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion);
/* Sets an attribute. */
int rados_aio_setxattr(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *name,
    const char *value, size_t len);
/* Removes an attribute. */
int rados_aio_rmxattr(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *name);
/* Unlocks an object. */
int rados_aio_unlock(rados_ioctx_t ioctx, const char *oid, const char *name, const char *cookie,
    rados_completion_t completion);
/* Executes a request of several changes. `mtime` is in seconds, NULL is now. */
int rados_aio_write_op_operate(void *op, rados_ioctx_t ioctx, rados_completion_t completion, const char *oid,
    time_t *mtime, int flags);
/* Executes a request of several changes. `mtime` NULL is now. */
int rados_aio_write_op_operate2(void *op, rados_ioctx_t ioctx, rados_completion_t completion, const char *oid,
    struct timespec *mtime, int flags);
/* Executes a request of several reads. */
int rados_aio_read_op_operate(void *op, rados_ioctx_t ioctx, rados_completion_t completion, const char *oid,
    int flags);
/* Waits for the writes that were submitted to this handle before, and for their callbacks. */
int rados_aio_flush(rados_ioctx_t ioctx);
/* Completes when the writes that were submitted to this handle before are complete. */
int rados_aio_flush_async(rados_ioctx_t ioctx, rados_completion_t completion);
/* Reads data; the value is how many bytes. */
int rados_aio_read(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, char *to, size_t room,
    uint64_t offset);
/* Compares data with the object's. */
int rados_aio_cmpext(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *data,
    size_t len, uint64_t offset);
/* Reads size and time, in seconds. */
int rados_aio_stat(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, uint64_t *size, time_t
    *time);
/* Reads size and time. */
int rados_aio_stat2(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, uint64_t *size,
    struct timespec *time);
/* Calls a method of an object class; the value is the length of its output, or its result without one. */
int rados_aio_exec(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char
    *class_name, const char *method, const char *input, size_t len, char *to, size_t room);
/* Reads an attribute; the value is its length. */
int rados_aio_getxattr(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *name,
    char *to, size_t room);
/* Reads all attributes; the iterator is there when the operation is complete. */
int rados_aio_getxattrs(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, void **iterator);
/* Allocates a snapshot id. */
void rados_aio_ioctx_selfmanaged_snap_create(rados_ioctx_t ioctx, uint64_t *snapshot, rados_completion_t
    completion);
/* Removes a snapshot. */
void rados_aio_ioctx_selfmanaged_snap_remove(rados_ioctx_t ioctx, uint64_t snapshot, rados_completion_t
    completion);

/* The applications of a pool. */
/* Says which application uses the pool. */
int rados_application_enable(rados_ioctx_t ioctx, const char *name, int force);
/* Lists the applications, each with a NUL. */
int rados_application_list(rados_ioctx_t ioctx, char *to, size_t *len);
/* Copies the value of an application's key. */
int rados_application_metadata_get(rados_ioctx_t ioctx, const char *name, const char *key, char *to, size_t
    *len);
/* Sets the value of an application's key. */
int rados_application_metadata_set(rados_ioctx_t ioctx, const char *name, const char *key, const char *value);
/* Removes a key of an application. */
int rados_application_metadata_remove(rados_ioctx_t ioctx, const char *name, const char *key);
/* Lists keys and values of an application, each with a NUL. */
int rados_application_metadata_list(rados_ioctx_t ioctx, const char *name, char *keys, size_t *keys_len, char
    *values, size_t *values_len);

/* Commands to monitors, managers and OSDs. */
/* Sends the monitors a command. */
int rados_mon_command(rados_t cluster, const char *const *command, size_t count, const char *input, size_t
    input_len, char **output, size_t *output_len, char **status, size_t *status_len);
/* Sends one monitor a command. The monitor of the client's session answers for it. */
int rados_mon_command_target(rados_t cluster, const char *name, const char *const *command, size_t count,
    const char *input, size_t input_len, char **output, size_t *output_len, char **status, size_t
    *status_len);
/* Asks a monitor whether it lives; the answer is its state as JSON. */
int rados_ping_monitor(rados_t cluster, const char *name, char **output, size_t *len);
/* Sends the active manager a command for the cluster. */
int rados_mgr_command(rados_t cluster, const char *const *command, size_t count, const char *input, size_t
    input_len, char **output, size_t *output_len, char **status, size_t *status_len);
/* Sends a manager itself a command. */
int rados_mgr_command_target(rados_t cluster, const char *name, const char *const *command, size_t count,
    const char *input, size_t input_len, char **output, size_t *output_len, char **status, size_t
    *status_len);
/* Sends an OSD a command. */
int rados_osd_command(rados_t cluster, int osd, const char *const *command, size_t count, const char *input,
    size_t input_len, char **output, size_t *output_len, char **status, size_t *status_len);
/* Sends the primary of a placement group a command. */
int rados_pg_command(rados_t cluster, const char *pg, const char *const *command, size_t count, const char
    *input, size_t input_len, char **output, size_t *output_len, char **status, size_t *status_len);

/* Options of a cluster handle. */
/* Reads a file; NULL is `CEPH_CONF` or the first of the usual files. */
int rados_conf_read_file(rados_t cluster, const char *path);
/* Takes options from a command line. */
int rados_conf_parse_argv(rados_t cluster, int count, const char **words);
/* Takes options from a command line and stores the words that are none, then NULLs. */
int rados_conf_parse_argv_remainder(rados_t cluster, int count, const char **words, const char **left);
/* Takes options from a variable of the environment; NULL is `CEPH_ARGS`. */
int rados_conf_parse_env(rados_t cluster, const char *variable);
/* Sets an option. */
int rados_conf_set(rados_t cluster, const char *option, const char *value);
/* Copies an option's value. Unlike elsewhere, ENAMETOOLONG tells that there is no room for it. */
int rados_conf_get(rados_t cluster, const char *option, char *to, size_t room);

/* What a cluster tells of itself: id, space, addresses, releases; and the blocklist. */
/* Copies the cluster's id, 36 characters; returns their number. */
int rados_cluster_fsid(rados_t cluster, char *to, size_t room);
/* The cluster's space. */
int rados_cluster_stat(rados_t cluster, struct rados_cluster_stat_t *result);
/* The oldest release that OSDs must have, as the map says. */
int rados_get_min_compatible_osd(rados_t cluster, int8_t *release);
/* The oldest release that clients can have for the features in use, and the one that is demanded. */
int rados_get_min_compatible_client(rados_t cluster, int8_t *in_use, int8_t *demanded);
/* This client's address as the blocklist has it, allocated. */
int rados_getaddrs(rados_t cluster, char **addrs);
/* Adds a client to the blocklist; 0 seconds is the monitors' default. */
int rados_blocklist_add(rados_t cluster, char *address, uint32_t seconds);
/* The older name of `rados_blocklist_add`. */
int rados_blacklist_add(rados_t cluster, char *address, uint32_t seconds);
/* The id that the monitors gave this client; 0 if it is not connected. */
uint64_t rados_get_instance_id(rados_t cluster);

/* Synchronous operations on an object's data. */
/* Writes data. */
int rados_write(rados_ioctx_t ioctx, const char *oid, const char *data, size_t len, uint64_t offset);
/* Replaces an object's data. */
int rados_write_full(rados_ioctx_t ioctx, const char *oid, const char *data, size_t len);
/* Writes a pattern repeatedly. */
int rados_writesame(rados_ioctx_t ioctx, const char *oid, const char *data, size_t data_len, size_t len,
    uint64_t offset);
/* Appends data. */
int rados_append(rados_ioctx_t ioctx, const char *oid, const char *data, size_t len);
/* Reads data; returns how many bytes. */
int rados_read(rados_ioctx_t ioctx, const char *oid, char *to, size_t room, uint64_t offset);
/* Has the OSD compute checksums; the output is their number and they themselves, little-endian. */
int rados_checksum(rados_ioctx_t ioctx, const char *oid, int kind, const char *seed, size_t seed_len, size_t
    len, uint64_t offset, size_t chunk, char *to, size_t room);
/* Removes an object. */
int rados_remove(rados_ioctx_t ioctx, const char *oid);
/* Sets an object's size. */
int rados_trunc(rados_ioctx_t ioctx, const char *oid, uint64_t size);
/* Compares data with the object's; −(4095 + n) if byte n differs. */
int rados_cmpext(rados_ioctx_t ioctx, const char *oid, const char *data, size_t len, uint64_t offset);
/* Size and time of the last change of an object, in seconds. */
int rados_stat(rados_ioctx_t ioctx, const char *oid, uint64_t *size, time_t *time);
/* Size and time of the last change of an object. */
int rados_stat2(rados_ioctx_t ioctx, const char *oid, uint64_t *size, struct timespec *time);
/* Calls a method of an object class; returns the length of its output, or its result without one. */
int rados_exec(rados_ioctx_t ioctx, const char *oid, const char *class_name, const char *method, const char
    *input, size_t input_len, char *to, size_t room);
/* Restores an object's state at a snapshot of the pool. */
int rados_rollback(rados_ioctx_t ioctx, const char *oid, const char *snapshot);
/* Restores an object's state at a snapshot that clients manage. */
int rados_ioctx_selfmanaged_snap_rollback(rados_ioctx_t ioctx, const char *oid, uint64_t snapshot);
/* Keeps an object in a cache pool. */
int rados_cache_pin(rados_ioctx_t ioctx, const char *oid);
/* Undoes `rados_cache_pin`. */
int rados_cache_unpin(rados_ioctx_t ioctx, const char *oid);
/* Hints at sizes. */
int rados_set_alloc_hint(rados_ioctx_t ioctx, const char *oid, uint64_t object_size, uint64_t write_size);
/* Hints at sizes, and at how the object is used. */
int rados_set_alloc_hint2(rados_ioctx_t ioctx, const char *oid, uint64_t object_size, uint64_t write_size,
    uint32_t flags);
/* Frees what this library allocated; NULL is fine. */
void rados_buffer_free(char *memory);

/* The handle of a pool, `rados_ioctx_t`. */
/* Opens a pool by its name. */
int rados_ioctx_create(rados_t cluster, const char *name, rados_ioctx_t *ioctx);
/* Opens a pool by its id. */
int rados_ioctx_create2(rados_t cluster, int64_t id, rados_ioctx_t *ioctx);
/* The pool's id. */
int64_t rados_ioctx_get_id(rados_ioctx_t ioctx);
/* Copies the pool's name; returns its length. */
int rados_ioctx_get_pool_name(rados_ioctx_t ioctx, char *to, unsigned int room);
/* Copies the namespace; returns its length. */
int rados_ioctx_get_namespace(rados_ioctx_t ioctx, char *to, unsigned int room);
/* Whether writes must be aligned. */
int rados_ioctx_pool_requires_alignment2(rados_ioctx_t ioctx, int *is_required);
/* The alignment of writes in bytes; 0 if there is none. */
int rados_ioctx_pool_required_alignment2(rados_ioctx_t ioctx, uint64_t *alignment);
/* The older form of `rados_ioctx_pool_requires_alignment2`. */
int rados_ioctx_pool_requires_alignment(rados_ioctx_t ioctx);
/* Pools have no owner any more. */
int rados_ioctx_pool_set_auid(rados_ioctx_t ioctx, uint64_t auid);
/* Pools have no owner any more. */
int rados_ioctx_pool_get_auid(rados_ioctx_t ioctx, uint64_t *auid);
/* Frees the handle. Operations under way go on. */
void rados_ioctx_destroy(rados_ioctx_t ioctx);
/* The cluster's handle. */
void *rados_ioctx_get_cluster(rados_ioctx_t ioctx);
/* The cluster's context: see `rados_cct`. */
void *rados_ioctx_cct(rados_ioctx_t ioctx);
/* The alignment of writes in bytes; 0 if there is none. */
uint64_t rados_ioctx_pool_required_alignment(rados_ioctx_t ioctx);
/* The version that the last synchronous operation found. */
uint64_t rados_get_last_version(rados_ioctx_t ioctx);
/* Objects are placed by this key from now on; NULL is by their names. */
void rados_ioctx_locator_set_key(rados_ioctx_t ioctx, const char *key);
/* Objects are named in this namespace from now on; NULL is the default one. */
void rados_ioctx_set_namespace(rados_ioctx_t ioctx, const char *namespace_name);
/* Writes to a full pool fail from now on instead of waiting, unless they free space. */
void rados_set_pool_full_try(rados_ioctx_t ioctx);
/* Writes to a full pool wait again. */
void rados_unset_pool_full_try(rados_ioctx_t ioctx);
/* The older name of `rados_set_pool_full_try`. */
void rados_set_osdmap_full_try(rados_ioctx_t ioctx);
/* The older name of `rados_unset_pool_full_try`. */
void rados_unset_osdmap_full_try(rados_ioctx_t ioctx);

/* Iterators over attributes (`rados_xattrs_iter_t`) and omaps (`rados_omap_iter_t`). */
/* Gives the next attribute; NULL at the end. */
int rados_getxattrs_next(void *iterator, const char **name, const char **value, size_t *len);
/* Gives the next key and value; NULL at the end. */
int rados_omap_get_next(void *iterator, char **key, char **value, size_t *len);
/* Gives the next key and value, each with its length; NULL at the end. */
int rados_omap_get_next2(void *iterator, char **key, char **value, size_t *key_len, size_t *len);
/* Ends an iterator over attributes. */
void rados_getxattrs_end(void *iterator);
/* How many entries an iterator has in all. */
unsigned int rados_omap_iter_size(void *iterator);
/* Ends an iterator over an omap. */
void rados_omap_get_end(void *iterator);

/* Creating a cluster handle, connecting it, ending it. */
/* Creates a handle for the user `client.ID`; `client.admin` for NULL. Reads no file. */
int rados_create(rados_t *cluster, const char *id);
/* Creates a handle for a cluster's name and a full user name. `flags` are reserved. */
int rados_create2(rados_t *cluster, const char *cluster_name, const char *name, uint64_t flags);
/* Creates a handle from the context of another one (`rados_cct`), with its settings. */
int rados_create_with_context(rados_t *cluster, void *context);
/* Connects. */
int rados_connect(rados_t cluster);
/* Waits for the newest map. */
int rados_wait_for_latest_osdmap(rados_t cluster);
/* The version of the interface. */
void rados_version(int *major, int *minor, int *extra);
/* Ends the client and frees the handle. Handles of pools that remain fail from now on. */
void rados_shutdown(rados_t cluster);
/* An opaque context, for `rados_create_with_context`. It is longer than what programs of Ceph's test package
   look at, and zero there. */
void *rados_cct(rados_t cluster);

/* Listings of a pool's objects. */
/* Begins a listing. */
int rados_nobjects_list_open(rados_ioctx_t ioctx, void **to);
/* Gives the next object; ENOENT at the end. */
int rados_nobjects_list_next(void *listing, const char **oid, const char **key, const char **namespace_name);
/* Gives the next object, each text with its length; ENOENT at the end. */
int rados_nobjects_list_next2(void *listing, const char **oid, const char **key, const char **namespace_name,
    size_t *oid_len, size_t *key_len, size_t *namespace_len);
/* Gives the listing's position, which the program frees. */
int rados_nobjects_list_get_cursor(void *listing, void **to);
/* The listing without namespaces is no more, in stock librados either. */
int rados_objects_list_open(rados_ioctx_t ioctx, void **to);
/* See `rados_objects_list_open`. */
int rados_objects_list_next(void *listing, const char **oid, const char **key);
/* Lists objects from one position to before another; returns how many, and where to go on. */
int rados_object_list(rados_ioctx_t ioctx, void *start, void *finish, size_t room, const char *filter, size_t
    filter_len, rados_object_list_item *results, void **next);
/* Compares two positions. */
int rados_object_list_cursor_cmp(rados_ioctx_t ioctx, void *one, void *other);
/* Whether a position is behind all objects. */
int rados_object_list_is_end(rados_ioctx_t ioctx, void *at);
/* The hash of the listing's position. */
uint32_t rados_nobjects_list_get_pg_hash_position(void *listing);
/* Moves to the first object of a hash; returns the position's hash. */
uint32_t rados_nobjects_list_seek(void *listing, uint32_t hash);
/* Moves to a position; returns its hash. */
uint32_t rados_nobjects_list_seek_cursor(void *listing, void *at);
/* Ends a listing. */
void rados_nobjects_list_close(void *listing);
/* See `rados_objects_list_open`. */
uint32_t rados_objects_list_get_pg_hash_position(void *listing);
/* See `rados_objects_list_open`. */
uint32_t rados_objects_list_seek(void *listing, uint32_t hash);
/* See `rados_objects_list_open`. */
void rados_objects_list_close(void *listing);
/* The position before all objects. */
void *rados_object_list_begin(rados_ioctx_t ioctx);
/* The position behind all objects. */
void *rados_object_list_end(rados_ioctx_t ioctx);
/* Frees a position. */
void rados_object_list_cursor_free(rados_ioctx_t ioctx, void *at);
/* Frees the texts of listed objects; the array is the program's. */
void rados_object_list_free(size_t count, rados_object_list_item *results);
/* Gives the ends of part `number` of `count` equal parts between two positions. */
void rados_object_list_slice(rados_ioctx_t ioctx, void *start, void *finish, size_t number, size_t count, void
    **part_start, void **part_finish);

/* Advisory locks on objects. */
/* Locks an object for this client alone. */
int rados_lock_exclusive(rados_ioctx_t ioctx, const char *oid, const char *name, const char *cookie, const
    char *description, struct timeval *duration, uint8_t flags);
/* Locks an object together with others that give the same tag. */
int rados_lock_shared(rados_ioctx_t ioctx, const char *oid, const char *name, const char *cookie, const char
    *tag, const char *description, struct timeval *duration, uint8_t flags);
/* Gives a lock back. */
int rados_unlock(rados_ioctx_t ioctx, const char *oid, const char *name, const char *cookie);
/* Takes a lock away from another client. */
int rados_break_lock(rados_ioctx_t ioctx, const char *oid, const char *name, const char *client, const char
    *cookie);
/* Lists the holders of a lock; returns their number. */
ssize_t rados_list_lockers(rados_ioctx_t ioctx, const char *oid, const char *name, int *exclusive, char *tag,
    size_t *tag_len, char *clients, size_t *clients_len, char *cookies, size_t *cookies_len, char *addrs,
    size_t *addrs_len);

/* The cluster's log, as the monitors send it to clients that ask. */
/* Has the callback told of the cluster's log; NULL ends it. */
int rados_monitor_log(rados_t cluster, const char *level, rados_log_callback_t callback, void *arg);
/* Has the callback told of the cluster's log, with channels; NULL ends it. */
int rados_monitor_log2(rados_t cluster, const char *level, rados_log_callback2_t callback, void *arg);

/* Pools of a cluster. */
/* Lists the names; returns the room that they need. */
int rados_pool_list(rados_t cluster, char *to, size_t room);
/* Lists the placement groups of a pool that scrubs found inconsistent. */
int rados_inconsistent_pg_list(rados_t cluster, int64_t pool, char *to, size_t room);
/* Returns the id of a pool. */
int64_t rados_pool_lookup(rados_t cluster, const char *name);
/* Copies a pool's name. */
int rados_pool_reverse_lookup(rados_t cluster, int64_t id, char *to, size_t room);
/* Creates a pool. */
int rados_pool_create(rados_t cluster, const char *name);
/* Creates a pool; `auid` must be the default. */
int rados_pool_create_with_auid(rados_t cluster, const char *name, uint64_t auid);
/* Creates a pool with a CRUSH rule. */
int rados_pool_create_with_crush_rule(rados_t cluster, const char *name, uint8_t rule);
/* Creates a pool with a CRUSH rule; `auid` must be the default. */
int rados_pool_create_with_all(rados_t cluster, const char *name, uint64_t auid, uint8_t rule);
/* Removes a pool. */
int rados_pool_delete(rados_t cluster, const char *name);
/* Returns the pool that a cache pool is before; the pool itself without one. */
int rados_pool_get_base_tier(rados_t cluster, int64_t pool, int64_t *base);

/* Requests of several reads of one object, `rados_read_op_t`. */
/* Executes the request. */
int rados_read_op_operate(void *op, rados_ioctx_t ioctx, const char *oid, int flags);
/* Creates a request without operations. */
void *rados_create_read_op(void);
/* Frees a request. */
void rados_release_read_op(void *op);
/* Adds flags (`LIBRADOS_OP_FLAG_*`) to the operation added last. */
void rados_read_op_set_flags(void *op, int flags);
/* The object must exist. */
void rados_read_op_assert_exists(void *op);
/* The object must have this version. */
void rados_read_op_assert_version(void *op, uint64_t version);
/* The object must have this data. */
void rados_read_op_cmpext(void *op, const char *data, size_t len, uint64_t offset, int *result);
/* The attribute must compare so. */
void rados_read_op_cmpxattr(void *op, const char *name, uint8_t comparison, const char *value, size_t len);
/* The key's value must compare so. */
void rados_read_op_omap_cmp(void *op, const char *key, uint8_t comparison, const char *value, size_t len, int
    *result);
/* The key's value must compare so. */
void rados_read_op_omap_cmp2(void *op, const char *key, uint8_t comparison, const char *value, size_t key_len,
    size_t len, int *result);
/* Reads all attributes. */
void rados_read_op_getxattrs(void *op, void **iterator, int *result);
/* Reads size and time. */
void rados_read_op_stat(void *op, uint64_t *size, time_t *time, int *result);
/* Reads size and time. */
void rados_read_op_stat2(void *op, uint64_t *size, struct timespec *time, int *result);
/* Reads data into the caller's memory. */
void rados_read_op_read(void *op, uint64_t offset, size_t len, char *to, size_t *used, int *result);
/* Has the OSD compute checksums. */
void rados_read_op_checksum(void *op, int kind, const char *seed, size_t seed_len, uint64_t offset, size_t
    len, size_t chunk, char *to, size_t room, int *result);
/* Calls a method of an object class; the output is memory that the caller frees. */
void rados_read_op_exec(void *op, const char *class_name, const char *method, const char *input, size_t len,
    char **to, size_t *to_len, int *result);
/* Calls a method of an object class; the output goes to the caller's memory. */
void rados_read_op_exec_user_buf(void *op, const char *class_name, const char *method, const char *input,
    size_t len, char *to, size_t room, size_t *used, int *result);
/* Reads values of an omap. */
void rados_read_op_omap_get_vals(void *op, const char *after, const char *prefix, uint64_t max, void
    **iterator, int *result);
/* Reads values of an omap, and tells whether there are more. */
void rados_read_op_omap_get_vals2(void *op, const char *after, const char *prefix, uint64_t max, void
    **iterator, unsigned char *more, int *result);
/* Reads keys of an omap. */
void rados_read_op_omap_get_keys(void *op, const char *after, uint64_t max, void **iterator, int *result);
/* Reads keys of an omap, and tells whether there are more. */
void rados_read_op_omap_get_keys2(void *op, const char *after, uint64_t max, void **iterator, unsigned char
    *more, int *result);
/* Reads the values of these keys. */
void rados_read_op_omap_get_vals_by_keys(void *op, const char *const *names, size_t count, void **iterator,
    int *result);
/* Reads the values of these keys, which may have NULs. */
void rados_read_op_omap_get_vals_by_keys2(void *op, const char *const *names, size_t count, const size_t
    *lens, void **iterator, int *result);

/* Registration as a daemon of a service. */
/* Registers this client as a daemon; before the client is connected, it is kept until it is. */
int rados_service_register(rados_t cluster, const char *service, const char *daemon, const char *metadata);
/* Replaces the daemon's status. */
int rados_service_update_status(rados_t cluster, const char *status);

/* Snapshots of pools, and those that clients manage. */
/* Creates a snapshot of all objects of the pool. */
int rados_ioctx_snap_create(rados_ioctx_t ioctx, const char *name);
/* Removes a snapshot of the pool. */
int rados_ioctx_snap_remove(rados_ioctx_t ioctx, const char *name);
/* Restores an object's state at a snapshot of the pool. */
int rados_ioctx_snap_rollback(rados_ioctx_t ioctx, const char *oid, const char *name);
/* Lists the ids of the pool's snapshots; returns their number. */
int rados_ioctx_snap_list(rados_ioctx_t ioctx, uint64_t *to, int room);
/* Returns a snapshot's id. */
int rados_ioctx_snap_lookup(rados_ioctx_t ioctx, const char *name, uint64_t *id);
/* Copies a snapshot's name. */
int rados_ioctx_snap_get_name(rados_ioctx_t ioctx, uint64_t id, char *to, int room);
/* Returns when a snapshot was taken. */
int rados_ioctx_snap_get_stamp(rados_ioctx_t ioctx, uint64_t id, time_t *time);
/* Allocates the id of a snapshot. */
int rados_ioctx_selfmanaged_snap_create(rados_ioctx_t ioctx, uint64_t *id);
/* Removes a snapshot that clients manage. */
int rados_ioctx_selfmanaged_snap_remove(rados_ioctx_t ioctx, uint64_t id);
/* Sets the snapshots that writes preserve from now on, newest first. */
int rados_ioctx_selfmanaged_snap_set_write_ctx(rados_ioctx_t ioctx, uint64_t seq, uint64_t *ids, int count);
/* Reads see this snapshot from now on; 0 and `LIBRADOS_SNAP_HEAD` are the current state. */
void rados_ioctx_snap_set_read(rados_ioctx_t ioctx, uint64_t id);

/* Watching objects, and notifying their watchers. */
/* Watches an object; the library acknowledges notifications. */
int rados_watch(rados_ioctx_t ioctx, const char *oid, uint64_t version, uint64_t *cookie, rados_watchcb_t
    callback, void *arg);
/* Watches an object. */
int rados_watch2(rados_ioctx_t ioctx, const char *oid, uint64_t *cookie, rados_watchcb2_t callback,
    rados_watcherrcb_t error, void *arg);
/* Watches an object, which the OSD forgets after so many seconds of silence. */
int rados_watch3(rados_ioctx_t ioctx, const char *oid, uint64_t *cookie, rados_watchcb2_t callback,
    rados_watcherrcb_t error, uint32_t timeout_s, void *arg);
/* Watches an object asynchronously. */
int rados_aio_watch(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, uint64_t *cookie,
    rados_watchcb2_t callback, rados_watcherrcb_t error, void *arg);
/* Watches an object asynchronously, with a timeout. */
int rados_aio_watch2(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, uint64_t *cookie,
    rados_watchcb2_t callback, rados_watcherrcb_t error, uint32_t timeout_s, void *arg);
/* Milliseconds since the watch was confirmed, or why it is broken. */
int rados_watch_check(rados_ioctx_t ioctx, uint64_t cookie);
/* Ends a watch. */
int rados_unwatch(rados_ioctx_t ioctx, const char *oid, uint64_t cookie);
/* Ends a watch. */
int rados_unwatch2(rados_ioctx_t ioctx, uint64_t cookie);
/* Ends a watch asynchronously. */
int rados_aio_unwatch(rados_ioctx_t ioctx, uint64_t cookie, rados_completion_t completion);
/* Notifies watchers and waits for their answers. */
int rados_notify(rados_ioctx_t ioctx, const char *oid, uint64_t version, const char *data, int len);
/* Notifies watchers, waits for their answers and gives them, allocated. */
int rados_notify2(rados_ioctx_t ioctx, const char *oid, const char *data, int len, uint64_t timeout_ms, char
    **reply, size_t *reply_len);
/* Notifies watchers asynchronously. */
int rados_aio_notify(rados_ioctx_t ioctx, const char *oid, rados_completion_t completion, const char *data,
    int len, uint64_t timeout_ms, char **reply, size_t *reply_len);
/* Takes the answers to a notification apart. */
int rados_decode_notify_response(char *reply, size_t len, struct notify_ack_t **acks, size_t *acks_len, struct
    notify_timeout_t **timeouts, size_t *timeouts_len);
/* Acknowledges a notification. */
int rados_notify_ack(rados_ioctx_t ioctx, const char *oid, uint64_t notify, uint64_t cookie, const char *data,
    int len);
/* Waits until the callbacks of notifications that came before have returned. */
int rados_watch_flush(rados_t cluster);
/* Completes when the callbacks of notifications that came before have returned. */
int rados_aio_watch_flush(rados_t cluster, rados_completion_t completion);
/* Frees what `rados_decode_notify_response` gave. */
void rados_free_notify_response(struct notify_ack_t *acks, size_t count, struct notify_timeout_t *timeouts);

/* Requests of several changes to one object, `rados_write_op_t`. */
/* Executes the request; `mtime` is in seconds, NULL is now. */
int rados_write_op_operate(void *op, rados_ioctx_t ioctx, const char *oid, time_t *mtime, int flags);
/* Executes the request; `mtime` NULL is now. */
int rados_write_op_operate2(void *op, rados_ioctx_t ioctx, const char *oid, struct timespec *mtime, int
    flags);
/* Creates a request without operations. */
void *rados_create_write_op(void);
/* Frees a request. */
void rados_release_write_op(void *op);
/* Adds flags (`LIBRADOS_OP_FLAG_*`) to the operation added last. */
void rados_write_op_set_flags(void *op, int flags);
/* The object must exist. */
void rados_write_op_assert_exists(void *op);
/* The object must have this version. */
void rados_write_op_assert_version(void *op, uint64_t version);
/* The object must have this data. */
void rados_write_op_cmpext(void *op, const char *data, size_t len, uint64_t offset, int *result);
/* The attribute must compare so. */
void rados_write_op_cmpxattr(void *op, const char *name, uint8_t comparison, const char *value, size_t len);
/* The key's value must compare so. */
void rados_write_op_omap_cmp(void *op, const char *key, uint8_t comparison, const char *value, size_t len, int
    *result);
/* The key's value must compare so. */
void rados_write_op_omap_cmp2(void *op, const char *key, uint8_t comparison, const char *value, size_t
    key_len, size_t len, int *result);
/* Sets an attribute. */
void rados_write_op_setxattr(void *op, const char *name, const char *value, size_t len);
/* Removes an attribute. */
void rados_write_op_rmxattr(void *op, const char *name);
/* Creates the object; the category is not used. */
void rados_write_op_create(void *op, int exclusive, const char *category);
/* Writes data. */
void rados_write_op_write(void *op, const char *data, size_t len, uint64_t offset);
/* Replaces the object's data. */
void rados_write_op_write_full(void *op, const char *data, size_t len);
/* Writes a pattern repeatedly. */
void rados_write_op_writesame(void *op, const char *data, size_t data_len, size_t len, uint64_t offset);
/* Appends data. */
void rados_write_op_append(void *op, const char *data, size_t len);
/* Removes the object. */
void rados_write_op_remove(void *op);
/* Sets the object's size. */
void rados_write_op_truncate(void *op, uint64_t size);
/* Zeroes a range. */
void rados_write_op_zero(void *op, uint64_t offset, uint64_t len);
/* Calls a method of an object class. */
void rados_write_op_exec(void *op, const char *class_name, const char *method, const char *input, size_t len,
    int *result);
/* Sets values of an omap. */
void rados_write_op_omap_set(void *op, const char *const *names, const char *const *values, const size_t
    *lens, size_t count);
/* Sets values of an omap; keys may have NULs. */
void rados_write_op_omap_set2(void *op, const char *const *names, const char *const *values, const size_t
    *key_lens, const size_t *value_lens, size_t count);
/* Removes keys of an omap. */
void rados_write_op_omap_rm_keys(void *op, const char *const *names, size_t count);
/* Removes keys of an omap; they may have NULs. */
void rados_write_op_omap_rm_keys2(void *op, const char *const *names, const size_t *lens, size_t count);
/* Removes the keys from one to before another. */
void rados_write_op_omap_rm_range2(void *op, const char *from, size_t from_len, const char *until, size_t
    until_len);
/* Removes all keys and the header. */
void rados_write_op_omap_clear(void *op);
/* Hints at sizes. */
void rados_write_op_set_alloc_hint(void *op, uint64_t object_size, uint64_t write_size);
/* Hints at sizes, and at how the object is used. */
void rados_write_op_set_alloc_hint2(void *op, uint64_t object_size, uint64_t write_size, uint32_t flags);

/* Synchronous operations on an object's extended attributes. */
/* Copies an attribute's value; returns its length. */
int rados_getxattr(rados_ioctx_t ioctx, const char *oid, const char *name, char *to, size_t room);
/* Sets an attribute. */
int rados_setxattr(rados_ioctx_t ioctx, const char *oid, const char *name, const char *value, size_t len);
/* Removes an attribute. */
int rados_rmxattr(rados_ioctx_t ioctx, const char *oid, const char *name);
/* Begins to iterate over an object's attributes. */
int rados_getxattrs(rados_ioctx_t ioctx, const char *oid, void **iterator);

/* More. */
int rados_ioctx_pool_stat(rados_ioctx_t ioctx, struct rados_pool_stat_t *stat);

#ifdef __cplusplus
}
#endif

#endif
