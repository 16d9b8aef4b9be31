/* pipeline.c - layouts, shader modules, pipelines, the pipeline cache file. */
#include "pipeline.h"
#include "parallel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The cache file is this header and the driver's data. A file that does not match it is ignored and
 * replaced. */
typedef struct {
    char magic[8];
    uint8_t uuid[VK_UUID_SIZE];
    uint32_t vendor, device, driver, reserved;
    uint64_t program, bytes, hash; /* of the data */
} CacheHeader;

static CacheHeader cache_header(const Device *d, const Plan *p) {
    CacheHeader h = {.magic = "QCCPIPE1",
                     .vendor = d->properties.vendorID,
                     .device = d->properties.deviceID,
                     .driver = d->properties.driverVersion,
                     .program = p->manifest_hash};
    memcpy(h.uuid, d->properties.pipelineCacheUUID, VK_UUID_SIZE);
    return h;
}

/* "~/.cache/qcc/3f2a...-10de-2330.pipelines" or false where there is no home; makes the directories
 * if asked to. */
static bool cache_path(char path[1024], const Device *d, const Plan *p, bool make) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char base[700];
    if (xdg && *xdg == '/') (void)snprintf(base, sizeof base, "%s", xdg);
    else if (home && *home == '/') (void)snprintf(base, sizeof base, "%s/.cache", home);
    else return false;
    if (strlen(base) + 1 >= sizeof base) return false;
    if (make) (void)mkdir(base, 0700);
    (void)snprintf(path, 1024, "%s/qcc", base);
    if (make) (void)mkdir(path, 0700);
    (void)snprintf(path, 1024, "%s/qcc/%016llx-%04x-%04x.pipelines", base,
                   (unsigned long long)p->manifest_hash, d->properties.vendorID,
                   d->properties.deviceID);
    return true;
}

/* The data of a valid cache file (malloc'ed) or NULL. */
static uint8_t *cache_load(const Device *d, const Plan *p, uint64_t *bytes) {
    char path[1024];
    CacheHeader want = cache_header(d, p), h;
    uint8_t *data = NULL;
    FILE *f = cache_path(path, d, p, false) ? fopen(path, "rb") : NULL;
    if (!f) return NULL;
    if (fread(&h, sizeof h, 1, f) == 1 && memcmp(&h, &want, offsetof(CacheHeader, bytes)) == 0 &&
        h.bytes < 1u << 30 && (data = malloc((size_t)h.bytes + 1)) != NULL) {
        *bytes = h.bytes;
        if (fread(data, 1, (size_t)h.bytes, f) != h.bytes || load_hash(data, h.bytes) != h.hash)
            free(data), data = NULL;
    }
    (void)fclose(f);
    return data;
}

static void cache_write(const char *path, const CacheHeader *h, const void *data) {
    char temporary[1100];
    (void)snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    FILE *f = fopen(temporary, "wb");
    if (!f) return;
    bool ok = fwrite(h, sizeof *h, 1, f) == 1 && fwrite(data, 1, (size_t)h->bytes, f) == h->bytes;
    ok = fclose(f) == 0 && ok;
    if (!ok || rename(temporary, path) != 0) (void)remove(temporary);
}

/* Writes the driver's data unless it is what was loaded. */
static void cache_save(const Pipelines *s, const Device *d, uint64_t loaded_hash) {
    char path[1024];
    size_t bytes = 0;
    if (vkGetPipelineCacheData(d->handle, s->cache, &bytes, NULL) != VK_SUCCESS || bytes == 0)
        return;
    void *data = malloc(bytes);
    if (data && vkGetPipelineCacheData(d->handle, s->cache, &bytes, data) == VK_SUCCESS) {
        CacheHeader h = cache_header(d, s->plan);
        h.bytes = bytes;
        h.hash = load_hash(data, bytes);
        if (h.hash != loaded_hash && cache_path(path, d, s->plan, true))
            cache_write(path, &h, data);
    }
    free(data);
}

static bool cache_create(Pipelines *s, const Device *d, uint64_t *loaded_hash) {
    uint64_t bytes = 0;
    uint8_t *data = cache_load(d, s->plan, &bytes);
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                      .initialDataSize = data ? (size_t)bytes : 0,
                                      .pInitialData = data};
    *loaded_hash = data ? load_hash(data, bytes) : 0;
    bool ok = VK_CHECK(vkCreatePipelineCache, d->handle, &info, NULL, &s->cache);
    free(data);
    return ok;
}

static bool layout_create(Pipelines *s, const Device *d, uint32_t n) {
    VkDescriptorSetLayoutBinding *b = error_alloc(n, sizeof *b, "layouts");
    if (!b) return false;
    for (uint32_t i = 0; i < n; i++)
        b[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                              .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                              .descriptorCount = 1,
                                              .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo set = {.sType =
                                               VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                           .bindingCount = n,
                                           .pBindings = b};
    VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = 1,
                                       .pSetLayouts = &s->sets[n]};
    bool ok = VK_CHECK(vkCreateDescriptorSetLayout, d->handle, &set, NULL, &s->sets[n]) &&
              VK_CHECK(vkCreatePipelineLayout, d->handle, &info, NULL, &s->layouts[n]);
    free(b);
    return ok;
}

