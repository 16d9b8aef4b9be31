/* load.c - opens and checks the payload, reads single frames. */
#define XXH_INLINE_ALL
#include "load_frame.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define DAMAGED "this executable is damaged (%s); copy or compile it again"

uint64_t load_hash(const void *p, uint64_t bytes) { return XXH3_64bits(p, (size_t)bytes); }

static const char *frame_kind(uint32_t kind) {
    static const char *const names[] = {"weights", "kernel", "vocabulary", "manifest",
                                        "check vectors"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

bool load_pread(int fd, void *to, uint64_t bytes, uint64_t offset) {
    uint8_t *at = to;
    while (bytes > 0) {
        ssize_t n = pread(fd, at, bytes < 1u << 30 ? (size_t)bytes : 1u << 30, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_environment("cannot read this executable: %s", strerror(errno));
        if (n == 0) return error_user(DAMAGED, "it ends too early");
        at += n;
        bytes -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

static bool check_footer(const PayloadFooter *f, uint64_t file_bytes, const Plan *p) {
    if (memcmp(f->magic, PAYLOAD_MAGIC, sizeof f->magic) != 0)
        return error_user(DAMAGED, "no payload at its end");
    if (f->footer_hash != load_hash(f, offsetof(PayloadFooter, footer_hash)))
        return error_user(DAMAGED, "footer checksum");
    if (f->file_bytes != file_bytes)
        return error_user("this executable is damaged (it has %llu bytes, expected %llu); copy or "
                          "compile it again",
                          (unsigned long long)file_bytes, (unsigned long long)f->file_bytes);
    uint64_t end = file_bytes - sizeof *f;
    if (f->index_offset > end || f->n_frames != (end - f->index_offset) / sizeof(PayloadFrame))
        return error_user(DAMAGED, "index size");
    if (f->plan_hash != p->manifest_hash)
        return error_user(DAMAGED, "its payload belongs to another program");
    return true;
}

static bool read_index(Payload *l) {
    l->frames = error_alloc(l->footer.n_frames, sizeof *l->frames, "the payload's index");
    if (!l->frames) return false;
    uint64_t bytes = l->footer.n_frames * sizeof *l->frames;
    if (!load_pread(l->fd, l->frames, bytes, l->footer.index_offset)) return false;
    if (load_hash(l->frames, bytes) != l->footer.index_hash)
        return error_user(DAMAGED, "index checksum");
    for (uint64_t i = 0; i < l->footer.n_frames; i++) {
        const PayloadFrame *f = &l->frames[i];
        if (f->file_offset > l->footer.index_offset ||
            f->stored_bytes > l->footer.index_offset - f->file_offset || f->codec > CODEC_ZSTD ||
            (f->codec == CODEC_STORED && f->stored_bytes != f->raw_bytes))
            return error_user(DAMAGED, "index contents");
    }
    l->n_frames = l->footer.n_frames;
    return true;
}

bool load_open(Payload *l, const Plan *p) {
    *l = (Payload){.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
    struct stat st;
    l->opened = l->fd >= 0;
    if (!l->opened || fstat(l->fd, &st) != 0)
        return error_environment("cannot open /proc/self/exe: %s", strerror(errno));
    uint64_t bytes = (uint64_t)st.st_size;
    if (bytes < sizeof l->footer) return error_user(DAMAGED, "no payload at its end");
    return load_pread(l->fd, &l->footer, sizeof l->footer, bytes - sizeof l->footer) &&
           check_footer(&l->footer, bytes, p) && read_index(l);
}

void load_close(Payload *l) {
    if (l->opened) (void)close(l->fd);
    free(l->frames);
    *l = (Payload){0};
}

const PayloadFrame *load_find(const Payload *l, FrameKind kind, uint32_t id) {
    for (uint64_t i = 0; i < l->n_frames; i++)
        if (l->frames[i].kind == (uint32_t)kind && l->frames[i].id == id) return &l->frames[i];
    return NULL;
}

bool load_stored(const Payload *l, const PayloadFrame *f, void *to) {
    if (!load_pread(l->fd, to, f->stored_bytes, f->file_offset)) return false;
    if (load_hash(to, f->stored_bytes) == f->hash) return true;
    return error_user(
        "this executable is damaged (checksum of frame %lld: %s %u); copy or compile it again",
        (long long)(f - l->frames), frame_kind(f->kind), f->id);
}

bool load_unpack(ZSTD_DCtx *z, const PayloadFrame *f, const void *stored, void *to) {
    size_t n = ZSTD_decompressDCtx(z, to, (size_t)f->raw_bytes, stored, (size_t)f->stored_bytes);
    if (!ZSTD_isError(n) && n == f->raw_bytes) return true;
    return error_user(
        "this executable is damaged (frame of %s %u does not decompress); compile it again",
        frame_kind(f->kind), f->id);
}

uint8_t *load_read(const Payload *l, const PayloadFrame *f) {
    uint8_t *raw = error_alloc(f->raw_bytes + 1, 1, frame_kind(f->kind));
    if (!raw || f->codec == CODEC_STORED) {
        if (raw && load_stored(l, f, raw)) return raw;
        free(raw);
        return NULL;
    }
    uint8_t *stored = error_alloc(f->stored_bytes, 1, frame_kind(f->kind));
    ZSTD_DCtx *z = ZSTD_createDCtx();
    bool ok = stored && z && load_stored(l, f, stored) && load_unpack(z, f, stored, raw);
    if (!z) (void)error_environment("out of memory: decompression");
    (void)ZSTD_freeDCtx(z);
    free(stored);
    if (ok) return raw;
    free(raw);
    return NULL;
}
