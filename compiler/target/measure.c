/* measure.c - what the cost model needs to know of a device, timed by the wall clock.
 *
 * Every figure comes from a command buffer with enough work in it that submitting weighs little,
 * and submitting is subtracted. Of several runs the fastest counts: everything else that a machine
 * does only adds time. */
#include "probe.h"
#include <shaderc/shaderc.h>
#include <string.h>

/* Reads N uvec4 with eight independent loads in flight per invocation. */
static const char read_glsl[] =
    "#version 450\n"
    "layout(local_size_x = 128) in;\n"
    "layout(set = 0, binding = 0) buffer A { uvec4 a[]; };\n"
    "layout(push_constant) uniform P { uint n; };\n"
    "void main() {\n"
    "    uint step = gl_NumWorkGroups.x * 128u, i = gl_GlobalInvocationID.x;\n"
    "    uvec4 s = uvec4(0);\n"
    "    for (; i + 7u * step < n; i += 8u * step)\n"
    "        s ^= a[i] ^ a[i + step] ^ a[i + 2u * step] ^ a[i + 3u * step] ^\n"
    "             a[i + 4u * step] ^ a[i + 5u * step] ^ a[i + 6u * step] ^ a[i + 7u * step];\n"
    "    for (; i < n; i += step) s ^= a[i];\n"
    "    if ((s.x ^ s.y ^ s.z ^ s.w) == 0x12345678u) a[0] = s;\n"
    "}\n";

/* Writes a little, so that a barrier has something to wait for. */
static const char empty_glsl[] =
    "#version 450\n"
    "layout(local_size_x = 128) in;\n"
    "layout(set = 0, binding = 0) buffer A { uint a[]; };\n"
    "layout(push_constant) uniform P { uint n; };\n"
    "void main() { if (gl_LocalInvocationID.x == 0u) a[gl_WorkGroupID.x & 1023u] += n; }\n";

/* 16 independent chains; 128 floating-point operations per turn. */
static const char fma_glsl[] =
    "#version 450\n"
    "#define STEP x = fma(x, m, c); y = fma(y, m, c); z = fma(z, m, c); w = fma(w, m, c);\n"
    "layout(local_size_x = 128) in;\n"
    "layout(set = 0, binding = 0) buffer A { vec4 a[]; };\n"
    "layout(push_constant) uniform P { uint n; };\n"
    "void main() {\n"
    "    vec4 m = vec4(0.999) + a[1] * 1e-30, c = vec4(0.5) + a[2] * 1e-30;\n"
    "    vec4 x = vec4(gl_LocalInvocationID.x), y = x + 1.0, z = x + 2.0, w = x + 3.0;\n"
    "    for (uint i = 0u; i < n; i++) { STEP STEP STEP STEP }\n"
    "    x += y + z + w;\n"
    "    if (x.x + x.y + x.z + x.w == 12345.678) a[0] = x;\n"
    "}\n";

/* 8 independent chains of OpSDot (packed 4x8) and add; 256 integer operations per turn. */
static const char dot_glsl[] =
    "#version 450\n"
    "#extension GL_EXT_spirv_intrinsics : require\n"
    "layout(local_size_x = 128) in;\n"
    "layout(set = 0, binding = 0) buffer A { ivec4 a[]; };\n"
    "layout(push_constant) uniform P { uint n; };\n"
    "spirv_instruction(extensions = [\"SPV_KHR_integer_dot_product\"], capabilities = [6019, "
    "6018], id = 4450)\n"
    "int dot4(int a, int b, spirv_literal int packed);\n"
    "#define DOT(x) x += dot4(x, v, 0);\n"
    "#define STEP DOT(x0) DOT(x1) DOT(x2) DOT(x3) DOT(x4) DOT(x5) DOT(x6) DOT(x7)\n"
    "void main() {\n"
    "    int v = a[1].x, x0 = v, x1 = v + 1, x2 = v + 2, x3 = v + 3, x4 = v + 4, x5 = v + 5, x6 = "
    "v + 6, x7 = v + 7;\n"
    "    v ^= int(gl_LocalInvocationID.x);\n"
    "    for (uint i = 0u; i < n; i++) { STEP STEP STEP STEP }\n"
    "    if ((x0 ^ x1 ^ x2 ^ x3 ^ x4 ^ x5 ^ x6 ^ x7) == 0x12345678) a[0] = ivec4(v);\n"
    "}\n";

enum { LOCAL = 128, RUNS = 5 };
static const double enough_s = 5e-3; /* a timing shorter than this gets more work */

typedef struct {
    ProbeDevice *d;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t bytes;
    VkDescriptorSetLayout set_layout;
    VkDescriptorPool set_pool;
    VkDescriptorSet set;
    VkPipelineLayout layout;
    VkPipeline pipelines[4];
    uint32_t n_pipelines;
    double submit_s;
} Bench;

