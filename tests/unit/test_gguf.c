/* The GGUF reader: what it reads, every refusal with its exact words, printing, faults. */
#define _POSIX_C_SOURCE 200809L
#include "gguf_writer.h"
#include "check.h"
#include <dirent.h>
#include <sys/stat.h>

#define NE(...) ((uint64_t[]){__VA_ARGS__})
#define DAMAGED "; the file is damaged or made by a broken converter"

/* Parses an exact heap copy, so that the address sanitizer sees every byte too many. The result is
 * checked and printed; returns false and the message if it fails. */
static bool parse(Bytes file, FailTrap *t) {
    uint8_t *volatile copy = malloc(file.n ? file.n : 1);
    Arena *volatile a = NULL;
    volatile bool good = false;
    if (file.n) memcpy(copy, file.p, file.n);
    if (!fail_catch(t)) {
        a = arena_create();
        Gguf *g = gguf_parse(a, "t.gguf", (Bytes){copy, file.n});
        Text out = {.arena = a};
        gguf_print(g, &out);
        for (size_t i = 0; i < g->n_tensors; i++) gguf_check_data(g, &g->tensors[i]);
        good = true;
        fail_pop(t);
    }
    arena_destroy(a);
    free(copy);
    return good;
}

static void expect(Bytes file, const char *message) {
    FailTrap t;
    bool good = parse(file, &t);
    CHECK(!good, "not refused: %s", message);
    if (good) return;
    CHECK(t.kind == FAIL_USER, "kind %d: %s", (int)t.kind, message);
    CHECK(!strcmp(t.message, message), "\n  expected %s\n  found    %s", message, t.message);
}

/* A good file with one of everything. */
static void build_good(GgufWriter *w) {
    gw_string(w, "general.architecture", "llama");
    gw_int(w, "u8", GGUF_U8, 200);
    gw_int(w, "i8", GGUF_I8, -5);
    gw_int(w, "u16", GGUF_U16, 60000);
    gw_int(w, "i16", GGUF_I16, -300);
    gw_u32(w, "u32", 4000000000u);
    gw_int(w, "i32", GGUF_I32, -70000);
    gw_f32(w, "f32", 1e-5f);
    gw_bool(w, "yes", true);
    gw_int(w, "odd_bool", GGUF_BOOL, 7);
    gw_int(w, "u64", GGUF_U64, -1);
    gw_int(w, "i64", GGUF_I64, -5000000000);
    gw_f64(w, "f64", 0.1);
    gw_strings(w, "words", 3, (const char *[]){"a", "", "\xff\n\xe2\x96\x81x"});
    gw_array(w, "numbers", GGUF_I32, 3, (int32_t[]){1, -2, 3}, 12);
    gw_array(w, "nothing", GGUF_STRING, 0, NULL, 0);
    gw_tensor(w, "blk.0.w", 12, 2, NE(512, 3), NULL, 2 * 144 * 3);
    gw_tensor(w, "norm", 0, 1, NE(5), (float[]){1, 2, 3, 4, 5}, 20);
    gw_tensor(w, "experts", 8, 4, NE(32, 2, 3, 2), NULL, 34 * 12);
}

