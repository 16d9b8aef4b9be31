/* load.h - the payload (payload.h) behind the running executable, checked before use. */
#ifndef QCC_LOAD_H
#define QCC_LOAD_H
#include "device.h"
#include "payload.h"

typedef struct {
    bool opened;
    int fd;
    uint64_t n_frames;
    PayloadFrame *frames;
    PayloadFooter footer;
} Payload;

/* Opens /proc/self/exe, checks footer and index, and that the payload belongs to plan p. */
bool load_open(Payload *l, const Plan *p);
void load_close(Payload *l); /* accepts zeroed */

/* The frame of this kind and id (0 where a kind has no ids), or NULL. */
const PayloadFrame *load_find(const Payload *l, FrameKind kind, uint32_t id);
/* The frame's raw bytes, checked, malloc'ed (with a zero byte behind them). NULL: reported. */
uint8_t *load_read(const Payload *l, const PayloadFrame *f);

/* Reads, checks and unpacks all weight frames into their zones on several threads: straight into
 * mapped memory, else through a staging ring of fixed size. Shows progress on a terminal when it
 * takes long. */
bool load_weights(const Payload *l, const Device *d, const Plan *p, const Zone *zones);

uint64_t load_hash(const void *p, uint64_t bytes); /* XXH3-64 */
#endif
