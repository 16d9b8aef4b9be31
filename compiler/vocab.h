/* vocab.h - the tokenizer metadata of a GGUF, validated and serialized for the runtime
 * (runtime/token_blob.h).
 *
 * Supported tokenizer.ggml.model: "llama" (SPM), "gpt2" (byte-level BPE), "gemma4" (BPE on
 * characters). Others, and metadata that contradict themselves, fail (user) naming the key. A
 * pre-tokenizer that the file does not name is "default", with a note. Special token ids that are
 * out of range count as absent. */
#ifndef QCC_VOCAB_H
#define QCC_VOCAB_H
#include "gguf.h"

Bytes vocab_pack(Arena *a, const Gguf *g);
#endif
