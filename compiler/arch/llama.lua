-- llama.lua - Llama 1 to 3, Mistral, Mixtral, TinyLlama, SmolLM: norm, rotary attention, norm, gated feed-forward.
-- Rotary pairs are neighbours; Llama 3.1 and later bring factors in rope_freqs.

local common = include "compiler/arch/lib/common.lua"

return function(m, rope_options)
    if m.n_rot ~= m.head_dim then
        refuse(string.format("rope.dimension_count is %d, expected the head's size %d", m.n_rot, m.head_dim))
    end
    if m.head_dim_v ~= m.head_dim then
        refuse(string.format("attention.value_length is %d, expected key_length %d", m.head_dim_v, m.head_dim))
    end
    local rope_parameters = common.rope(m, rope_options)
    local x = embed("token_embd", m.n_embd)
    for i = 0, m.n_layer - 1 do
        local blk = "blk." .. i .. "."
        x = x + common.attention(m, i, rms_norm(x, blk .. "attn_norm", m.norm_eps), rope_parameters)
        local f = rms_norm(x, blk .. "ffn_norm", m.norm_eps)
        if m.n_expert > 0 then
            x = x + moe(f, blk .. "ffn", { n_expert = m.n_expert, n_used = m.n_expert_used, n_ff = m.n_ff[i] })
        else
            x = x + common.swiglu(m, i, f)
        end
    end
    return common.head(m, x)
end
