/* The GGUF reader: models in several files. */
#define _POSIX_C_SOURCE 200809L
#include "gguf_writer.h"
#include "check.h"
#include <unistd.h>

static char dir[] = "/tmp/qcc-test-gguf.XXXXXX";

static const char *in_dir(const char *name) {
    static char path[2][512];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

/* Part `no` (from 0) of `count`, saying that the model has n_tensors, with one tensor of that name
 * unless NULL. */
static void write_part(const char *name, int no, int count, int n_tensors, const char *tensor) {
    GgufWriter w = {.alignment = no ? 0 : 64};
    if (no == 0) {
        gw_string(&w, "general.architecture", "llama");
        gw_u32(&w, "general.alignment", 64);
    }
    gw_int(&w, "split.no", GGUF_U16, no);
    gw_int(&w, "split.count", GGUF_U16, count);
    gw_int(&w, "split.tensors.count", GGUF_I32, n_tensors);
    float x = (float)no;
    if (tensor) gw_tensor(&w, tensor, 0, 1, (uint64_t[]){1}, &x, sizeof x);
    Bytes file = gw_finish(&w);
    file_write(in_dir(name), file.p, file.n, 0644);
    gw_free(&w);
}

static void open_split(const char *name, const char *message) {
    FailTrap t;
    Arena *a = arena_create();
    if (!fail_catch(&t)) {
        Gguf *g = gguf_open(a, in_dir(name));
        float x[2];
        CHECK(g->n_parts == 3 && g->n_tensors == 2 && gguf_find(g, "general.architecture"), "%s",
              name);
        CHECK(!strcmp(g->tensors[0].name, "one") && gguf_tensor(g, "two") == &g->tensors[1], "%s",
              name);
        memcpy(&x[0], g->tensors[0].data, 4);
        memcpy(&x[1], g->tensors[1].data, 4);
        CHECK(x[0] == 1 && x[1] == 2 && g->alignment == 64, "data of %s", name);
        CHECK(g->file_bytes == g->parts[0].n + g->parts[1].n + g->parts[2].n, "bytes of %s", name);
        CHECK(!message, "not refused: %s", message);
        fail_pop(&t);
    } else {
        char expected[1024];
        snprintf(expected, sizeof expected, "%s/%s", dir, message ? message : "nothing");
        CHECK(!strcmp(t.message, expected) && t.kind == FAIL_USER, "\n  expected %s\n  found    %s",
              expected, t.message);
    }
    arena_destroy(a);
}

int main(void) {
    if (!mkdtemp(dir)) return perror(dir), 1;
    write_part("m-00001-of-00003.gguf", 0, 3, 2, NULL);
    write_part("m-00002-of-00003.gguf", 1, 3, 2, "one");
    open_split("m-00001-of-00003.gguf", "m-00003-of-00003.gguf: part 3 of 3 of the model is "
                                        "missing; all parts must be in one directory");
    write_part("m-00003-of-00003.gguf", 2, 3, 2, "two");
    open_split("m-00001-of-00003.gguf", NULL);
    open_split("m-00002-of-00003.gguf", NULL);
    open_split("m-00003-of-00003.gguf", NULL);
    write_part("m-00003-of-00003.gguf", 2, 3, 2, "one");
    open_split("m-00002-of-00003.gguf", "m-00001-of-00003.gguf: tensor 'one' occurs twice"
                                        "; the file is damaged or made by a broken converter");
    write_part("m-00003-of-00003.gguf", 2, 3, 3, "two");
    open_split("m-00001-of-00003.gguf", "m-00003-of-00003.gguf: the parts have 2 tensors together; "
                                        "metadata key 'split.tensors.count' says 3");
    write_part("m-00003-of-00003.gguf", 1, 3, 2, "two");
    open_split("m-00001-of-00003.gguf",
               "m-00003-of-00003.gguf: metadata keys say split.no 1 of split.count 3; expected 2 "
               "of 3; the file belongs to another model or is named wrongly");
    write_part("renamed.gguf", 1, 3, 2, "one");
    open_split("renamed.gguf",
               "renamed.gguf: this is part 2 of 3 of a split model, but its name does not end in "
               "'-00002-of-00003.gguf', so that the other parts cannot be found; give the parts "
               "the names they were published with");
    write_part("n-00004-of-00003.gguf", 3, 3, 2, "one");
    open_split("n-00004-of-00003.gguf",
               "n-00004-of-00003.gguf: metadata key 'split.no' is not below 'split.count' 3");
    open_split("absent.gguf", "absent.gguf: cannot open: No such file or directory");
    file_mkdirs(in_dir("folder"));
    open_split("folder", "folder: cannot read: Is a directory");
    static const char *const files[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                        "m-00003-of-00003.gguf", "renamed.gguf",
                                        "n-00004-of-00003.gguf"};
    for (int i = 0; i < 5; i++) CHECK(!unlink(in_dir(files[i])), "%s", files[i]);
    rmdir(in_dir("folder"));
    rmdir(dir);
    return check_done();
}
