/* load_weights.c - weight frames to the device, on several threads.
 *
 * Each worker owns what it needs: buffers, a decompressor and two slots of the staging ring. It
 * fills a slot while the device copies out of the other one. The queue is the only thing that
 * workers share. */
#include "load_frame.h"
#include "parallel.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 2 };
typedef struct {
    VkCommandBuffer commands;
    VkFence fence;
    bool pending;
} Slot;

typedef struct {
    uint8_t *stored, *raw; /* malloc'ed */
    ZSTD_DCtx *zstd;
    VkCommandPool pool;
    Slot slot[SLOTS];
    uint32_t turn;
} Worker;

typedef struct {
    const Payload *payload;
    const Device *device;
    const Zone *zones;
    const PayloadFrame **frames; /* the weight frames */
    Worker worker[PARALLEL_MAX];
    uint32_t n_workers;
    uint64_t frame_bytes; /* of the largest frame, about PAYLOAD_FRAME_MAX */
    Zone ring;            /* [n_workers][SLOTS][frame_bytes] */
    pthread_mutex_t queue;
    uint64_t total_bytes;
    atomic_ullong done_bytes;
    double start;
    atomic_bool shown;
} Loader;

static void loader_progress(Loader *l, uint32_t worker) {
    if (worker != 0 || parallel_now() - l->start < 2 || !isatty(STDERR_FILENO)) return;
    char a[32], b[32];
    (void)fprintf(stderr, "\rloading weights: %s of %s\033[K",
                  error_bytes(atomic_load(&l->done_bytes), a), error_bytes(l->total_bytes, b));
    atomic_store(&l->shown, true);
}

static bool slot_wait(const Device *d, Slot *s) {
    if (!s->pending) return true;
    s->pending = false;
    return VK_CHECK(vkWaitForFences, d->handle, 1, &s->fence, VK_TRUE, UINT64_MAX) &&
           VK_CHECK(vkResetFences, d->handle, 1, &s->fence);
}

static bool slot_submit(Loader *l, Slot *s, uint64_t from, const PayloadFrame *f) {
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkBufferCopy copy = {from, f->target_offset, f->raw_bytes};
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                           .commandBufferCount = 1,
                           .pCommandBuffers = &s->commands};
    if (!VK_CHECK(vkBeginCommandBuffer, s->commands, &begin)) return false;
    vkCmdCopyBuffer(s->commands, l->ring.buffer, l->zones[f->id].buffer, 1, &copy);
    if (!VK_CHECK(vkEndCommandBuffer, s->commands)) return false;
    (void)pthread_mutex_lock(&l->queue);
    s->pending = VK_CHECK(vkQueueSubmit, l->device->queue, 1, &submit, s->fence);
    (void)pthread_mutex_unlock(&l->queue);
    return s->pending;
}

/* Unpacks into `to`, which may be memory that is slow to read: decompression goes through the
 * worker's own buffer. */
static bool loader_place(Loader *l, Worker *w, const PayloadFrame *f, uint8_t *to) {
    const uint8_t *raw = w->stored;
    if (!load_stored(l->payload, f, w->stored)) return false;
    if (f->codec == CODEC_ZSTD) {
        if (!load_unpack(w->zstd, f, w->stored, w->raw)) return false;
        raw = w->raw;
    }
    memcpy(to, raw, (size_t)f->raw_bytes);
    return true;
}

static bool loader_job(void *ctx, uint32_t worker, uint32_t job) {
    Loader *l = ctx;
    Worker *w = &l->worker[worker];
    const PayloadFrame *f = l->frames[job];
    const Zone *zone = &l->zones[f->id];
    if (zone->mapped) {
        if (!loader_place(l, w, f, zone->mapped + f->target_offset)) return false;
    } else {
        Slot *s = &w->slot[w->turn];
        uint64_t from = ((uint64_t)worker * SLOTS + w->turn) * l->frame_bytes;
        w->turn = (w->turn + 1) % SLOTS;
        if (!slot_wait(l->device, s) || !loader_place(l, w, f, l->ring.mapped + from) ||
            !slot_submit(l, s, from, f))
            return false;
    }
    (void)atomic_fetch_add(&l->done_bytes, f->raw_bytes);
    loader_progress(l, worker);
    return true;
}

