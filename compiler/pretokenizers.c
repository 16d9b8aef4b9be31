/* pretokenizers.c - the table of pre-tokenizers. The expressions are those of the models'
 * tokenizers, written in the dialect of runtime/token_regex.c. Categories below the top level (Lu,
 * Ll, ...) count as L, as in the files' reference implementation: "upper" is then a letter other
 * than a-z, "lower" a letter other than A-Z. */
#include "pretokenizers.h"
#include <string.h>

#define CONTRACTION "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define SPACES "\\s+(?!\\S)|\\s+"
#define PUNCTUATION " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define PUNCTUATION_SLASH " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
#define PREFIX "[^\\r\\n\\p{L}\\p{N}]?" /* one character in front of a word */
#define WORD PREFIX "\\p{L}+"
#define UPPER "[\\p{L}&&[^a-z]]"
#define LOWER "[\\p{L}&&[^A-Z]]"
#define UPPER_MARK "[\\p{L}\\p{M}&&[^a-z]]"
#define LOWER_MARK "[\\p{L}\\p{M}&&[^A-Z]]"
#define NEWLINES "\\s*[\\r\\n]+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" SPACES
#define LLAMA3 CONTRACTION "|" WORD "|\\p{N}{1,3}|" PUNCTUATION "|" NEWLINES "|" SPACES
#define QWEN2 CONTRACTION "|" WORD "|\\p{N}|" PUNCTUATION "|" NEWLINES "|" SPACES
#define LINES "[^\\n]+|[\\n]+"

#define CJK_KANA "\\u{4E00}-\\u{9FA5}\\u{3040}-\\u{309F}\\u{30A0}-\\u{30FF}"
#define CJK_HANGUL "[\\u{4E00}-\\u{9FA5}\\u{0800}-\\u{4E00}\\u{AC00}-\\u{D7FF}]+"
#define HAN                                                                                        \
    "\\u{4E00}-\\u{9FFF}\\u{3400}-\\u{4DBF}\\u{20000}-\\u{2A6DF}\\u{2A700}-\\u{2B73F}"             \
    "\\u{2B740}-\\u{2B81F}\\u{2B820}-\\u{2CEAF}\\u{2CEB0}-\\u{2EBEF}\\u{F900}-\\u{FAFF}"           \
    "\\u{2F800}-\\u{2FA1F}"
#define ASCII_PUNCTUATION "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define DEEPSEEK3_WORDS                                                                            \
    ASCII_PUNCTUATION "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"    \
                      "[\\r\\n]*|" NEWLINES "|" SPACES
#define BLOOM " ?[^(\\s|.,!?\\u{2026}\\u{3002}\\u{FF0C}\\u{3001}\\u{0964}\\u{06D4}\\u{060C})]+"

/* Cased letters of the bicameral scripts. */
#define CASED_LETTERS                                                                              \
    "A-Za-z\\u{00B5}\\u{00C0}-\\u{00D6}\\u{00D8}-\\u{00F6}\\u{00F8}-\\u{01BA}"                     \
    "\\u{01BC}-\\u{01BF}\\u{01C4}-\\u{0293}\\u{0295}-\\u{02AF}\\u{0370}-\\u{0373}\\u{0376}"        \
    "\\u{0377}\\u{037B}-\\u{037D}\\u{037F}\\u{0386}\\u{0388}-\\u{038A}\\u{038C}"                   \
    "\\u{038E}-\\u{03A1}\\u{03A3}-\\u{03F5}\\u{03F7}-\\u{0481}\\u{048A}-\\u{052F}"                 \
    "\\u{0531}-\\u{0556}\\u{10A0}-\\u{10C5}\\u{13A0}-\\u{13F5}\\u{13F8}-\\u{13FD}"                 \
    "\\u{1C90}-\\u{1CBA}\\u{1CBD}-\\u{1CBF}\\u{1D00}-\\u{1D2B}\\u{1D6B}-\\u{1D77}"                 \
    "\\u{1D79}-\\u{1D9A}\\u{1E00}-\\u{1F15}\\u{1F18}-\\u{1F1D}\\u{1F20}-\\u{1F45}"                 \
    "\\u{1F48}-\\u{1F4D}\\u{1F50}-\\u{1F57}\\u{1F59}\\u{1F5B}\\u{1F5D}\\u{1F5F}-\\u{1F7D}"         \
    "\\u{1F80}-\\u{1FB4}\\u{1FB6}-\\u{1FBC}\\u{1FBE}\\u{1FC2}-\\u{1FC4}\\u{1FC6}-\\u{1FCC}"        \
    "\\u{1FD0}-\\u{1FD3}\\u{1FD6}-\\u{1FDB}\\u{1FE0}-\\u{1FEC}\\u{1FF2}-\\u{1FF4}"                 \
    "\\u{1FF6}-\\u{1FFC}\\u{2102}\\u{2107}\\u{210A}-\\u{2113}\\u{2115}\\u{2119}-\\u{211D}"         \
    "\\u{2124}\\u{2126}\\u{2128}\\u{212A}-\\u{212D}\\u{212F}-\\u{2134}\\u{2139}"                   \
    "\\u{213C}-\\u{213F}\\u{2145}-\\u{2149}\\u{214E}\\u{2183}\\u{2184}\\u{2C00}-\\u{2C7B}"         \
    "\\u{2C7E}-\\u{2CE4}\\u{2CEB}-\\u{2CEE}\\u{2CF2}\\u{2CF3}\\u{A640}-\\u{A66D}"                  \
    "\\u{A680}-\\u{A69B}\\u{A722}-\\u{A76F}\\u{A771}-\\u{A787}\\u{A78B}-\\u{A78E}"                 \
    "\\u{AB70}-\\u{ABBF}\\u{FB00}-\\u{FB06}\\u{FB13}-\\u{FB17}\\u{FF21}-\\u{FF3A}"                 \
    "\\u{FF41}-\\u{FF5A}\\u{10400}-\\u{1044F}\\u{104B0}-\\u{104D3}\\u{104D8}-\\u{104FB}"           \
    "\\u{10C80}-\\u{10CB2}\\u{10CC0}-\\u{10CF2}\\u{118A0}-\\u{118DF}\\u{1E900}-\\u{1E943}"