/* Accepts a half-built bench: destroying a null handle does nothing. */
static void bench_release(void *arg) {
    Bench *b = arg;
    if (!b->device) return;
    vkDeviceWaitIdle(b->device);
    for (uint32_t i = 0; i < b->n_pipelines; i++)
        vkDestroyPipeline(b->device, b->pipelines[i], NULL);
    vkDestroyPipelineLayout(b->device, b->layout, NULL);
    vkDestroyDescriptorPool(b->device, b->set_pool, NULL);
    vkDestroyDescriptorSetLayout(b->device, b->set_layout, NULL);
    vkDestroyBuffer(b->device, b->buffer, NULL);
    vkFreeMemory(b->device, b->memory, NULL);
    vkDestroyFence(b->device, b->fence, NULL);
    vkDestroyCommandPool(b->device, b->pool, NULL);
    vkDestroyDevice(b->device, NULL);
}

/* ---- device, buffer, pipelines --------------------------------------------------------------- */

static uint32_t compute_family(const ProbeDevice *d) {
    VkQueueFamilyProperties f[32];
    uint32_t n = 32;
    vkGetPhysicalDeviceQueueFamilyProperties(d->device, &n, f);
    for (uint32_t i = 0; i < n; i++)
        if (f[i].queueFlags & VK_QUEUE_COMPUTE_BIT) return i;
    fail(FAIL_ENVIRONMENT, "probing %s: no queue can compute", d->properties.deviceName);
}

static void bench_open(Bench *b) {
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = compute_family(b->d),
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .shaderIntegerDotProduct = VK_TRUE};
    const char *extension = "VK_KHR_shader_integer_dot_product";
    bool by_extension = b->d->integer_dot && b->d->api_version < VK_API_VERSION_1_3;
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = b->d->integer_dot ? &dot : NULL,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = by_extension,
                               .ppEnabledExtensionNames = &extension};
    probe_check(vkCreateDevice(b->d->device, &info, NULL, &b->device), b->d, "vkCreateDevice");
    volkLoadDevice(b->device);
    b->family = queue.queueFamilyIndex;
    vkGetDeviceQueue(b->device, b->family, 0, &b->queue);
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .queueFamilyIndex = b->family};
    probe_check(vkCreateCommandPool(b->device, &pool, NULL, &b->pool), b->d, "vkCreateCommandPool");
    VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = b->pool,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
    probe_check(vkAllocateCommandBuffers(b->device, &commands, &b->commands), b->d,
                "vkAllocateCommandBuffers");
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    probe_check(vkCreateFence(b->device, &fence, NULL, &b->fence), b->d, "vkCreateFence");
}

/* Larger than any cache, smaller than any limit: a power of two between 16 KiB and 2 GiB (64 MiB on
 * a CPU). */
static uint64_t buffer_size(const ProbeDevice *d) {
    uint64_t most = d->properties.limits.maxStorageBufferRange, size = 16384;
    if (d->max_allocation < most) most = d->max_allocation;
    for (uint32_t i = 0; i < d->memory.memoryHeapCount; i++)
        if (d->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT &&
            d->memory.memoryHeaps[i].size / 4 < most)
            most = d->memory.memoryHeaps[i].size / 4;
    uint64_t goal = d->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? UINT64_C(64) << 20
                                                                            : UINT64_C(2) << 30;
    while (size < goal && size * 2 <= most) size *= 2;
    return size;
}

static uint32_t memory_type(const Bench *b, uint32_t allowed) {
    const VkPhysicalDeviceMemoryProperties *m = &b->d->memory;
    for (uint32_t i = 0; i < m->memoryTypeCount; i++)
        if (allowed >> i & 1 &&
            m->memoryTypes[i].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)
            return i;
    fail(FAIL_ENVIRONMENT, "probing %s: no device-local memory for a buffer",
         b->d->properties.deviceName);
}

static void buffer_create(Bench *b) {
    b->bytes = buffer_size(b->d);
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = b->bytes,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    probe_check(vkCreateBuffer(b->device, &info, NULL, &b->buffer), b->d, "vkCreateBuffer");
    VkMemoryRequirements need;
    vkGetBufferMemoryRequirements(b->device, b->buffer, &need);
    VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                   .allocationSize = need.size,
                                   .memoryTypeIndex = memory_type(b, need.memoryTypeBits)};
    probe_check(vkAllocateMemory(b->device, &memory, NULL, &b->memory), b->d, "vkAllocateMemory");
    probe_check(vkBindBufferMemory(b->device, b->buffer, b->memory, 0), b->d, "vkBindBufferMemory");
}