static void test_read(uint32_t version, uint32_t alignment) {
    GgufWriter w = {.version = version, .alignment = alignment};
    build_good(&w);
    if (alignment) gw_u32(&w, "general.alignment", alignment);
    Bytes file = gw_finish(&w);
    Arena *a = arena_create();
    Gguf *g = gguf_parse(a, "t.gguf", file);
    CHECK(g->version == version && g->alignment == (alignment ? alignment : 32), "%u %u",
          g->version, g->alignment);
    CHECK(g->n_tensors == 3 && g->n_parts == 1 && g->file_bytes == file.n, "%zu", g->n_tensors);
    CHECK(gguf_uint(g, "u8", 0) == 200 && gguf_uint(g, "u16", 0) == 60000 &&
              gguf_uint(g, "u32", 0) == 4000000000u,
          "uint");
    CHECK(gguf_uint(g, "u64", 0) == UINT64_MAX && gguf_uint(g, "absent", 77) == 77, "uint");
    CHECK(gguf_number(gguf_find(g, "i8"), 0) == -5 && gguf_number(gguf_find(g, "i16"), 0) == -300,
          "small");
    CHECK(gguf_number(gguf_find(g, "i32"), 0) == -70000 &&
              gguf_number(gguf_find(g, "i64"), 0) == -5e9,
          "signed");
    CHECK(gguf_float(g, "f32", 0) == (double)1e-5f && gguf_float(g, "f64", 0) == 0.1, "float");
    CHECK(gguf_float(g, "u8", 0) == 200 && gguf_float(g, "absent", 0.5) == 0.5,
          "float of int, absent");
    CHECK(gguf_bool(g, "yes", false) && gguf_bool(g, "odd_bool", false) &&
              gguf_bool(g, "absent", true),
          "bool");
    GgufString s = gguf_string(g, "general.architecture", NULL),
               none = gguf_string(g, "absent", "x");
    CHECK(s.n == 5 && !memcmp(s.s, "llama", 5) && none.n == 1 && none.s[0] == 'x', "string");
    const GgufKv *words = gguf_find(g, "words"), *numbers = gguf_find(g, "numbers");
    CHECK(words->n == 3 && words->strings[2].n == 6 && words->strings[1].n == 0, "strings");
    CHECK(gguf_number(numbers, 1) == -2 && gguf_find(g, "nothing")->n == 0, "array");
    const GgufTensor *t = gguf_tensor(g, "norm"), *e = gguf_tensor(g, "experts");
    float two;
    memcpy(&two, t->data + 4, 4);
    CHECK(two == 2 && t->bytes == 20 && t->n_dims == 1 && t->ne[1] == 1, "tensor data");
    CHECK(e->n_dims == 4 && e->ne[3] == 2 && e->bytes == 34 * 12 && !gguf_tensor(g, "nor"),
          "tensor shape");
    CHECK(gguf_tensor(g, "blk.0.w") == &g->tensors[0] && !gguf_find(g, "norm"), "find");
    arena_destroy(a);
    gw_free(&w);
}

/* ---- refusals of the header ------------------------------------------------------------------ */

static void test_header(void) {
    static const uint8_t lfs[] = "version https://git-lfs.github.com/spec/v1\n";
    expect((Bytes){lfs, 0}, "t.gguf: the file is empty; expected a GGUF model");
    expect((Bytes){lfs, sizeof lfs - 1},
           "t.gguf: this is a Git LFS pointer, not the model itself; fetch it with `git lfs pull`");
    expect((Bytes){(const uint8_t *)"PK\3\4xxxxxxxxxxxxxxxxxxxxxxxxxx", 30},
           "t.gguf: not a GGUF file: it starts with 'PK\\x03\\x04', expected 'GGUF'");
    expect((Bytes){(const uint8_t *)"GG", 2},
           "t.gguf: not a GGUF file: it starts with 'GG', expected 'GGUF'");
    expect((Bytes){(const uint8_t *)"GGUF\3\0\0\0", 8},
           "t.gguf: 8 bytes are too few for a GGUF header of 24; the file is truncated");
    static const struct {
        uint32_t version;
        const char *message;
    } versions[] = {
        {1,
         "t.gguf: GGUF version 1 is obsolete; qcc reads versions 2 and 3, convert the model again"},
        {4, "t.gguf: GGUF version 4 is unknown; qcc reads versions 2 and 3"},
        {0x03000000,
         "t.gguf: the file is big-endian; qcc reads little-endian GGUF only, convert it first"},
    };
    for (int i = 0; i < 3; i++) {
        GgufWriter w = {.version = versions[i].version};
        expect(gw_finish(&w), versions[i].message);
        gw_free(&w);
    }
    GgufWriter w = {0};
    Bytes zero = gw_finish(&w);
    memset(w.file.p + 4, 0, 4);
    expect(zero, "t.gguf: GGUF version 0 is unknown; qcc reads versions 2 and 3");
    gw_free(&w);
}