typedef struct {
    Pipelines *pipelines;
    const uint32_t *kernels; /* one for each job */
} Build;

static bool pipeline_create(const Pipelines *s, const PlanKernel *k, VkShaderModule module,
                            VkPipeline *out) {
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = k->subgroup};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .layout = s->layouts[k->n_bindings],
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main"}};
    if (k->subgroup && s->device->size_control) {
        info.stage.pNext = &size;
        if (s->device->full_subgroups && k->local_size % k->subgroup == 0)
            info.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    VkResult r = VK_TRY(vkCreateComputePipelines, s->device->handle, s->cache, 1, &info, NULL, out);
    if (r >= 0 || r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_OUT_OF_HOST_MEMORY ||
        r == VK_ERROR_DEVICE_LOST)
        return device_check(r, "vkCreateComputePipelines");
    return error_environment(
        "the driver refused kernel '%s' (VkResult %d); update the driver of %s, or recompile with "
        "`qcc --target auto` on this machine",
        k->name, (int)r, s->device->properties.deviceName);
}

static bool pipeline_job(void *ctx, uint32_t worker, uint32_t job) {
    const Build *b = ctx;
    Pipelines *s = b->pipelines;
    uint32_t index = b->kernels[job];
    const PlanKernel *k = &s->plan->kernels[index];
    const PayloadFrame *f = load_find(s->payload, FRAME_SPIRV, index);
    (void)worker;
    if (!f || f->raw_bytes < 20 || f->raw_bytes % 4)
        return error_user("this executable is damaged (kernel %u is missing); compile it again",
                          index);
    uint8_t *words = load_read(s->payload, f);
    if (!words) return false;
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = (size_t)f->raw_bytes,
                                     .pCode = (const uint32_t *)(const void *)words};
    VkShaderModule module = VK_NULL_HANDLE;
    bool ok = VK_CHECK(vkCreateShaderModule, s->device->handle, &info, NULL, &module) &&
              pipeline_create(s, k, module, &s->kernels[index]);
    if (module) vkDestroyShaderModule(s->device->handle, module, NULL);
    free(words);
    return ok;
}

bool pipeline_init(Pipelines *s, const Device *d, const Plan *p, const Payload *l) {
    *s = (Pipelines){.plan = p, .device = d, .payload = l};
    for (uint32_t i = 0; i < p->n_kernels; i++)
        if (p->kernels[i].n_bindings >= s->n_layouts) s->n_layouts = p->kernels[i].n_bindings + 1;
    s->sets = error_alloc(s->n_layouts, sizeof *s->sets, "layouts");
    s->layouts = error_alloc(s->n_layouts, sizeof *s->layouts, "layouts");
    s->kernels = error_alloc(p->n_kernels, sizeof *s->kernels, "pipelines");
    if (!s->sets || !s->layouts || !s->kernels) return false;
    for (uint32_t i = 0; i < p->n_kernels; i++)
        if (!s->layouts[p->kernels[i].n_bindings] && !layout_create(s, d, p->kernels[i].n_bindings))
            return false;
    return cache_create(s, d, &s->loaded_hash);
}

/* Adds the kernel to the list unless it is built or listed. */
static void kernel_want(const Pipelines *s, uint32_t *list, uint32_t *n, uint32_t kernel) {
    bool have = s->kernels[kernel] != VK_NULL_HANDLE;
    for (uint32_t i = 0; i < *n && !have; i++) have = list[i] == kernel;
    if (!have) list[(*n)++] = kernel;
}

bool pipeline_build(Pipelines *s, const PlanSequence *q) {
    uint32_t n = 0, *list = error_alloc(s->plan->n_kernels, sizeof *list, "pipelines");
    if (!list) return false;
    for (uint32_t i = 0; i < q->n_segments; i++)
        for (uint32_t k = 0; k < q->segment[i].count; k++)
            kernel_want(s, list, &n, s->plan->dispatches[q->segment[i].first + k].kernel);
    Build b = {s, list};
    bool ok = n == 0 || parallel_run(parallel_workers(), n, pipeline_job, &b);
    if (n) s->built = true;
    free(list);
    return ok;
}

void pipeline_finish(Pipelines *s, const Device *d) {
    if (s->built) cache_save(s, d, s->loaded_hash);
    for (uint32_t i = 0; s->kernels && i < s->plan->n_kernels; i++)
        if (s->kernels[i]) vkDestroyPipeline(d->handle, s->kernels[i], NULL);
    for (uint32_t i = 0; s->layouts && i < s->n_layouts; i++)
        if (s->layouts[i]) vkDestroyPipelineLayout(d->handle, s->layouts[i], NULL);
    for (uint32_t i = 0; s->sets && i < s->n_layouts; i++)
        if (s->sets[i]) vkDestroyDescriptorSetLayout(d->handle, s->sets[i], NULL);
    if (s->cache) vkDestroyPipelineCache(d->handle, s->cache, NULL);
    free(s->kernels);
    free(s->layouts);
    free(s->sets);
    *s = (Pipelines){0};
}
