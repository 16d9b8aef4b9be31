/*qcc
op = "advance"
roles = { "step" }
function knobs(t, c) return { { LOCAL = 1 } } end
function groups(t, c, k) return 1, 1, 1 end
*/
// POS += valid.
#define STEP_ACCESS
#include "lib/rows.glsl"
layout(local_size_x = LOCAL) in;

void main() { step_word[STEP_POS] += rows_valid(); }
