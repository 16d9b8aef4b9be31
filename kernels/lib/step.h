/* step.h - words of the step block: the small device buffer that holds all that changes from token to token. Kernels
 * and host include it. Common subset of C and GLSL: only #defines. All words are 32-bit.
 *
 * A sequence of M rows processes positions POS .. POS + valid - 1, valid = min(M, END - POS), whose token ids stand in
 * the token buffer [n_ctx + 1] at the index of their position. Its last dispatch advances POS by `valid`; the sampler
 * also writes the id that it chose to tokens[POS + valid] and to the host-visible ring at the same index, and END grows to that
 * position + 1 (so that the next decode step finds its token, and valid is 1). */
#define STEP_POS 0            /* first position of this sequence */
#define STEP_END 1            /* positions whose token is known */
#define STEP_SEED_LO 2
#define STEP_SEED_HI 3
#define STEP_TEMPERATURE 4    /* f32; 0 = greedy: the largest logit, the lowest id on ties */
#define STEP_TOP_K 5          /* u32; 0 = off */
#define STEP_TOP_P 6          /* f32; 1 = off */
#define STEP_MIN_P 7          /* f32; 0 = off */
#define STEP_REPEAT_PENALTY 8 /* f32; 1 = off: positive logits are divided, negative ones multiplied */
#define STEP_REPEAT_LAST 9    /* u32; how many of the latest tokens are penalised */
#define STEP_WORDS 64
