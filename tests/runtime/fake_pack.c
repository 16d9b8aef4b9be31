/* fake_pack.c - the fake model's payload and its expected output.
 *
 *   fake_pack pack ELF OUT SPIRV...   appends frames to ELF; prints "KIND ID OFFSET BYTES" of each,
 * and of index and footer fake_pack ids N SEED < ids        the N ids that follow; SEED > 0: with a
 * temperature fake_pack logits < ids            float32 logits of every position */
#define XXH_INLINE_ALL
#define float(x) (float)(x)
#include "fake_model.h"
#undef float
#include "../../runtime/payload.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>
#include <zstd.h>
#define float(x) (float)(x)

enum { MAX_FRAMES = 64, VOCAB = 64, CTX = 96 };
static uint32_t w[VOCAB], big[FAKE_BIG];
static float bias[VOCAB];

static void model_fill(void) {
    for (uint32_t i = 0; i < VOCAB; i++) w[i] = i * 37 % 61, bias[i] = 0.001f * (float)(i % 7);
    /* the last two thirds do not compress */
    for (uint32_t i = 0; i < FAKE_BIG; i++)
        big[i] = i < FAKE_BIG / 3 ? i % 50 : (i * 2654435761u) ^ (i * i >> 7);
}
static uint32_t model_state(uint32_t p, uint32_t before, uint32_t token) {
    return FAKE_STATE(before, token, w[token], big[FAKE_BIG_INDEX(p, token)]);
}
static void model_logits(uint32_t state, float *x) {
    for (uint32_t v = 0; v < VOCAB; v++) x[v] = FAKE_LOGIT(FAKE_DISTANCE(v, state), bias[v]);
}

static FILE *out;
static uint64_t at;
static PayloadFrame frames[MAX_FRAMES];
static uint64_t n_frames;

static void put(const void *p, uint64_t n) {
    if (n && fwrite(p, 1, n, out) != n) exit(1);
    at += n;
}

static void frame(uint32_t kind, uint32_t id, uint64_t target, const void *p, uint64_t bytes) {
    size_t bound = ZSTD_compressBound(bytes);
    void *z = malloc(bound);
    size_t n = ZSTD_compress(z, bound, p, bytes, 3);
    PayloadFrame f = {.kind = kind,
                      .id = id,
                      .target_offset = target,
                      .raw_bytes = bytes,
                      .file_offset = at,
                      .stored_bytes = bytes};
    if (n < bytes - bytes / 100) f.codec = CODEC_ZSTD, f.stored_bytes = n;
    f.hash = XXH3_64bits(f.codec ? z : p, f.stored_bytes);
    printf("%u %u %llu %llu %s\n", kind, id, (unsigned long long)at,
           (unsigned long long)f.stored_bytes, f.codec ? "zstd" : "stored");
    put(f.codec ? z : p, f.stored_bytes);
    frames[n_frames++] = f;
    free(z);
}

static void *slurp(const char *path, uint64_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) exit(1);
    fseek(f, 0, SEEK_END);
    *n = (uint64_t)ftell(f);
    rewind(f);
    void *p = malloc(*n + 1);
    if (fread(p, 1, *n, f) != *n) exit(1);
    fclose(f);
    return p;
}

static void check_frame(void) {
    enum { TOKENS = 30, ROWS = 11 };
    struct {
        PayloadCheck h;
        uint32_t ids[TOKENS];
        float logits[ROWS][VOCAB];
    } c = {{TOKENS, ROWS, VOCAB, 0}, {0}, {{0}}};
    uint32_t state = 1;
    for (uint32_t i = 0; i < TOKENS; i++) {
        c.ids[i] = i * 29 % VOCAB;
        state = model_state(i, state, c.ids[i]);
        if (i >= TOKENS - ROWS) model_logits(state, c.logits[i - (TOKENS - ROWS)]);
    }
    frame(FRAME_CHECK, 0, 0, &c, sizeof c);
}

static int pack(int argc, char **argv) {
    static const char manifest[] = "{\n \"qcc\": \"test\",\n \"model\": {\"name\": \"fake\", "
                                   "\"layers\": 1},\n \"accuracy\": \"exact\",\n"
                                   " \"chunks\": [4, 16],\n \"kernels\": [\n  {\"name\": \"a "
                                   "\\\"b\\\"\", \"bytes\": 4},\n  {\"name\": \"c\"}\n ]\n}\n";
    uint64_t n, frame_words = PAYLOAD_FRAME_MAX / 4;
    out = fopen(argv[3], "wb");
    if (!out) return 1;
    void *elf = slurp(argv[2], &n);
    put(elf, n);
    free(elf);
    while (at % PAYLOAD_ALIGN) put("", 1);
    PayloadFooter f = {.magic = "", .payload_offset = at, .plan_hash = 0x1234567890abcdefu};
    memcpy(f.magic, PAYLOAD_MAGIC, 8);
    frame(FRAME_MANIFEST, 0, 0, manifest, sizeof manifest - 1);
    for (int i = 4; i < argc; i++) {
        void *spirv = slurp(argv[i], &n);
        frame(FRAME_SPIRV, (uint32_t)(i - 4), 0, spirv, n);
        free(spirv);
    }
    frame(FRAME_WEIGHTS, 1, 0, w, sizeof w);
    frame(FRAME_WEIGHTS, 2, 0, bias, sizeof bias);
    for (uint64_t i = 0; i < FAKE_BIG; i += frame_words)
        frame(FRAME_WEIGHTS, 1, 256 + 4 * i, big + i,
              4 * (FAKE_BIG - i < frame_words ? FAKE_BIG - i : frame_words));
    check_frame();
    f.index_offset = at;
    f.n_frames = n_frames;
    f.index_hash = XXH3_64bits(frames, n_frames * sizeof *frames);
    printf("index 0 %llu %llu\n", (unsigned long long)at,
           (unsigned long long)(n_frames * sizeof *frames));
    put(frames, n_frames * sizeof *frames);
    f.file_bytes = at + sizeof f;
    f.footer_hash = XXH3_64bits(&f, sizeof f - 8);
    printf("footer 0 %llu %llu\n", (unsigned long long)at, (unsigned long long)sizeof f);
    put(&f, sizeof f);
    return fclose(out) == 0 && chmod(argv[3], 0755) == 0 ? 0 : 1;
}

static int follow(uint32_t most, uint32_t seed) {
    uint32_t p = 0, state = 1, id;
    float x[VOCAB];
    while (scanf("%u", &id) == 1) state = model_state(p++, state, id);
    for (uint32_t i = 0; i < most; i++) {
        uint32_t best = 0;
        model_logits(state, x);
        for (uint32_t v = 1; v < VOCAB; v++)
            if (x[v] > x[best]) best = v;
        id = FAKE_CHOICE(best, seed ? 1.0f : 0.0f, seed, p);
        printf(i ? " %u" : "%u", id);
        if (p < CTX) state = model_state(p, state, id);
        p++;
    }
    putchar('\n');
    return 0;
}

int main(int argc, char **argv) {
    model_fill();
    if (argc > 4 && strcmp(argv[1], "pack") == 0) return pack(argc, argv);
    if (argc > 3 && strcmp(argv[1], "ids") == 0)
        return follow((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
    if (argc < 2 || strcmp(argv[1], "logits") != 0) return 2;
    uint32_t id, p = 0, state = 1;
    for (float x[VOCAB]; scanf("%u", &id) == 1; fwrite(x, sizeof x, 1, stdout))
        model_logits(state = model_state(p++, state, id), x);
    return 0;
}
