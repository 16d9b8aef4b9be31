/* payload.h - layout of what follows the ELF image in the executable; written by compiler/pack.c,
 * read by runtime/load.c.
 *
 *   ELF | padding to 4096 | frames | index: PayloadFrame[n_frames] | PayloadFooter (the file's last
 * bytes) Little-endian. Hashes are XXH3-64 (seed 0). Offsets count from the start of the file. */
#ifndef QCC_PAYLOAD_H
#define QCC_PAYLOAD_H
#include <stdint.h>

enum { PAYLOAD_ALIGN = 4096, PAYLOAD_FRAME_MAX = 4 << 20 }; /* raw bytes of a weight frame */
#define PAYLOAD_MAGIC "QCCPAY01"

typedef enum {
    FRAME_WEIGHTS,  /* id: zone; target_offset: where in the zone. Frames do not overlap */
    FRAME_SPIRV,    /* id: kernel */
    FRAME_VOCAB,    /* the tokenizer's blob, runtime/token.h */
    FRAME_MANIFEST, /* JSON text: what `info` prints */
    FRAME_CHECK     /* check vectors: PayloadCheck, then token ids, then logits */
} FrameKind;
typedef enum { CODEC_STORED, CODEC_ZSTD } FrameCodec;

typedef struct {
    uint32_t kind, codec, id, reserved;
    uint64_t file_offset, stored_bytes, raw_bytes, target_offset;
    uint64_t hash; /* of the stored bytes */
} PayloadFrame;

typedef struct {
    char magic[8];
    uint64_t payload_offset, index_offset, n_frames;
    uint64_t index_hash;  /* of the index */
    uint64_t plan_hash;   /* equals plan.manifest_hash: this payload belongs to this program */
    uint64_t file_bytes;  /* whole file, this footer included */
    uint64_t footer_hash; /* of the footer before this field */
} PayloadFooter;

/* n_tokens u32 ids follow, then f32 logits [n_rows][n_vocab] of the last n_rows positions, by the
 * exact reference. */
typedef struct {
    uint32_t n_tokens, n_rows, n_vocab, reserved;
} PayloadCheck;
#endif
