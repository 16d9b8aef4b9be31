/*qcc
op = "rope_kv"
roles = { "step", "qkv", "rope", "kc", "vc" }
function knobs(t, c) return { { LOCAL = c.HD > 64 and 64 or 32 }, { LOCAL = 128 } } end
function shared_bytes(t, c, k) return 8 * c.HD end
function groups(t, c, k) return c.NH + 2 * c.NKV, c.M, 1 end
*/
// One group per row and head: rotates a query in place, or rotates a key and stores it, or stores a value. Rows that do not count stay.
#define STEP_ACCESS readonly
#include "lib/rows.glsl"
#include "lib/rope.glsl"
#include "lib/cache.glsl"
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_qkv) buffer Qkv { layout(offset = AT_qkv) float qkv[]; };
KV_DECLARE(writeonly, kc)
KV_DECLARE(writeonly, vc)

void main() {
    uint t = gl_LocalInvocationID.x, head = gl_WorkGroupID.x, m = gl_WorkGroupID.y;
    if (m >= rows_within(CTX)) return;
    uint position = step_word[STEP_POS] + m, at = (m * (NH + 2u * NKV) + head) * HD;
    for (uint i = t; i < HD / 2u; i += LOCAL) {
        uint a = rope_first(i), b = rope_second(i);
        vec2 x = vec2(qkv[at + a], qkv[at + b]);
        if (head < NH + NKV) x = rope_turn(x, i, position);
        if (head < NH) {
            qkv[at + a] = x.x;
            qkv[at + b] = x.y;
        } else {
            cache_row[a] = x.x;
            cache_row[b] = x.y;
        }
    }
    if (head < NH) return;
    barrier();
    for (uint u = t; u < KV_UNITS; u += LOCAL) {
        KvRaw raw = cache_encode(0u, u);
        if (head < NH + NKV) {
            KV_STORE(kc, (head - NH) * CTX + position, u, raw);
        } else {
            KV_STORE(vc, (head - NH - NKV) * CTX + position, u, raw);
        }
    }
}
