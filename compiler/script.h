/* script.h - build scripts in Lua: many models, targets and settings in one run. docs/scripting.md
 * is the manual. */
#ifndef QCC_SCRIPT_H
#define QCC_SCRIPT_H
#include "compile.h"

/* Runs FILE with the arguments in `arg`. Options given before it are the defaults of every
 * qcc.compile. */
void script_run(Arena *a, const char *path, int n_args, char **args,
                const CompileOptions *defaults);
#endif
