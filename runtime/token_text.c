/* token_text.c - tokens to text, and characters. */
#include <stdlib.h>
#include <string.h>
#include "token_parts.h"

/* ---- characters ------------------------------------------------------------------------------ */

size_t utf8_decode(const char *s, size_t n, uint32_t *cp) {
    static const uint8_t lead_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint8_t lead = (uint8_t)s[0];
    size_t need = utf8_length(lead);
    uint32_t x = lead & lead_bits[need];
    if (lead < 0x80) return *cp = lead, 1;
    bool good = lead >= 0xc0 && lead < 0xf8 && need <= n;
    for (size_t i = 1; good && i < need; i++) {
        good = ((uint8_t)s[i] & 0xc0) == 0x80;
        x = x << 6 | ((uint8_t)s[i] & 0x3f);
    }
    good = good && x <= 0x10ffff;
    *cp = good ? x : 0xfffd;
    return good ? need : 1;
}

size_t utf8_encode(uint32_t cp, char *out) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3f));
    static const uint8_t marks[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(marks[n] | (cp & 0x1f));
    return n;
}

size_t token_utf8_hold(const char *s, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        uint8_t c = (uint8_t)s[n - back];
        if ((c & 0xc0) == 0x80) continue;
        return c >= 0xc0 && c < 0xf8 && utf8_length(c) > back ? back : 0;
    }
    return 0;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Text that counts beyond its capacity. */
typedef struct {
    char *p;
    size_t cap, n;
} Out;
static void put(Out *o, const char *s, size_t n) {
    if (o->n < o->cap) memcpy(o->p + o->n, s, n < o->cap - o->n ? n : o->cap - o->n);
    o->n += n;
}

static void put_spaces_restored(Out *o, TokenText s) {
    for (size_t i = 0; i < s.n; i++) {
        bool block = s.n - i >= 3 && !memcmp(s.s + i, "\xe2\x96\x81", 3);
        put(o, block ? " " : s.s + i, 1);
        if (block) i += 2;
    }
}

/* "<0xXX>", or the byte itself. */
static void put_byte_token(Out *o, TokenText s) {
    char byte = s.n ? s.s[0] : 0;
    if (s.n == 6 && !memcmp(s.s, "<0x", 3))
        byte = (char)strtoul((char[]){s.s[3], s.s[4], 0}, NULL, 16);
    put(o, &byte, s.n != 0);
}

/* The inverse of vocab_byte_char; false if no byte is written so. */
static bool byte_of_char(uint32_t cp, char *byte) {
    for (uint32_t b = 0; b < 256; b++) {
        if (vocab_byte_char((uint8_t)b) != cp) continue;
        *byte = (char)b;
        return true;
    }
    return false;
}

static void put_bytes_decoded(Out *o, TokenText s) {
    static const char hex[] = "0123456789abcdef";
    for (size_t at = 0; at < s.n;) {
        uint32_t cp;
        char byte, utf8[4];
        at += utf8_decode(s.s + at, s.n - at, &cp);
        if (cp < 0x144 && byte_of_char(cp, &byte)) {
            put(o, &byte, 1);
            continue;
        }
        size_t n = utf8_encode(cp, utf8);
        put(o, "[UNK_BYTE_0x", 12);
        for (size_t i = 0; i < n; i++)
            put(o, (char[]){hex[(uint8_t)utf8[i] >> 4], hex[(uint8_t)utf8[i] & 15]}, 2);
        put(o, s.s, s.n);
        put(o, "]", 1);
    }
}

static void put_piece(const Tokenizer *t, uint32_t id, bool special, Out *o) {
    const VocabHeader *h = t->header;
    if (id >= h->n_tokens) return;
    TokenText s = vocab_text(t, id);
    bool encoded = h->kind == VOCAB_BPE && !(h->flags & VOCAB_RAW_UTF8);
    switch (((const uint8_t *)vocab_section(t, SECTION_TYPES))[id] & VOCAB_TYPE_MASK) {
    case VOCAB_CONTROL:
    case VOCAB_UNKNOWN:
        if (special) put(o, s.s, s.n);
        break;
    case VOCAB_USER: put(o, s.s, s.n); break;
    case VOCAB_NORMAL:
        if (encoded) put_bytes_decoded(o, s);
        else put_spaces_restored(o, s);
        break;
    case VOCAB_BYTE:
        if (!encoded) put_byte_token(o, s);
        break;
    default: break;
    }
}

