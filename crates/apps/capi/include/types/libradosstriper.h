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
