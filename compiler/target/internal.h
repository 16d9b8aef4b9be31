/* internal.h - what the files of target/ share: a parsed profile, and the rules that complete what
 * it does not say. */
#ifndef QCC_TARGET_INTERNAL_H
#define QCC_TARGET_INTERNAL_H
#include "../embed.h"
#include "target.h"
#include <jansson.h>

#define PROFILES_PREFIX "compiler/target/profiles/"

/* ---- profile.c ------------------------------------------------------------------------------- */

enum { PROFILE_MAX_BLOCKS = 16 };
typedef struct {
    Arena *arena;
    const char *where; /* file or built-in name, for messages */
    const json_t *root, *profile;
    const json_t
        *blocks[PROFILE_MAX_BLOCKS]; /* the capability blocks that the profile guarantees */
    size_t n_blocks;
} Profile;

/* Structures are named without "VkPhysicalDevice", separated by spaces; each is also tried with the
 * suffix KHR. The first one that has the field answers; NULL if none has. `section` is "features"
 * or "properties". */
const json_t *profile_find(const Profile *p, const char *section, const char *structs,
                           const char *field);
typedef enum { SAYS_NOTHING, SAYS_NO, SAYS_YES } Says;
Says profile_bool(const Profile *p, const char *section, const char *structs, const char *field);
uint64_t profile_u64(const Profile *p, const char *structs, const char *field, uint64_t absent);
const char *profile_string(const Profile *p, const char *structs,
                           const char *field); /* NULL if absent */
/* A set of flags: an array of names, or a number. */
Says profile_flag(const Profile *p, const char *structs, const char *field, const char *name,
                  uint64_t bit);
bool profile_extension(const Profile *p, const char *name);

/* JSON text -> Target, before the shader compiler has its say. `name` becomes the target's name. */
Target *profile_parse(Arena *a, const char *name, const char *text, size_t n);

/* ---- rules.c --------------------------------------------------------------------------------- */

typedef enum {
    CLASS_UNKNOWN,
    CLASS_DISCRETE,
    CLASS_INTEGRATED,
    CLASS_MOBILE,
    CLASS_CPU
} DeviceClass;
DeviceClass rules_class(const Profile *p, const Target *t);
/* Sets caps[] and missing[] to what the device can do. */
void rules_capabilities(const Profile *p, DeviceClass c, Target *t);
/* Takes away what the shader compiler cannot do. */
void rules_apply_ability(Arena *a, Target *t, const ShaderAbility *s);
/* Fills the fields that are still 0 (memory, units, costs, cooperative matrix shapes) with facts or
 * estimates. */
void rules_estimate(DeviceClass c, Target *t);

const EmbeddedFile *rules_builtin(const char *name);      /* NULL if there is none of this name */
const char *rules_near_names(Arena *a, const char *name); /* "a, b, c" */
/* The name of a built-in profile's file without folder and .json, or NULL if the file is something
 * else. */
const char *rules_builtin_name(Arena *a, const EmbeddedFile *f);
#endif