static void set_create(Bench *b) {
    VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                            .descriptorCount = 1,
                                            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = 1,
        .pBindings = &binding};
    probe_check(vkCreateDescriptorSetLayout(b->device, &layout, NULL, &b->set_layout), b->d,
                "vkCreateDescriptorSetLayout");
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
    VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = 1,
                                       .poolSizeCount = 1,
                                       .pPoolSizes = &size};
    probe_check(vkCreateDescriptorPool(b->device, &pool, NULL, &b->set_pool), b->d,
                "vkCreateDescriptorPool");
    VkDescriptorSetAllocateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                       .descriptorPool = b->set_pool,
                                       .descriptorSetCount = 1,
                                       .pSetLayouts = &b->set_layout};
    probe_check(vkAllocateDescriptorSets(b->device, &set, &b->set), b->d,
                "vkAllocateDescriptorSets");
    VkDescriptorBufferInfo range = {b->buffer, 0, b->bytes};
    VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                  .dstSet = b->set,
                                  .descriptorCount = 1,
                                  .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                  .pBufferInfo = &range};
    vkUpdateDescriptorSets(b->device, 1, &write, 0, NULL);
    VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 4};
    VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = 1,
                                       .pSetLayouts = &b->set_layout,
                                       .pushConstantRangeCount = 1,
                                       .pPushConstantRanges = &push};
    probe_check(vkCreatePipelineLayout(b->device, &info, NULL, &b->layout), b->d,
                "vkCreatePipelineLayout");
}

/* The SPIR-V of a shader on the arena, as words; *bytes its size. */
static const uint32_t *shader_words(Arena *a, const char *glsl, const char *name, size_t *bytes) {
    shaderc_compiler_t c = shaderc_compiler_initialize();
    shaderc_compile_options_t o = shaderc_compile_options_initialize();
    shaderc_compile_options_set_target_env(o, shaderc_target_env_vulkan,
                                           shaderc_env_version_vulkan_1_1);
    shaderc_compile_options_set_optimization_level(o, shaderc_optimization_level_performance);
    shaderc_compilation_result_t r =
        shaderc_compile_into_spv(c, glsl, strlen(glsl), shaderc_compute_shader, name, "main", o);
    bool ok = shaderc_result_get_compilation_status(r) == shaderc_compilation_status_success;
    *bytes = ok ? shaderc_result_get_length(r) : 0;
    const uint32_t *words = ok ? arena_copy(a, shaderc_result_get_bytes(r), *bytes) : NULL;
    const char *error = ok ? NULL : arena_strdup(a, shaderc_result_get_error_message(r));
    shaderc_result_release(r);
    shaderc_compile_options_release(o);
    shaderc_compiler_release(c);
    if (!ok)
        fail(FAIL_ENVIRONMENT, "the shader compiler refuses the probe's shader %s: %s", name,
             error);
    return words;
}

static VkPipeline pipeline_create(Bench *b, const char *glsl, const char *name) {
    size_t bytes;
    const uint32_t *words = shader_words(b->d->arena, glsl, name, &bytes);
    VkShaderModuleCreateInfo module = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                       .codeSize = bytes,
                                       .pCode = words};
    VkShaderModule m;
    probe_check(vkCreateShaderModule(b->device, &module, NULL, &m), b->d, "vkCreateShaderModule");
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .layout = b->layout,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = m,
                  .pName = "main"}};
    VkPipeline p = VK_NULL_HANDLE;
    VkResult r = vkCreateComputePipelines(b->device, VK_NULL_HANDLE, 1, &info, NULL, &p);
    vkDestroyShaderModule(b->device, m, NULL);
    probe_check(r, b->d, name);
    b->pipelines[b->n_pipelines++] = p;
    return p;
}

/* ---- timing ---------------------------------------------------------------------------------- */

static void commands_begin(Bench *b) {
    probe_check(vkResetCommandPool(b->device, b->pool, 0), b->d, "vkResetCommandPool");
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    probe_check(vkBeginCommandBuffer(b->commands, &info), b->d, "vkBeginCommandBuffer");
}

/* Submits the recorded commands and waits; the seconds that took. */
static double commands_run(Bench *b) {
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                         .commandBufferCount = 1,
                         .pCommandBuffers = &b->commands};
    double start = now_s();
    probe_check(vkQueueSubmit(b->queue, 1, &info, b->fence), b->d, "vkQueueSubmit");
    probe_check(vkWaitForFences(b->device, 1, &b->fence, VK_TRUE, UINT64_C(20000000000)), b->d,
                "vkWaitForFences");
    double s = now_s() - start;
    probe_check(vkResetFences(b->device, 1, &b->fence), b->d, "vkResetFences");
    return s;
}

static void buffer_clear(Bench *b) {
    commands_begin(b);
    vkCmdFillBuffer(b->commands, b->buffer, 0, VK_WHOLE_SIZE, 0);
    probe_check(vkEndCommandBuffer(b->commands), b->d, "vkEndCommandBuffer");
    commands_run(b);
}