static void test_counts(void) {
    static const struct {
        uint64_t kv, tensors;
        const char *message;
    } lies[] = {
        {1, 0,
         "t.gguf: the header promises 1 metadata entries and 0 tensors, more than 0 bytes can "
         "hold; the file is truncated or damaged"},
        {0, 1,
         "t.gguf: the header promises 0 metadata entries and 1 tensors, more than 0 bytes can "
         "hold; the file is truncated or damaged"},
        {UINT64_MAX, UINT64_MAX,
         "t.gguf: the header promises 18446744073709551615 metadata entries and "
         "18446744073709551615 tensors, more than 0 bytes can hold; the file is truncated or "
         "damaged"},
    };
    for (int i = 0; i < 3; i++) {
        GgufWriter w = {.more_kv = lies[i].kv, .more_tensors = lies[i].tensors};
        expect(gw_finish(&w), lies[i].message);
        gw_free(&w);
    }
}

/* ---- refusals of metadata and tensors -------------------------------------------------------- */

static void long_string(GgufWriter *w) {
    gw_string(w, "a", "b");
    memset(w->kv.p + w->kv.n - 9, 0xff, 8);
}
static void long_key(GgufWriter *w) {
    gw_string(w, "a", "b");
    memset(w->kv.p, 0x7f, 8);
}
static void empty_key(GgufWriter *w) { gw_u32(w, "ok", 1), gw_u32(w, "", 1); }
static void nul_key(GgufWriter *w) {
    gw_raw_key(w, "a\0b", 3, GGUF_U32);
    gw_put_int(&w->kv, 1, 4);
}
static void same_key(GgufWriter *w) {
    gw_u32(w, "same", 1), gw_u32(w, "other", 1), gw_u32(w, "same", 2);
}
static void value_type(GgufWriter *w) {
    gw_raw_key(w, "k\n", 2, 13);
    gw_put_int(&w->kv, 1, 4);
}
static void element_type(GgufWriter *w) { gw_array(w, "k", (GgufType)13, 0, NULL, 8); }
static void nested_array(GgufWriter *w) { gw_array(w, "k", GGUF_ARRAY, 1, NULL, 12); }
static void long_array(GgufWriter *w) { gw_array(w, "k", GGUF_U32, 3, NULL, 8); }
static void huge_array(GgufWriter *w) { gw_array(w, "k", GGUF_U64, UINT64_MAX / 8 + 2, NULL, 16); }
static void long_strings(GgufWriter *w) { gw_array(w, "k", GGUF_STRING, 3, NULL, 20); }
static void array_string(GgufWriter *w) {
    gw_strings(w, "k", 2, (const char *[]){"x", "y"});
    w->kv.p[w->kv.n - 9] = 200;
}
static void alignment_type(GgufWriter *w) { gw_int(w, "general.alignment", GGUF_U64, 32); }
static void alignment_zero(GgufWriter *w) { gw_u32(w, "general.alignment", 0); }
static void alignment_odd(GgufWriter *w) { gw_u32(w, "general.alignment", 48); }
static void alignment_large(GgufWriter *w) { gw_u32(w, "general.alignment", 1u << 21); }
static void no_name(GgufWriter *w) { gw_tensor(w, "", 0, 1, NE(1), NULL, 4); }
static void long_name(GgufWriter *w) {
    gw_tensor(w, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl", 0, 1, NE(1),
              NULL, 4);
}
static void nul_name(GgufWriter *w) { gw_raw_tensor(w, "a\0b", 3, 0, 1, NE(1), 0); }
static void same_name(GgufWriter *w) {
    gw_tensor(w, "x", 0, 1, NE(1), NULL, 4);
    gw_tensor(w, "x", 0, 1, NE(1), NULL, 4);
}
static void no_dims(GgufWriter *w) { gw_tensor(w, "x", 0, 0, NULL, NULL, 40); }
static void five_dims(GgufWriter *w) { gw_tensor(w, "x", 0, 5, NE(1, 1, 1, 1, 1), NULL, 4); }
static void no_elements(GgufWriter *w) { gw_tensor(w, "x", 0, 2, NE(4, 0), NULL, 4); }
static void many_elements(GgufWriter *w) {
    gw_tensor(w, "x", 0, 3, NE(1u << 31, 1u << 31, 2), NULL, 4);
}
static void many_bytes(GgufWriter *w) {
    gw_tensor(w, "x", 28, 2, NE(1ull << 31, 1ull << 31), NULL, 4);
}
static void removed_type(GgufWriter *w) { gw_tensor(w, "x", 36, 1, NE(32), NULL, 64); }
static void internal_type(GgufWriter *w) { gw_tensor(w, "x", 9, 1, NE(32), NULL, 64); }
static void unknown_type(GgufWriter *w) { gw_tensor(w, "x", 43, 1, NE(32), NULL, 64); }
static void row_length(GgufWriter *w) {
    gw_tensor(w, "blk.0.attn_q.weight", 12, 2, NE(100, 2), NULL, 144);
}
static void odd_offset(GgufWriter *w) {
    gw_raw_tensor(w, "x", 1, 0, 1, NE(1), 4), gw_put(&w->data, NULL, 64);
}
static void far_offset(GgufWriter *w) {
    gw_raw_tensor(w, "x", 1, 0, 1, NE(1), -(uint64_t)32), gw_put(&w->data, NULL, 64);
}
static void short_data(GgufWriter *w) { gw_tensor(w, "x", 0, 1, NE(20), NULL, 79); }
static void no_data(GgufWriter *w) { gw_raw_tensor(w, "x", 1, 0, 1, NE(1), 0); }
static void overlap(GgufWriter *w) {
    gw_raw_tensor(w, "late", 4, 0, 1, NE(8), 32);
    gw_raw_tensor(w, "early", 5, 0, 1, NE(9), 0);
    gw_put(&w->data, NULL, 64);
}
static void same_place(GgufWriter *w) {
    gw_raw_tensor(w, "a", 1, 0, 1, NE(8), 0);
    gw_raw_tensor(w, "b", 1, 0, 1, NE(8), 0);
    gw_put(&w->data, NULL, 64);
}
static void part_in_memory(GgufWriter *w) { gw_int(w, "split.count", GGUF_U16, 2); }
static void infinite_scale(GgufWriter *w) {
    gw_tensor(w, "x", 12, 2, NE(512, 2), NULL, 4 * 144);
    w->data.p[3 * 144 + 3] = 0x7c; /* dmin of the last block */
}
static void nan_weight(GgufWriter *w) {
    gw_tensor(w, "x", 0, 1, NE(2), (uint32_t[]){0, 0xffc00000}, 8);
}
static void infinite_f16(GgufWriter *w) {
    gw_tensor(w, "x", 1, 2, NE(1, 2), (uint16_t[]){0x7bff, 0xfc00}, 4);
}
static void infinite_bf16(GgufWriter *w) {
    gw_tensor(w, "x", 30, 2, NE(1, 2), (uint16_t[]){0x7f7f, 0x7f80}, 4);
}
static void iq1_m_scale(GgufWriter *w) {
    gw_tensor(w, "x", 29, 1, NE(256), NULL, 56);
    w->data.p[55] = 0x70;
    w->data.p[53] = 0xc0;
}
static void mxfp4_scale(GgufWriter *w) {
    gw_tensor(w, "x", 39, 1, NE(32), NULL, 17);
    w->data.p[0] = 255;
}
static void nvfp4_scale(GgufWriter *w) {
    gw_tensor(w, "x", 40, 1, NE(64), NULL, 36);
    w->data.p[3] = 0x7f;
}

