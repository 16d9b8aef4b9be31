/* Fuzz target of the GGUF reader, the printer and the hyper-parameters: whatever the bytes, the
 * answer is a model or a message.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz/fuzz_gguf.c compiler/gguf*.c
 * compiler/model.c \ compiler/util.c -o fuzz_gguf && ./fuzz_gguf NEW_INPUTS tests/fuzz/corpus/gguf
 *
 * With -DREPLAY it is a program that runs the files that are named to it, for any compiler. */
#include "../../compiler/model.h"
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    FailTrap t;
    Arena *a = arena_create();
    if (!fail_catch(&t)) {
        Gguf *g = gguf_parse(a, "input", (Bytes){data, size});
        Text out = {.arena = a};
        gguf_print(g, &out);
        model_print(model_read(a, g), &out);
        for (size_t i = 0; i < g->n_tensors; i++) gguf_check_data(g, &g->tensors[i]);
        fail_pop(&t);
    } else if (t.kind != FAIL_USER || !t.message[0]) {
        fprintf(stderr, "unexpected kind of failure %d: %s\n", (int)t.kind, t.message);
        abort();
    }
    arena_destroy(a);
    return 0;
}

#ifdef REPLAY
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        Arena *a = arena_create();
        Bytes file = file_map(a, argv[i]);
        LLVMFuzzerTestOneInput(arena_copy(a, file.p, file.n), file.n);
        arena_destroy(a);
    }
    printf("%d inputs\n", argc - 1);
    return 0;
}
#endif
