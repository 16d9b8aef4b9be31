// fake.comp - the kernels of the fake model; KERNEL picks one, M is the number of rows.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "fake_model.h"
#include "../../kernels/lib/step.h"
layout(local_size_x = 64) in;
layout(binding = 0) buffer Step { uint step[]; };
uint valid() { return min(uint(M), step[STEP_END] - step[STEP_POS]); }

#if KERNEL == 0 // state
layout(binding = 1) readonly buffer Tokens { uint tokens[]; };
layout(binding = 2) readonly buffer W { uint w[]; };
layout(binding = 3) readonly buffer Big { uint big[]; };
layout(binding = 4) buffer State { uint state[]; };
void main() {
    if (gl_GlobalInvocationID.x != 0) return;
    for (uint p = step[STEP_POS], end = p + valid(); p < end; p++) {
        uint before = p > 0 ? state[p - 1] : 1, token = tokens[p];
        state[p] = FAKE_STATE(before, token, w[token], big[FAKE_BIG_INDEX(p, token)]);
    }
}
#elif KERNEL == 1 || KERNEL == 2 // logits of all rows; of the last valid one
layout(binding = 1) readonly buffer State { uint state[]; };
layout(binding = 2) readonly buffer Bias { float bias[]; };
layout(binding = 3) writeonly buffer Logits { float logits[]; };
void main() {
    uint v = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    uint from = KERNEL == 1 ? row : valid() - 1;
    uint s = from < valid() ? state[step[STEP_POS] + from] : 0;
    logits[row * FAKE_VOCAB + v] = FAKE_LOGIT(FAKE_DISTANCE(v, s), bias[v]);
}
#elif KERNEL == 3 // sample, and advance
layout(binding = 1) buffer Tokens { uint tokens[]; };
layout(binding = 2) writeonly buffer Ring { uint ring[]; };
layout(binding = 3) readonly buffer Logits { float logits[]; };
void main() {
    if (gl_GlobalInvocationID.x != 0) return;
    uint best = 0, at = step[STEP_POS] + valid();
    for (uint v = 1; v < FAKE_VOCAB; v++)
        if (logits[v] > logits[best]) best = v;
    uint id = FAKE_CHOICE(best, uintBitsToFloat(step[STEP_TEMPERATURE]), step[STEP_SEED_LO], at);
    tokens[at] = id;
    ring[at] = id;
    step[STEP_POS] = at;
    step[STEP_END] = at + 1;
}
#else // advance
void main() {
    if (gl_GlobalInvocationID.x == 0) step[STEP_POS] += valid();
}
#endif