static const struct {
    void (*build)(GgufWriter *);
    const char *message;
} refused[] = {
    {long_string, "metadata key 'a': 18446744073709551615 bytes are needed at byte 45 but the file "
                  "ends at byte 46; it is truncated or damaged"},
    {long_key, "metadata key 1 of 1: 9187201950435737471 bytes are needed at byte 32 but the file "
               "ends at byte 46; it is truncated or damaged"},
    {empty_key, "metadata key 2 of 2: the key is empty" DAMAGED},
    {nul_key, "metadata key 'a\\x00b': the key holds a NUL byte" DAMAGED},
    {same_key, "metadata key 'same' occurs twice" DAMAGED},
    {value_type, "metadata key 'k\\x0A': unknown type 13 of the value; expected 0..12" DAMAGED},
    {element_type,
     "metadata key 'k': unknown type 13 of the array's elements; expected 0..12" DAMAGED},
    {nested_array, "metadata key 'k': arrays of arrays are not supported"},
    {long_array, "metadata key 'k': an array of 3 elements (u32) is longer than the 8 bytes that "
                 "are left; the file is truncated or damaged"},
    {huge_array, "metadata key 'k': an array of 2305843009213693953 elements (u64) is longer than "
                 "the 16 bytes that are left; the file is truncated or damaged"},
    {long_strings, "metadata key 'k': an array of 3 elements (string) is longer than the 20 bytes "
                   "that are left; the file is truncated or damaged"},
    {array_string, "metadata key 'k': 200 bytes are needed at byte 66 but the file ends at byte "
                   "67; it is truncated or damaged"},
    {alignment_type, "metadata key 'general.alignment' is of type u64; expected u32" DAMAGED},
    {alignment_zero,
     "metadata key 'general.alignment' is 0; expected a power of two up to 1048576" DAMAGED},
    {alignment_odd,
     "metadata key 'general.alignment' is 48; expected a power of two up to 1048576" DAMAGED},
    {alignment_large,
     "metadata key 'general.alignment' is 2097152; expected a power of two up to 1048576" DAMAGED},
    {no_name, "tensor 1 of 1: the name is empty" DAMAGED},
    {long_name, "tensor 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl': the "
                "name has 64 bytes; expected at most 63" DAMAGED},
    {nul_name, "tensor 'a\\x00b': the name holds a NUL byte" DAMAGED},
    {same_name, "tensor 'x' occurs twice" DAMAGED},
    {no_dims, "tensor 'x': 0 dimensions; expected 1 to 4" DAMAGED},
    {five_dims, "tensor 'x': 5 dimensions; expected 1 to 4" DAMAGED},
    {no_elements, "tensor 'x': the shape 4 x 0 has no elements; expected at least one"},
    {many_elements,
     "tensor 'x': the shape 2147483648 x 2147483648 x 2 has more than 2^63 elements" DAMAGED},
    {many_bytes,
     "tensor 'x': the shape 2147483648 x 2147483648 does not fit in 64 bits as F64" DAMAGED},
    {removed_type, "tensor 'x': type 36 (IQ4_NL_4_4, removed from the format) cannot be read; "
                   "convert or quantize the model again"},
    {internal_type, "tensor 'x': type 9 (Q8_1, internal to inference engines) cannot be read; "
                    "convert or quantize the model again"},
    {unknown_type, "tensor 'x': type 43 is unknown; the file needs a newer qcc, or is damaged"},
    {row_length, "tensor 'blk.0.attn_q.weight': row length 100 is not a multiple of Q4_K's block "
                 "of 256" DAMAGED},
    {odd_offset, "tensor 'x': offset 4 is not a multiple of the alignment 32" DAMAGED},
    {far_offset,
     "tensor 'x': 4 bytes at offset 18446744073709551584 reach beyond the end of the file (data "
     "starts at byte 64, the file has 128); it is truncated, download it again"},
    {short_data, "tensor 'x': 80 bytes at offset 0 reach beyond the end of the file (data starts "
                 "at byte 64, the file has 143); it is truncated, download it again"},
    {no_data, "tensor 'x': 4 bytes at offset 0 reach beyond the end of the file (data starts at "
              "byte 64, the file has 57); it is truncated, download it again"},
    {overlap, "tensors 'early' and 'late' overlap" DAMAGED},
    {same_place, "tensors 'a' and 'b' overlap" DAMAGED},
    {part_in_memory, "this is one part of a split model; a model in memory must be whole"},
    {infinite_scale,
     "tensor 'x': the scale at row 1, column 256 is infinite or not a number" DAMAGED},
    {nan_weight, "tensor 'x': the weight at row 0, column 1 is infinite or not a number" DAMAGED},
    {infinite_f16, "tensor 'x': the weight at row 1, column 0 is infinite or not a number" DAMAGED},
    {infinite_bf16,
     "tensor 'x': the weight at row 1, column 0 is infinite or not a number" DAMAGED},
    {iq1_m_scale, "tensor 'x': the scale at row 0, column 0 is infinite or not a number" DAMAGED},
    {mxfp4_scale, "tensor 'x': the scale at row 0, column 0 is infinite or not a number" DAMAGED},
    {nvfp4_scale, "tensor 'x': the scale at row 0, column 0 is infinite or not a number" DAMAGED},
};