typedef struct {
    VkPipeline pipeline;
    uint32_t groups, n, repeat;
    bool barriers;
} Work;

/* Seconds of the work without what submitting costs, the fastest of some runs after one that warms
 * up. */
static double work_time(Bench *b, const Work *w) {
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_SHADER_READ_BIT |
                                                VK_ACCESS_SHADER_WRITE_BIT};
    commands_begin(b);
    vkCmdBindPipeline(b->commands, VK_PIPELINE_BIND_POINT_COMPUTE, w->pipeline);
    vkCmdBindDescriptorSets(b->commands, VK_PIPELINE_BIND_POINT_COMPUTE, b->layout, 0, 1, &b->set,
                            0, NULL);
    vkCmdPushConstants(b->commands, b->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4, &w->n);
    for (uint32_t i = 0; i < w->repeat; i++) {
        vkCmdDispatch(b->commands, w->groups, 1, 1);
        if (w->barriers)
            vkCmdPipelineBarrier(b->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0,
                                 NULL);
    }
    probe_check(vkEndCommandBuffer(b->commands), b->d, "vkEndCommandBuffer");
    double best = commands_run(b);
    for (int i = 0; i < RUNS; i++) {
        double s = commands_run(b);
        if (s < best) best = s;
    }
    best -= b->submit_s;
    return best > 1e-7 ? best : 1e-7;
}

/* Doubles *amount until the work takes long enough to be timed. */
static double grown_time(Bench *b, Work *w, uint32_t *amount, uint32_t most) {
    double s = work_time(b, w);
    while (s < enough_s && *amount < most) {
        *amount *= 2;
        s = work_time(b, w);
    }
    return s;
}

static double submit_time(Bench *b, VkPipeline empty) {
    Work w = {.pipeline = empty, .groups = 1, .repeat = 1};
    double best = work_time(b, &w);
    for (int i = 0; i < 4; i++) {
        double s = work_time(b, &w);
        if (s < best) best = s;
    }
    return best;
}

static uint32_t groups_at_most(const Bench *b, uint64_t n) {
    uint32_t most = b->d->properties.limits.maxComputeWorkGroupCount[0];
    return n < most ? (uint32_t)n : most;
}

/* The best of some grids: how many groups a device wants differs. */
static double read_rate(Bench *b, VkPipeline p) {
    double best = 0;
    for (uint32_t groups = 1024; groups <= 16384; groups *= 4) {
        Work w = {.pipeline = p,
                  .groups = groups_at_most(b, groups),
                  .n = (uint32_t)(b->bytes / 16),
                  .repeat = 1};
        double s = grown_time(b, &w, &w.repeat, 64);
        double gbps = (double)b->bytes * w.repeat / s * 1e-9;
        if (gbps > best) best = gbps;
    }
    return best;
}

static double arithmetic_rate(Bench *b, VkPipeline p, double operations_per_turn) {
    Work w = {.pipeline = p,
              .groups = groups_at_most(b, (uint64_t)(b->d->n_units ? b->d->n_units : 16) * 32),
              .n = 16,
              .repeat = 1};
    double s = grown_time(b, &w, &w.n, 1u << 20);
    return operations_per_turn * w.n * w.groups * (double)LOCAL / s * 1e-9;
}

Measured measure_device(ProbeDevice *d) {
    Bench *b = ARENA_NEW(d->arena, Bench);
    b->d = d;
    arena_defer(d->arena, bench_release, b);
    bench_open(b);
    buffer_create(b);
    set_create(b);
    buffer_clear(b);
    Measured m = {0};
    VkPipeline empty = pipeline_create(b, empty_glsl, "empty");
    b->submit_s = submit_time(b, empty);
    m.submit_us = b->submit_s * 1e6;
    Work w = {.pipeline = empty,
              .groups = groups_at_most(b, d->n_units ? d->n_units : 16),
              .n = 1,
              .repeat = 64};
    m.dispatch_us = grown_time(b, &w, &w.repeat, 4096) / w.repeat * 1e6;
    w.barriers = true;
    double waiting = work_time(b, &w) / w.repeat * 1e6;
    m.barrier_us = waiting > m.dispatch_us + 0.01 ? waiting - m.dispatch_us
                                                  : 0.01; /* 0 would mean unknown */
    m.read_gbps = read_rate(b, pipeline_create(b, read_glsl, "read"));
    m.flops_gf = arithmetic_rate(b, pipeline_create(b, fma_glsl, "fma"), 128);
    if (d->integer_dot) m.idot_gops = arithmetic_rate(b, pipeline_create(b, dot_glsl, "dot"), 256);
    return m;
}
