/* link.c - see link.h. */
#define _GNU_SOURCE
#include "link.h"
#include "embed.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The host's runtime library, made by the Makefile and placed in qcc by the assembler. */
extern const uint8_t runtime_archive[];
extern const uint64_t runtime_archive_bytes;
extern char **environ;

enum { MAX_ARGS = 96 };

static int remove_entry(const char *path, const struct stat *s, int type, struct FTW *f) {
    (void)s, (void)type, (void)f;
    return remove(path);
}
static void workdir_release(void *dir) { nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS); }

const char *link_workdir(Arena *a) {
    const char *base = getenv("TMPDIR");
    char *dir = arena_printf(a, "%s/qcc.XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(dir))
        fail(FAIL_ENVIRONMENT, "%s: cannot make a temporary directory: %s (set TMPDIR)", dir,
             strerror(errno));
    arena_defer(a, workdir_release, dir);
    return dir;
}

/* ---- running a command ----------------------------------------------------------------------- */

typedef struct {
    char *argv[MAX_ARGS];
    int n;
} Command;

static void arg(Command *c, const char *s) {
    ASSERT(c->n + 1 < MAX_ARGS);
    c->argv[c->n++] = (char *)(uintptr_t)s;
}
static void args_split(Arena *a, Command *c, const char *words) {
    char *save, *copy = arena_strdup(a, words);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) arg(c, w);
}

/* Exit status of the command, or -1 if it could not be started; what it printed goes to `log`. */
static int command_run(Command *c, const char *log) {
    posix_spawn_file_actions_t io;
    posix_spawn_file_actions_init(&io);
    posix_spawn_file_actions_addopen(&io, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&io, 1, 2);
    pid_t pid;
    int e = posix_spawnp(&pid, c->argv[0], &io, NULL, c->argv, environ), status;
    posix_spawn_file_actions_destroy(&io);
    if (e != 0) return errno = e, -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* First lines of a command's output, on one line. */
static const char *log_text(Arena *a, const char *path) {
    char buf[512];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(buf, 1, sizeof buf, f) : 0;
    if (f) fclose(f);
    for (size_t i = 0; i < n; i++)
        if (buf[i] == '\n') buf[i] = ' ';
    return printable(a, buf, n, sizeof buf);
}

/* ---- the compiler ---------------------------------------------------------------------------- */

static bool compiler_runs(const char *cc) {
    Command c = {{0}, 0};
    arg(&c, cc), arg(&c, "--version");
    return command_run(&c, "/dev/null") == 0;
}

static const char *compiler_find(void) {
    const char *env = getenv("CC");
    if (env && *env) return env;
    static const char *const names[] = {"cc", "gcc", "clang"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (compiler_runs(names[i])) return names[i];
    fail(FAIL_ENVIRONMENT, "no C compiler: none of cc, gcc, clang runs here; install one (apt "
                           "install gcc libc6-dev) or name one with --cc");
}

static void sources_write(Arena *a, const char *dir, const char *prefix) {
    for (const EmbeddedFile *e = embedded_files; e->path; e++) {
        if (strncmp(e->path, prefix, strlen(prefix)) != 0) continue;
        char *path = arena_printf(a, "%s/%s", dir, e->path);
        *strrchr(path, '/') = 0;
        file_mkdirs(path);
        path[strlen(path)] = '/';
        file_write(path, e->text, e->n, 0600);
    }
}

/* The runtime: the library that qcc carries, or its source for another compiler. */
static void runtime_args(Arena *a, Command *c, const char *dir, bool own) {
    sources_write(a, dir, "runtime/");
    sources_write(a, dir, "kernels/lib/step.h");
    if (!own) {
        const char *lib = arena_printf(a, "%s/libqccrt.a", dir);
        file_write(lib, runtime_archive, runtime_archive_bytes, 0600);
        arg(c, lib);
        return;
    }
    for (const EmbeddedFile *e = embedded_files; e->path; e++) {
        size_t n = strlen(e->path);
        if (strncmp(e->path, "runtime/", 8) == 0 && strcmp(e->path + n - 2, ".c") == 0)
            arg(c, arena_printf(a, "%s/%s", dir, e->path));
    }
    arg(c, "-l:libzstd.a");
}

const char *link_elf(Arena *a, const char *dir, const char *c_text, const char *cc,
                     bool keep_symbols) {
    const char *source = arena_printf(a, "%s/model.c", dir),
               *out = arena_printf(a, "%s/model.elf", dir);
    const char *log = arena_printf(a, "%s/cc.log", dir);
    file_write(source, c_text, strlen(c_text), 0600);
    Command c = {{0}, 0};
    args_split(a, &c, cc ? cc : compiler_find());
    if (c.n == 0) fail(FAIL_USAGE, "--cc needs a command");
    arg(&c, "-std=gnu17"), arg(&c, cc ? "-O2" : "-O1"), arg(&c, "-I"), arg(&c, dir);
    if (!keep_symbols) arg(&c, "-s");
    arg(&c, "-Wl,--gc-sections"), arg(&c, "-Wl,--build-id=none"), arg(&c, "-o"), arg(&c, out),
        arg(&c, source);
    runtime_args(a, &c, dir, cc != NULL);
    arg(&c, "-pthread"), arg(&c, "-lm");
    int status = command_run(&c, log);
    if (status == -1 || status == 127)
        fail(FAIL_ENVIRONMENT,
             "cannot run the C compiler '%s': %s; install one or name another with --cc", c.argv[0],
             status == -1 ? strerror(errno) : "not found");
    if (status != 0)
        fail(FAIL_ENVIRONMENT, "the C compiler '%s' failed (status %d): %s", c.argv[0], status,
             log_text(a, log));
    return out;
}