static void test_refused(void) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        GgufWriter w = {0};
        char message[512];
        refused[i].build(&w);
        snprintf(message, sizeof message, "t.gguf: %s", refused[i].message);
        expect(gw_finish(&w), message);
        gw_free(&w);
    }
}

/* No beginning of a good file crashes the reader, and none but the whole is a good file (data at
 * its end counts). */
static void test_truncated(void) {
    GgufWriter w = {0};
    build_good(&w);
    Bytes file = gw_finish(&w);
    size_t n_good = 0;
    for (size_t n = 0; n < file.n; n++) {
        FailTrap t;
        n_good += parse((Bytes){file.p, n}, &t);
    }
    CHECK(n_good == 0, "%zu beginnings were read", n_good);
    gw_put(&w.file, "trailing bytes", 14);
    FailTrap t;
    CHECK(parse((Bytes){w.file.p, w.file.n}, &t), "trailing bytes: %s", t.message);
    gw_free(&w);
}

static void expect_access(const Gguf *g, int which, const char *message) {
    FailTrap t;
    if (fail_catch(&t)) {
        CHECK(!strcmp(t.message, message) && t.kind == FAIL_USER, "\n  expected %s\n  found    %s",
              message, t.message);
        return;
    }
    switch (which) {
    case 0: gguf_uint(g, "f32", 0); break;
    case 1: gguf_uint(g, "i8", 0); break;
    case 2: gguf_float(g, "words", 0); break;
    case 3: gguf_bool(g, "u8", 0); break;
    case 4: gguf_string(g, "numbers", NULL); break;
    case 5: gguf_number(gguf_find(g, "words"), 0); break;
    case 6: gguf_number(gguf_find(g, "numbers"), 3); break;
    case 7: gguf_uint(g, "i64", 0); break;
    default: break;
    }
    fail_pop(&t);
    CHECK(false, "not refused: %s", message);
}

