/* weights.h - the format in which a matrix is stored: the file's, or the one that --weights chose
 * for it.
 *
 * A matrix of plain numbers (F32, F16, BF16) can be stored in one of qcc's own formats. It is
 * quantized row by row whenever a row is asked for, so that memory does not grow with the model;
 * everything downstream, the reference included, sees the quantized weights only. Rows are counted
 * over all dimensions but the first. */
#ifndef QCC_WEIGHTS_H
#define QCC_WEIGHTS_H
#include "format.h"
#include "gguf.h"

/* Applies rules "FORMAT" or "PATTERN=FORMAT", separated by commas, to the matrices of the model. A
 * pattern is a glob on tensor names; FORMAT alone means every matrix; "keep" leaves it as the file
 * has it; the last rule that fits counts. Routers of experts stay as they are unless a pattern
 * names them. A format with outliers takes their share of a row: "q1t:2.5%". Fails (usage) on an
 * unknown format and on a pattern that fits no matrix; notes what is left alone since it is
 * quantized already, its rows are no multiple of the format's block or too long for outliers. */
void weights_choose(Arena *a, Gguf *g, const char *rules);

/* NULL: the file's type is unknown to this qcc. */
const Format *weights_format(const GgufTensor *t);
uint64_t weights_row_bytes(const GgufTensor *t);
/* Bytes that weights_row needs; 0 where the file's bytes serve as they are. */
size_t weights_scratch_bytes(const GgufTensor *t);
/* Blocks of one row, in the file or in scratch (aligned for float). */
const uint8_t *weights_row(const GgufTensor *t, uint64_t row, void *scratch);
/* The weights themselves. */
void weights_values(const GgufTensor *t, uint64_t row, void *scratch, float *out);
#endif