static bool worker_init(Worker *w, const Device *d, uint64_t frame_bytes, bool staging) {
    w->stored = error_alloc(frame_bytes, 1, "loading weights");
    w->raw = error_alloc(frame_bytes, 1, "loading weights");
    w->zstd = ZSTD_createDCtx();
    if (!w->stored || !w->raw) return false;
    if (!w->zstd) return error_environment("out of memory: decompression");
    if (!staging) return true;
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .queueFamilyIndex = d->family,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
    if (!VK_CHECK(vkCreateCommandPool, d->handle, &pool, NULL, &w->pool)) return false;
    VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = w->pool,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    for (int i = 0; i < SLOTS; i++)
        if (!VK_CHECK(vkAllocateCommandBuffers, d->handle, &commands, &w->slot[i].commands) ||
            !VK_CHECK(vkCreateFence, d->handle, &fence, NULL, &w->slot[i].fence))
            return false;
    return true;
}

static void worker_finish(Worker *w, const Device *d) {
    for (int i = 0; i < SLOTS; i++)
        if (w->slot[i].fence) vkDestroyFence(d->handle, w->slot[i].fence, NULL);
    if (w->pool) vkDestroyCommandPool(d->handle, w->pool, NULL);
    (void)ZSTD_freeDCtx(w->zstd);
    free(w->raw);
    free(w->stored);
}

/* Collects the weight frames; true in *staging if one of them goes to memory that is not mapped. */
static bool loader_collect(Loader *l, const Plan *p, uint32_t *n, bool *staging) {
    l->frames = error_alloc(l->payload->n_frames, sizeof *l->frames, "the list of weights");
    if (!l->frames) return false;
    for (uint64_t i = 0; i < l->payload->n_frames; i++) {
        const PayloadFrame *f = &l->payload->frames[i];
        if (f->kind != FRAME_WEIGHTS || f->raw_bytes == 0) continue;
        if (f->id >= p->n_zones || f->target_offset > p->zones[f->id].bytes ||
            f->raw_bytes > p->zones[f->id].bytes - f->target_offset)
            return error_user("this executable is damaged (frame %llu lies outside of its zone); "
                              "compile it again",
                              (unsigned long long)i);
        l->frames[(*n)++] = f;
        l->total_bytes += f->raw_bytes;
        if (f->raw_bytes > l->frame_bytes) l->frame_bytes = f->raw_bytes;
        if (f->stored_bytes > l->frame_bytes) l->frame_bytes = f->stored_bytes;
        if (!l->zones[f->id].mapped) *staging = true;
    }
    l->frame_bytes = (l->frame_bytes + PAYLOAD_ALIGN - 1) / PAYLOAD_ALIGN * PAYLOAD_ALIGN;
    return true;
}

static bool loader_run(Loader *l, uint32_t n_frames, bool staging) {
    uint32_t workers = parallel_workers();
    if (workers > n_frames) workers = n_frames ? n_frames : 1;
    if (staging && !zone_init(&l->ring, l->device, "staging ring", ZONE_HOST,
                              (uint64_t)workers * SLOTS * l->frame_bytes))
        return false;
    for (l->n_workers = 0; l->n_workers < workers;)
        if (!worker_init(&l->worker[l->n_workers++], l->device, l->frame_bytes, staging))
            return false;
    return parallel_run(workers, n_frames, loader_job, l);
}

bool load_weights(const Payload *payload, const Device *d, const Plan *p, const Zone *zones) {
    Loader *l = error_alloc(1, sizeof *l, "loading weights");
    if (!l) return false;
    *l = (Loader){.payload = payload,
                  .device = d,
                  .zones = zones,
                  .queue = PTHREAD_MUTEX_INITIALIZER,
                  .start = parallel_now()};
    uint32_t n = 0;
    bool staging = false;
    bool ok = loader_collect(l, p, &n, &staging) && loader_run(l, n, staging);
    if (staging && d->handle) { /* nothing may be in flight when the ring goes */
        VkResult idle = vkQueueWaitIdle(d->queue);
        if (ok) ok = device_check(idle, "vkQueueWaitIdle");
    }
    if (atomic_load(&l->shown)) (void)fprintf(stderr, "\r\033[K");
    for (uint32_t i = 0; i < l->n_workers; i++) worker_finish(&l->worker[i], d);
    zone_finish(&l->ring, d);
    (void)pthread_mutex_destroy(&l->queue);
    free(l->frames);
    free(l);
    return ok;
}