static void test_access(void) {
    GgufWriter w = {0};
    build_good(&w);
    Arena *a = arena_create();
    Gguf *g = gguf_parse(a, "t.gguf", gw_finish(&w));
    static const char *const messages[] = {
        "t.gguf: metadata key 'f32' is of type f32; expected a non-negative integer",
        "t.gguf: metadata key 'i8' is -5; expected a non-negative integer",
        "t.gguf: metadata key 'words' is of type array; expected a number",
        "t.gguf: metadata key 'u8' is of type u8; expected bool",
        "t.gguf: metadata key 'numbers' is of type array; expected a string",
        "a metadata value holds strings; numbers are needed",
        "a metadata array has 3 elements; element 3 is needed",
        "t.gguf: metadata key 'i64' is -5000000000; expected a non-negative integer",
    };
    for (int i = 0; i < 8; i++) expect_access(g, i, messages[i]);
    arena_destroy(a);
    gw_free(&w);
}

static void test_print(void) {
    static const char expected[] =
        "t.gguf\n"
        "  GGUF version 3, 1.84 KiB, data aligned to 32 bytes\n"
        "\n"
        "metadata (16)\n"
        "  general.architecture  string         llama\n"
        "  u8                    u8             200\n"
        "  i8                    i8             -5\n"
        "  u16                   u16            60000\n"
        "  i16                   i16            -300\n"
        "  u32                   u32            4000000000\n"
        "  i32                   i32            -70000\n"
        "  f32                   f32            1e-05\n"
        "  yes                   bool           true\n"
        "  odd_bool              bool           true\n"
        "  u64                   u64            18446744073709551615\n"
        "  i64                   i64            -5000000000\n"
        "  f64                   f64            0.1\n"
        "  words                 string[3]      [\"a\", \"\", \"\\xFF\\x0A\xe2\x96\x81x\"]\n"
        "  numbers               i32[3]         [1, -2, 3]\n"
        "  nothing               string[0]      []\n"
        "\n"
        "tensors (3)\n"
        "  name     type     shape                 size\n"
        "  blk.0.w  Q4_K     512 x 3              864 B\n"
        "  norm     F32      5                     20 B\n"
        "  experts  Q8_0     32 x 2 x 3 x 2       408 B\n"
        "\n"
        "totals\n"
        "  type     tensors         weights            bytes        size   bits/w\n"
        "  Q4_K           1            1536              864       864 B      4.5\n"
        "  Q8_0           1             384              408       408 B      8.5\n"
        "  F32            1               5               20        20 B       32\n"
        "  all            3            1925             1292    1.26 KiB    5.369\n";
    GgufWriter w = {0};
    build_good(&w);
    Arena *a = arena_create();
    Text out = {.arena = a};
    gguf_print(gguf_parse(a, "t.gguf", gw_finish(&w)), &out);
    CHECK(!strcmp(out.s, expected), "\n%s", out.s);
    arena_destroy(a);
    gw_free(&w);
}

