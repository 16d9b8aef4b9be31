/* load_frame.h - the steps of reading a frame, shared by load.c and load_weights.c. */
#ifndef QCC_LOAD_FRAME_H
#define QCC_LOAD_FRAME_H
#include "load.h"
#include <stddef.h>
#include <zstd.h>

bool load_pread(int fd, void *to, uint64_t bytes, uint64_t offset);
bool load_stored(const Payload *l, const PayloadFrame *f, void *to); /* reads, checks the hash */
bool load_unpack(ZSTD_DCtx *z, const PayloadFrame *f, const void *stored,
                 void *to); /* f->raw_bytes of `to` */
#endif
