/* fake_model.h - a "language model" that is small enough to be written by hand, for the runtime's
 * own tests. In the common subset of C and GLSL: #defines only.
 *
 * The state of a position depends on the one before, on the token and on two weight arrays; the
 * logits are highest at the state. Whatever order or chunks tokens are processed in, one wrong byte
 * anywhere changes what follows. */
#define FAKE_VOCAB 64u
#define FAKE_CTX 96u
#define FAKE_BIG 3000000u /* words of the large weight array: three frames */
#define FAKE_BIG_INDEX(p, token) (((p) * 7919u + (token) * 104729u) % FAKE_BIG)
#define FAKE_STATE(before, token, w, big) (((before) * 3u + (token) + (w) + (big)) % FAKE_VOCAB)
#define FAKE_DISTANCE(v, state) (((v) + FAKE_VOCAB - (state)) % FAKE_VOCAB)
#define FAKE_LOGIT(distance, bias) (4.0f - 0.25f * float(distance) + (bias))
/* with a temperature, the seed moves the choice: the step block reaches the kernels */
#define FAKE_CHOICE(best, temperature, seed, p)                                                    \
    ((temperature) > 0.0f ? ((best) + (seed) + (p)) % FAKE_VOCAB : (best))