#define AFMOE_SCRIPTS                                                                              \
    "\\u{4E00}-\\u{9FFF}\\u{3400}-\\u{4DBF}\\u{8C48}-\\u{FAFF}\\u{3040}-\\u{309F}"                 \
    "\\u{30A0}-\\u{30FF}\\u{FF65}-\\u{FF9F}\\u{2F00}-\\u{2FDF}\\u{0E40}-\\u{0E7F}"                 \
    "\\u{0E80}-\\u{0EFF}\\u{1780}-\\u{17FF}\\u{1000}-\\u{109F}\\u{AA60}-\\u{AA7F}"                 \
    "\\u{A9E0}-\\u{A9FF}\\u{AC00}-\\u{D7AF}\\u{1100}-\\u{11FF}"
#define YOUTU_SCRIPTS                                                                              \
    "[\\u{AC00}-\\u{D7A3}\\u{3131}-\\u{318E}]+|[\\u{FF01}\\u{2026}\\u{201C}\\u{201D}\\u{2018}"     \
    "\\u{2019}\\u{2014}\\u{FF1A}\\u{FF1B}\\u{FF0C}\\u{3001}-\\u{303F}\\u{FE30}-\\u{FE4F}]+|["      \
    "\\u{3105}-\\u{312F}]+|[" CJK_KANA "]+"

