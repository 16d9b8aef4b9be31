% local function c_string(s) return '"' .. s:gsub('[\\"]', "\\%0"):gsub("[^\32-\126]", function(c) return ("\\%03o"):format(c:byte()) end) .. '"' end
% local function comment(s) return (s:gsub("%*/", "* /")) end
/* <%= comment(p.model_name) %> compiled by qcc <%= p.qcc_version %> for <%= comment(p.needs.device_name) %>.
 *
 * Everything that was decided about this model on this target, as tables: zones of memory, kernels, dispatches in order, and
 * the sequences that the runtime records once. runtime/plan.h explains each field. Weights and SPIR-V follow the
 * executable as frames. */
#include "runtime/plan.h"

static const PlanZone zones[] = {
% for i, z in ipairs(p.zones) do
    {<%= c_string(z.name) %>, <%= z.kind %>, <%= z.bytes %>u}, /* <%= i - 1 %> */
% end
};

static const PlanKernel kernels[] = {
% for i, k in ipairs(p.kernels) do
    {<%= c_string(k.name) %>, <%= k.n_bindings %>, <%= k.local_size %>, <%= k.subgroup %>}, /* <%= i - 1 %> */
% end
};

/* zone, offset, bytes */
static const PlanBinding bindings[] = {
% for _, o in ipairs(p.operations) do
    /* <%= comment(o.name) %> */
%   for _, b in ipairs(o.bindings) do
    {<%= b.zone %>, <%= b.offset %>u, <%= b.bytes %>u}, /* <%= b.role %>: <%= comment(b.buffer) %> */
%   end
% end
};

/* name, kernel, workgroups, first binding, barrier before, new submission, bytes */
static const PlanDispatch dispatches[] = {
% local first = 0
% for i, o in ipairs(p.operations) do
%   if o.why then
    /* <%= comment(o.why) %> */
%   end
    {<%= c_string(o.name) %>, <%= o.kernel %>, {<%= o.groups[1] %>, <%= o.groups[2] %>, <%= o.groups[3] %>}, <%= first %>, <%= o.barrier %>, <%= o.split %>, <%= o.bytes %>u}, /* <%= i - 1 %> */
%   first = first + #o.bindings
% end
};

static const PlanSequence sequences[] = {
% for _, s in ipairs(p.sequences) do
    {<%= s.kind %>, <%= s.rows %>, <%= #s.segments %>, {<%= table.concat(s.segments, ", ") %>}},
% end
};

const Plan plan = {
    .model_name = <%= c_string(p.model_name) %>,
    .arch = <%= c_string(p.arch) %>,
    .qcc_version = <%= c_string(p.qcc_version) %>,
    .n_ctx = <%= p.n_ctx %>,
    .n_vocab = <%= p.n_vocab %>,
    .n_layer = <%= p.n_layer %>,
    .n_embd = <%= p.n_embd %>,
    .n_zones = <%= #p.zones %>,
    .n_kernels = <%= #p.kernels %>,
    .n_dispatches = <%= #p.operations %>,
    .n_bindings = <%= first %>,
    .n_sequences = <%= #p.sequences %>,
    .zones = zones,
    .kernels = kernels,
    .dispatches = dispatches,
    .bindings = bindings,
    .sequences = sequences,
% for _, name in ipairs { "step", "tokens", "ring", "logits", "readback" } do
    .<%= name %> = {<%= p[name].zone %>, <%= p[name].offset %>u, <%= p[name].bytes %>u},
% end
    .needs = {
        .device_name = <%= c_string(p.needs.device_name) %>,
% for _, f in ipairs(p.needs.fields) do
        .<%= f[1] %> = <%= f[2] %>,
% end
    },
    .decode_bytes = <%= p.decode_bytes %>u,
    .manifest_hash = <%= p.manifest_hash %>u,
};
