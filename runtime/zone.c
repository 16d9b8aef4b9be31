/* zone.c - memory zones: the choice of a memory type, one allocation per zone. */
#include "device.h"
#include <stdlib.h>
#include <string.h>

enum {
    LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
    COHERENT = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
    PROTECTED = VK_MEMORY_PROPERTY_PROTECTED_BIT,
    AMD_COHERENT = 0xc0 /* device-coherent and uncached: slow, and behind a feature */
};

typedef struct {
    VkMemoryPropertyFlags required, preferred, avoided;
} Wish;

static Wish zone_wish(ZoneKind kind) {
    switch (kind) {
    case ZONE_DEVICE:
    case ZONE_DEVICE_ZERO: return (Wish){LOCAL, 0, VISIBLE};
    case ZONE_WEIGHTS: return (Wish){LOCAL, VISIBLE | COHERENT, 0};
    case ZONE_HOST_WEIGHTS: return (Wish){VISIBLE | COHERENT, 0, LOCAL};
    case ZONE_HOST: break;
    }
    return (Wish){VISIBLE | COHERENT, CACHED, LOCAL};
}

static uint64_t largest_local_heap(const Device *d) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < d->memory.memoryHeapCount; i++) {
        const VkMemoryHeap *h = &d->memory.memoryHeaps[i];
        if ((h->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && h->size > size) size = h->size;
    }
    return size;
}

static int bits(VkMemoryPropertyFlags f) { return __builtin_popcount(f); }

/* The index of the best memory type, -1 without one. Small windows into device memory (a 256 MiB
 * BAR) are left alone. */
static int zone_pick(const Device *d, uint32_t allowed, Wish w) {
    int best = -1, best_score = -1000;
    uint64_t most = largest_local_heap(d);
    for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++) {
        VkMemoryPropertyFlags f = d->memory.memoryTypes[i].propertyFlags;
        uint64_t heap = d->memory.memoryHeaps[d->memory.memoryTypes[i].heapIndex].size;
        if (!(allowed >> i & 1) || (f & w.required) != w.required ||
            (f & (PROTECTED | AMD_COHERENT)))
            continue;
        int score = 2 * bits(f & w.preferred) - bits(f & w.avoided);
        if ((w.required & LOCAL) && heap < most / 4 * 3) score -= 100;
        if (score > best_score) best = (int)i, best_score = score;
    }
    return best;
}

static bool zone_allocate(Zone *z, const Device *d, const char *name, ZoneKind kind) {
    VkMemoryRequirements need;
    vkGetBufferMemoryRequirements(d->handle, z->buffer, &need);
    int type = zone_pick(d, need.memoryTypeBits, zone_wish(kind));
    if (type < 0)
        return error_environment("%s has no memory type for zone '%s'", d->properties.deviceName,
                                 name);
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .allocationSize = need.size,
                                 .memoryTypeIndex = (uint32_t)type};
    VkResult r = VK_TRY(vkAllocateMemory, d->handle, &info, NULL, &z->memory);
    if (r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_OUT_OF_HOST_MEMORY) {
        char text[32];
        bool host = r == VK_ERROR_OUT_OF_HOST_MEMORY || kind >= ZONE_HOST_WEIGHTS;
        return error_environment("out of %s memory: zone '%s' needs %s; close other programs that "
                                 "use the device, or recompile "
                                 "with a smaller --ctx or --vram-budget",
                                 host ? "host" : "device", name, error_bytes(need.size, text));
    }
    z->flags = d->memory.memoryTypes[type].propertyFlags;
    return device_check(r, "vkAllocateMemory") &&
           VK_CHECK(vkBindBufferMemory, d->handle, z->buffer, z->memory, 0);
}

bool zone_init(Zone *z, const Device *d, const char *name, ZoneKind kind, uint64_t bytes) {
    *z = (Zone){.bytes = bytes};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = (bytes + 63) / 64 * 64,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    if (info.size == 0) info.size = 64;
    if (!VK_CHECK(vkCreateBuffer, d->handle, &info, NULL, &z->buffer)) return false;
    if (!zone_allocate(z, d, name, kind)) return false;
    bool staging = kind == ZONE_WEIGHTS && getenv("QCC_STAGING");
    if (kind < ZONE_WEIGHTS || staging || !(z->flags & VISIBLE) || !(z->flags & COHERENT))
        return true;
    void *p = NULL;
    if (!VK_CHECK(vkMapMemory, d->handle, z->memory, 0, VK_WHOLE_SIZE, 0, &p)) return false;
    z->mapped = p;
    if (kind == ZONE_HOST) memset(z->mapped, 0, (size_t)bytes);
    return true;
}

void zone_finish(Zone *z, const Device *d) {
    if (z->buffer) vkDestroyBuffer(d->handle, z->buffer, NULL);
    if (z->memory) vkFreeMemory(d->handle, z->memory, NULL);
    *z = (Zone){0};
}
