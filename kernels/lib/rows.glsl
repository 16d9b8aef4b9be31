// The step block, and how many rows of this sequence count. STEP_ACCESS: `readonly`, or empty for those that write it.
#include "lib/step.h"
layout(std430, set = 0, binding = BIND_step) STEP_ACCESS buffer Step { layout(offset = AT_step) uint step_word[STEP_WORDS]; };

// min(M, END - POS); of a sequence that starts behind the last known token, none.
uint rows_valid() {
    uint pos = step_word[STEP_POS], end = step_word[STEP_END];
    return min(M, end - min(pos, end));
}
// The same where the context ends: what lies behind it must not be written.
uint rows_within(uint limit) { return min(rows_valid(), limit - min(step_word[STEP_POS], limit)); }