int32_t token_piece(const Tokenizer *t, uint32_t id, bool special, char *out, size_t cap) {
    Out o = {out, cap, 0};
    put_piece(t, id, special, &o);
    return o.n <= INT32_MAX ? (int32_t)o.n : TOKEN_ERROR_SIZE;
}

/* ---- whole sequences ------------------------------------------------------------------------- */

static bool is_contraction(const char *s, size_t n) /* behind the apostrophe */
{
    return n &&
           (s[0] == 's' || s[0] == 'm' || (n > 1 && (s[0] == 'r' || s[0] == 'v') && s[1] == 'e'));
}

/* Three passes, as in the models' reference tokenizer: " ?" " !" " ." " ," lose the space; " ' "
 * becomes "'"; " 's" " 'm" " 're" " 've" lose the space. Returns the new length. */
static size_t clean_spaces(char *s, size_t n) {
    size_t out = n ? 1 : 0;
    for (size_t i = 1; i < n; i++) {
        if (s[i - 1] == ' ' && s[i] && strchr("?!.,", s[i])) out--;
        s[out++] = s[i];
    }
    n = out;
    out = n ? 1 : 0;
    for (size_t i = 1; i < n; i++) {
        char c = s[i];
        if (c == '\'' && i + 1 < n && s[i - 1] == ' ' && s[i + 1] == ' ') {
            out--;
            s[++i] = 0; /* the dropped space is not in front of anything */
        }
        s[out++] = c;
    }
    n = out;
    out = n ? 1 : 0;
    for (size_t i = 1; i < n; i++) {
        if (s[i - 1] == ' ' && s[i] == '\'' && is_contraction(s + i + 1, n - i - 1)) out--;
        s[out++] = s[i];
    }
    return out;
}

static void put_sequence(const Tokenizer *t, const uint32_t *ids, size_t n, unsigned flags,
                         Out *o) {
    const VocabHeader *h = t->header;
    bool strip = h->flags & VOCAB_SPACE_PREFIX;
    if (flags & TOKEN_REMOVE_SPECIAL) {
        if ((h->flags & VOCAB_ADD_BOS) && n && ids[0] == h->bos) ids++, n--, strip = false;
        if ((h->flags & VOCAB_ADD_EOS) && n && ids[n - 1] == h->eos) n--;
    }
    for (size_t i = 0; i < n; i++) {
        size_t begin = o->n;
        put_piece(t, ids[i], flags & TOKEN_UNPARSE_SPECIAL, o);
        if (strip && i == 0 && o->n > begin && o->cap > begin && o->p[begin] == ' ') {
            o->n--;
            memmove(o->p + begin, o->p + begin + 1, (o->n < o->cap ? o->n : o->cap - 1) - begin);
        }
    }
}

int32_t token_detokenize(const Tokenizer *t, const uint32_t *ids, size_t n, unsigned flags,
                         char *out, size_t cap) {
    Out size = {NULL, 0, 0};
    put_sequence(t, ids, n, flags, &size); /* an upper bound: nothing is stripped yet */
    if (size.n > INT32_MAX) return TOKEN_ERROR_SIZE;
    Out whole = {malloc(size.n + 1), size.n, 0};
    if (!whole.p) return TOKEN_ERROR_MEMORY;
    put_sequence(t, ids, n, flags, &whole);
    if (t->header->flags & VOCAB_CLEAN_SPACES) whole.n = clean_spaces(whole.p, whole.n);
    if (cap) memcpy(out, whole.p, whole.n < cap ? whole.n : cap);
    free(whole.p);
    return (int32_t)whole.n;
}
