/* balance.h - scales of columns for the formats that have them (q8_2f).
 *
 * A row of codes is as fine as its largest weight allows, and columns of large weights make it
 * coarse for the others. So columns are divided by scales before they are quantized, and what they
 * are multiplied by is multiplied by those instead. Matrices that stand in one part (q, k, v; gate
 * and up; all experts) have the same input and share their scales. */
#ifndef QCC_BALANCE_H
#define QCC_BALANCE_H
#include "fuse.h"

/* Reads the weights once, with n_threads threads, and fills `columns` of all tensors that have it.
 * Before anything asks for their rows. */
void balance_columns(Arena *a, const Program *p, uint32_t n_threads);
#endif