/* Every allocation fails once; each time the failure is an environment failure, and nothing leaks
 * or crashes. */
static void test_faults(void) {
    GgufWriter w = {0};
    build_good(&w);
    Bytes file = gw_finish(&w);
    unsigned n = 1;
    for (bool good = false; !good && n < 10000; n++) {
        FailTrap t;
        arena_fail_after(n);
        good = parse(file, &t);
        arena_fail_after(0);
        if (!good)
            CHECK(t.kind == FAIL_ENVIRONMENT && strstr(t.message, "out of memory"), "%u: %s", n,
                  t.message);
    }
    CHECK(n > 20 && n < 10000, "%u allocations", n);
    gw_free(&w);
}

/* ---- real files ------------------------------------------------------------------------------ */

static void check_file(const char *path) {
    FailTrap t;
    Arena *a = arena_create();
    if (!fail_catch(&t)) {
        Gguf *g = gguf_open(a, path);
        Text out = {.arena = a};
        gguf_print(g, &out);
        for (size_t i = 0; i < g->n_tensors; i++) gguf_check_data(g, &g->tensors[i]);
        CHECK(out.n > 100 && gguf_find(g, "general.architecture"), "%s", path);
        fail_pop(&t);
    } else {
        CHECK(false, "%s", t.message);
    }
    arena_destroy(a);
}

static int check_folder(const char *path) {
    int n = 0;
    DIR *d = opendir(path);
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));) {
        char file[1024];
        struct stat st;
        if (e->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        size_t len = strlen(file);
        if (stat(file, &st) == 0 && S_ISDIR(st.st_mode)) n += check_folder(file);
        else if (len > 5 && !strcmp(file + len - 5, ".gguf")) check_file(file), n++;
    }
    closedir(d);
    return n;
}

int main(void) {
    test_read(2, 0);
    test_read(3, 0);
    test_read(3, 1);
    test_read(3, 4096);
    test_header();
    test_counts();
    test_refused();
    test_truncated();
    test_access();
    test_print();
    test_faults();
    const char *shared = check_shared();
    if (shared) {
        int n = check_folder(shared);
        CHECK(n > 100, "%d files in %s", n, shared);
    } else {
        SKIP("opening all models and fixtures: QCC_SHARED is not set");
    }
    return check_done();
}