static const Pretokenizer table[] = {
    {"default", 0, {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert "
     "jina-v1-en jina-v2-code roberta-bpe exaone4 mpt olmo jais",
     0,
     {GPT2}},
    {"trillion granite-docling", PRE_KEEP_SPACES, {GPT2}},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     PRE_IGNORE_MERGES | PRE_ADD_BOS,
     {LLAMA3}},
    {"dbrx smaug-bpe", 0, {LLAMA3}},
    {"glm4 chatglm-bpe", PRE_NO_BOS, {LLAMA3}},
    {"jais-2",
     0,
     {CONTRACTION "|" WORD "|\\p{N}{1,3}|" PUNCTUATION "|" NEWLINES
                  "|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)"
                  "|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"}},
    {"stablelm2 megrez", 0, {QWEN2}},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 hunyuan solar-open grok-2", PRE_KEEP_SPACES, {QWEN2}},
    {"qwen35",
     PRE_KEEP_SPACES,
     {CONTRACTION "|" PREFIX "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" NEWLINES
                  "|" SPACES}},
    {"gpt-4o llama4 kanana2",
     0,
     {PREFIX UPPER "*" LOWER "+" CONTRACTION "?|" PREFIX UPPER "+" LOWER "*" CONTRACTION
                   "?|\\p{N}{1,3}|" PUNCTUATION_SLASH "|" NEWLINES "|" SPACES}},
    {"talkie minimax-m2",
     PRE_KEEP_SPACES,
     {PREFIX UPPER "*" LOWER "+" CONTRACTION "?|" PREFIX UPPER "+" LOWER "*" CONTRACTION
                   "?|\\p{N}{1,3}|" PUNCTUATION_SLASH "|" NEWLINES "|" SPACES}},
    {"tekken",
     PRE_IGNORE_MERGES | PRE_ADD_BOS | PRE_KEEP_SPACES,
     {PREFIX UPPER "*" LOWER "+|" PREFIX UPPER "+" LOWER "*|\\p{N}|" PUNCTUATION_SLASH "|" NEWLINES
                   "|" SPACES}},
    {"granite-embed-multi-97m",
     PRE_IGNORE_MERGES | PRE_KEEP_SPACES,
     {PREFIX UPPER_MARK "*" LOWER_MARK "+" CONTRACTION "?|" PREFIX UPPER_MARK "+" LOWER_MARK
                        "*" CONTRACTION "?|\\p{N}{1,3}|" PUNCTUATION_SLASH "|" NEWLINES
                        "|" SPACES}},
    {"tiny_aya cohere2moe",
     PRE_KEEP_SPACES,
     {"(#[0-9][\\p{L}\\p{M}\\p{N}_])", PREFIX
      "[\\p{L}\\p{M}]+" CONTRACTION "?|\\p{N}{1,3}|" PUNCTUATION_SLASH "|" NEWLINES "|" SPACES}},
    {"youtu",
     PRE_IGNORE_MERGES | PRE_KEEP_SPACES,
     {YOUTU_SCRIPTS,
      PREFIX "[\\p{L}\\p{M}]+" CONTRACTION "?|\\p{N}|" PUNCTUATION_SLASH "|" NEWLINES "|" SPACES}},
    {"kimi-k2",
     PRE_KEEP_SPACES,
     {"[" HAN "]+|" PREFIX "[\\p{L}\\p{M}&&[^" HAN "]]+" CONTRACTION "?|\\p{N}{1,3}|" PUNCTUATION
      "|" NEWLINES "|" SPACES}},
    {"superbpe", PRE_KEEP_SPACES, {"\\p{N}+", "(#[0-9])"}},
    {"deepseek-llm",
     PRE_KEEP_SPACES,
     {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
      "\\s?[!-/:-~\\u{FF01}-\\u{FF0F}\\u{FF1A}-\\u{FF5E}\\u{2018}-\\u{201F}\\u{3000}-\\u{3002}]+",
      "\\s+$", CJK_HANGUL, "\\p{N}+"}},
    {"deepseek-coder",
     PRE_KEEP_SPACES,
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK_HANGUL, "\\p{N}"}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     PRE_KEEP_SPACES,
     {"\\p{N}{1,3}", "[" CJK_KANA "]+", DEEPSEEK3_WORDS}},
    {"spark2_5",
     PRE_KEEP_SPACES,
     {"\\p{N}{1,3}", "[" CJK_KANA "]+",
      ASCII_PUNCTUATION
      "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\\r\\n]|" SPACES,
      "\\p{N}"}},
    {"afmoe", PRE_KEEP_SPACES, {"(#\\p{N})", "[" AFMOE_SCRIPTS "]+", DEEPSEEK3_WORDS}},
    {"falcon", 0, {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"starcoder refact codeshell exaone minerva-7b mellum2", 0, {"\\p{N}", GPT2}},
    {"command-r smollm", PRE_KEEP_SPACES, {"\\p{N}", GPT2}},
    {"poro-chat", PRE_KEEP_SPACES, {BLOOM}},
    {"bloom gpt3-finnish", 0, {BLOOM}},
    {"viking", PRE_KEEP_SPACES, {BLOOM, "\\p{N}"}},
    {"chameleon",
     PRE_ADD_BOS | PRE_KEEP_SPACES,
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "(?:[\\t\\n]|    |  )", "\\p{N}",
      "[\\p{P}!-/:-@\\[-`{-~]", GPT2}},
    {"bailingmoe bailingmoe2 llada-moe",
     PRE_KEEP_SPACES,
     {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" WORD "|\\p{N}|" PUNCTUATION
      "|\\s*[\\r\\n]|" SPACES}},
    {"seed-coder",
     PRE_KEEP_SPACES,
     {CONTRACTION "|" WORD "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" NEWLINES "|" SPACES}},
    {"ufakzeka", PRE_KEEP_SPACES, {WORD "|\\p{N}|" PUNCTUATION "|" NEWLINES "|" SPACES}},
    {"laguna", PRE_KEEP_SPACES, {LINES, QWEN2}},
    {"exaone-moe",
     0,
     {CONTRACTION "|" PREFIX
                  "\\p{L}(?:[\\p{L}\\p{M}]| \\p{L})*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
                  "\\s*[\\r\\n]|" SPACES}},
    {"minicpm5",
     PRE_IGNORE_MERGES,
     {"\\p{N}{1,3}", CONTRACTION "|" WORD "|\\p{N}+|" PUNCTUATION "|" NEWLINES "|" SPACES}},
    {"gemma4 granite-embed-multi-311m", PRE_RAW_UTF8 | PRE_ESCAPE, {LINES}},
    {"sarvam-moe", PRE_RAW_UTF8 | PRE_ESCAPE | PRE_KEEP_SPACES, {LINES}},
    {"whitespace", PRE_RAW_UTF8, {"\\S+"}},
};

const Pretokenizer *pretokenizer_at(size_t i) {
    return i < sizeof table / sizeof table[0] ? &table[i] : NULL;
}

const Pretokenizer *pretokenizer_find(const char *name, size_t n) {
    for (size_t i = 0; n && i < sizeof table / sizeof table[0]; i++) {
        for (const char *s = table[i].names; *s;) {
            size_t length = strcspn(s, " ");
            if (length == n && !memcmp(s, name, n)) return &table[i];
            s += length + (s[length] == ' ');
        }
    }
    return NULL;
}
