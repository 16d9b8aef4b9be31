/*qcc
op = "embed"
roles = { "step", "tokens", "w", "y" }

function knobs(t, c)
  local list = {}
  for _, n in ipairs { 128, 64 } do
    if n <= t.max_invocations then list[#list + 1] = { LOCAL = n } end
  end
  return list
end

function groups(t, c, k)
  local n = (c.M * ((c.K + 31) // 32) * 8 + k.LOCAL - 1) // k.LOCAL
  local x = math.min(n, t.max_groups[1])
  return x, (n + x - 1) // x, 1
end
*/
/* embed.comp - rows of the token embedding, times FACTOR. One invocation for four elements. */
layout(local_size_x = LOCAL) in;
#include "lib/codes.glsl"
#include "lib/columns.glsl"
#include "lib/outliers.glsl"
#include "lib/step.h"
layout(set = 0, binding = BIND_step) readonly buffer Step { layout(offset = AT_step) uint step_words[]; };
layout(set = 0, binding = BIND_tokens) readonly buffer Tokens { layout(offset = AT_tokens) uint tokens[]; };
layout(set = 0, binding = BIND_y) writeonly buffer Y { layout(offset = AT_y) float y[]; };

void main() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint i = group * LOCAL + gl_LocalInvocationID.x;
    uint m = i / (8u * UNITS), quad = i % (8u * UNITS);
    if (m >= M) return;
    uint position = step_words[STEP_POS];
    bool valid = position + m < step_words[STEP_END];
    uint id = valid ? min(tokens[position + m], N_VOCAB - 1u) : 0u;
    if (id < ROW0 || id - ROW0 >= ROWS) return;
    vec4 v = weight4(fmt_load((id - ROW0) * UNITS + quad / 8u), quad % 8u);
#ifdef OUTLIERS
    v = outliers_put(id - ROW0, quad, v);
#endif
#ifdef COLUMNS_AT
    v *= columns4(4u * quad);
#endif
    v *= FACTOR;
    for (uint e = 0u; e < 4u; e++)
        if (4u * quad + e < K) y[m * K + 4u * quad + e] = v[e];
}
