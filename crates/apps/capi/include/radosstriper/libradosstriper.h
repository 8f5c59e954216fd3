/* libradosstriper: files striped over objects.
 *
 * Types of the interface as Loligo's library has them. */
#ifndef LOLIGO_LIBRADOSSTRIPER_H
#define LOLIGO_LIBRADOSSTRIPER_H

#include "../rados/librados.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LIBRADOSSTRIPER_VER_MAJOR 0
#define LIBRADOSSTRIPER_VER_MINOR 0
#define LIBRADOSSTRIPER_VER_EXTRA 0
#define LIBRADOSSTRIPER_VERSION(major, minor, extra) (((major) << 16) + ((minor) << 8) + (extra))
#define LIBRADOSSTRIPER_VERSION_CODE \
    LIBRADOSSTRIPER_VERSION(LIBRADOSSTRIPER_VER_MAJOR, LIBRADOSSTRIPER_VER_MINOR, LIBRADOSSTRIPER_VER_EXTRA)

typedef void *rados_striper_t;
typedef void *rados_striper_multi_completion_t;

/* Functions, by topic. */

/* Asynchronous operations on striped files. Their completions are those of librados. */
/* Writes. */
int rados_striper_aio_write(rados_striper_t striper, const char *file, rados_completion_t completion, const
    char *data, size_t len, uint64_t offset);
/* Writes at a file's end. */
int rados_striper_aio_append(rados_striper_t striper, const char *file, rados_completion_t completion, const
    char *data, size_t len);
/* Replaces a file's data. */
int rados_striper_aio_write_full(rados_striper_t striper, const char *file, rados_completion_t completion,
    const char *data, size_t len);
/* Removes a file. */
int rados_striper_aio_remove(rados_striper_t striper, const char *file, rados_completion_t completion);
/* Reads; the value is how many bytes. */
int rados_striper_aio_read(rados_striper_t striper, const char *file, rados_completion_t completion, char *to,
    size_t len, uint64_t offset);
/* Reads size and time, in seconds. */
int rados_striper_aio_stat(rados_striper_t striper, const char *file, rados_completion_t completion, uint64_t
    *size, time_t *time);
/* Reads size and time. */
int rados_striper_aio_stat2(rados_striper_t striper, const char *file, rados_completion_t completion, uint64_t
    *size, struct timespec *time);

/* Completions of several requests, `rados_striper_multi_completion_t`. libradosstriper uses them for */
/* Creates a completion with callbacks: `complete` is called first, then `safe`. */
int rados_striper_multi_aio_create_completion(void *arg, rados_callback_t complete, rados_callback_t safe,
    void **to);
/* Whether the operation is complete. */
int rados_striper_multi_aio_is_complete(rados_completion_t completion);
/* As `rados_striper_multi_aio_is_complete`. */
int rados_striper_multi_aio_is_safe(rados_completion_t completion);
/* Whether the operation is complete and its callbacks have returned. */
int rados_striper_multi_aio_is_complete_and_cb(rados_completion_t completion);
/* As `rados_striper_multi_aio_is_complete_and_cb`. */
int rados_striper_multi_aio_is_safe_and_cb(rados_completion_t completion);
/* The operation's result. */
int rados_striper_multi_aio_get_return_value(rados_completion_t completion);
/* Waits until the operation is complete. */
void rados_striper_multi_aio_wait_for_complete(rados_completion_t completion);
/* As `rados_striper_multi_aio_wait_for_complete`. */
void rados_striper_multi_aio_wait_for_safe(rados_completion_t completion);
/* Waits until the operation is complete and its callbacks have returned. */
void rados_striper_multi_aio_wait_for_complete_and_cb(rados_completion_t completion);
/* As `rados_striper_multi_aio_wait_for_complete_and_cb`. */
void rados_striper_multi_aio_wait_for_safe_and_cb(rados_completion_t completion);
/* Gives the completion back; the operation goes on. */
void rados_striper_multi_aio_release(rados_completion_t completion);

/* The handle of the striped files of a pool, `rados_striper_t`. */
/* Creates a handle; the pool's may be destroyed before it. */
int rados_striper_create(rados_ioctx_t ioctx, rados_striper_t *striper);
/* Sets the stripe unit of new files. */
int rados_striper_set_object_layout_stripe_unit(rados_striper_t striper, unsigned int bytes);
/* Sets over how many objects new files are striped. */
int rados_striper_set_object_layout_stripe_count(rados_striper_t striper, unsigned int count);
/* Sets the size of new files' objects, a multiple of the stripe unit. */
int rados_striper_set_object_layout_object_size(rados_striper_t striper, unsigned int bytes);
/* Frees the handle. Operations under way go on. */
void rados_striper_destroy(rados_striper_t striper);
/* Waits for the writes that were submitted before, and for their callbacks. */
void rados_striper_aio_flush(rados_striper_t striper);

/* Synchronous operations on striped files, and what the asynchronous ones do. */
/* Writes. */
int rados_striper_write(rados_striper_t striper, const char *file, const char *data, size_t len, uint64_t
    offset);
/* Replaces a file's data. */
int rados_striper_write_full(rados_striper_t striper, const char *file, const char *data, size_t len);
/* Writes at a file's end. */
int rados_striper_append(rados_striper_t striper, const char *file, const char *data, size_t len);
/* Reads; returns how many bytes. */
int rados_striper_read(rados_striper_t striper, const char *file, char *to, size_t len, uint64_t offset);
/* Removes a file; EBUSY while another client has it open. */
int rados_striper_remove(rados_striper_t striper, const char *file);
/* Sets a file's size; EBUSY while another client has it open. */
int rados_striper_trunc(rados_striper_t striper, const char *file, uint64_t size);
/* Size and time of the last change of a file, in seconds. */
int rados_striper_stat(rados_striper_t striper, const char *file, uint64_t *size, time_t *time);
/* Size and time of the last change of a file. */
int rados_striper_stat2(rados_striper_t striper, const char *file, uint64_t *size, struct timespec *time);

/* Attributes of striped files. As in libradosstriper, they are those of the first object, whether it is */
/* Copies an attribute's value; returns its length. */
int rados_striper_getxattr(rados_striper_t striper, const char *file, const char *name, char *to, size_t
    room);
/* Sets an attribute. */
int rados_striper_setxattr(rados_striper_t striper, const char *file, const char *name, const char *value,
    size_t len);
/* Removes an attribute. */
int rados_striper_rmxattr(rados_striper_t striper, const char *file, const char *name);
/* Begins to iterate over a file's attributes, without those that describe it. */
int rados_striper_getxattrs(rados_striper_t striper, const char *file, void **iterator);
/* Gives the next attribute; NULL at the end. */
int rados_striper_getxattrs_next(void *iterator, const char **name, const char **value, size_t *len);
/* Ends an iterator over attributes. */
void rados_striper_getxattrs_end(void *iterator);

#ifdef __cplusplus
}
#endif

#endif
