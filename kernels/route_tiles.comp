/*qcc
op = "route_tiles"
roles = { "route", "tiles" }
function knobs(t, c) return { { LOCAL = 256 }, { LOCAL = 128 } } end
function shared_bytes(t, c, k) return 4 * (c.N_EXPERT + k.LOCAL) end
function groups(t, c, k) return c.N_EXPERT, 1, 1 end
*/
// Pairs (row, slot) sorted by expert, in tiles of TILE pairs of one expert: one group per expert
// counts all pairs, then writes its own in their order. A tile is its expert, then TILE pairs;
// absent pairs, and the experts of unused tiles, are 0xffffffff.
layout(local_size_x = LOCAL) in;
layout(std430, set = 0, binding = BIND_route) readonly buffer Route { layout(offset = AT_route) uvec2 route[]; };
layout(std430, set = 0, binding = BIND_tiles) writeonly buffer Tiles { layout(offset = AT_tiles) uint tiles[]; };

const uint PAIRS = M * N_USED;
const uint EACH = (PAIRS + LOCAL - 1u) / LOCAL; // pairs of an invocation, neighbours
const uint WORDS = TILE + 1u, NONE = 0xffffffffu;

shared uint count[N_EXPERT], running[LOCAL];

uint tiles_of(uint expert) { return (count[expert] + TILE - 1u) / TILE; }

// Sum of v over the invocations before this one.
uint sum_before(uint t, uint v) {
    uint sum = v;
    for (uint s = 1u; s < LOCAL; s *= 2u) {
        running[t] = sum;
        barrier();
        if (t >= s) sum += running[t - s];
        barrier();
    }
    return sum - v;
}

void main() {
    uint t = gl_LocalInvocationID.x, expert = gl_WorkGroupID.x;
    uint from = t * EACH, to = min(from + EACH, PAIRS), own = 0u;
    for (uint e = t; e < N_EXPERT; e += LOCAL) count[e] = 0u;
    barrier();
    for (uint pair = from; pair < to; pair++) {
        uint e = route[pair].x;
        atomicAdd(count[e], 1u);
        if (e == expert) own++;
    }
    uint at = sum_before(t, own), first = 0u;
    uint mine = tiles_of(expert);
    for (uint e = 0u; e < expert; e++) first += tiles_of(e);
    for (uint i = t; i < mine; i += LOCAL) tiles[(first + i) * WORDS] = expert;
    for (uint pair = from; pair < to; pair++)
        if (route[pair].x == expert) {
            tiles[(first + at / TILE) * WORDS + 1u + at % TILE] = pair;
            at++;
        }
    for (uint i = count[expert] + t; i < mine * TILE; i += LOCAL)
        tiles[(first + i / TILE) * WORDS + 1u + i % TILE] = NONE;
    if (expert + 1u < N_EXPERT) return;
    for (uint i = (first + mine) * WORDS + t; i < TILES * WORDS; i += LOCAL) tiles[i] = NONE;
}
