/* profile.h - time of each dispatch of a sequence, by timestamps that its command buffers write. */
#ifndef QCC_PROFILE_H
#define QCC_PROFILE_H
#include "device.h"

/* Timestamps of one sequence: one before the first dispatch and one behind each. */
typedef struct {
    VkQueryPool pool; /* null: not profiled */
    uint32_t n;       /* of dispatches */
    uint64_t *ticks;  /* [n + 1], of the latest run */
    double *us;       /* [n] sums over all runs that were added */
    uint32_t runs;
} Profile;

/* For a sequence that is not recorded yet. Fails where the device's queue has no timestamps. */
bool profile_init(Profile *p, const Device *d, const PlanSequence *q);
void profile_finish(Profile *p, const Device *d); /* accepts half-built */
/* Adds the latest run, which has finished. */
bool profile_add(Profile *p, const Device *d);
void profile_clear(Profile *p);
/* A table: operations of the same name in different layers are one line. */
bool profile_print(const Profile *p, const Plan *made, const PlanSequence *q);
#endif
