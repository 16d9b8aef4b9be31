-- common.lua - parts that many architectures share. Each takes the model first and the layer's index where it has one.

local common = {}

-- Effective rotary parameters. `o` overrides: halves, beta_fast, beta_slow, log_multiplier.
-- YaRN (arXiv 2309.00071) multiplies sine and cosine by 1 + 0.1 ln(factor). `rope` does that itself, so that attn_factor holds
-- only what remains: 1 without a log multiplier.
function common.rope(m, o)
    o = o or {}
    local scaling = m.rope_scaling
    local factor = m.rope_factor > 0 and scaling ~= "none" and m.rope_factor or 1.0
    local yarn = scaling == "yarn"
    local attn = m.rope_attn_factor
    if yarn then
        local function magnitude(k) return factor <= 1 and 1.0 or 0.1 * k * math.log(factor) + 1 end
        local k = o.log_multiplier or 0
        local wanted = magnitude(1)
        if k ~= 0 then wanted = wanted / magnitude(k) end
        attn = attn * wanted / (1 + 0.1 * math.log(factor))
    end
    return {
        head_dim = m.head_dim, n_rot = m.n_rot, halves = o.halves or false, base = m.rope_base,
        freq_scale = 1 / factor, ext_factor = yarn and 1 or 0, attn_factor = attn,
        beta_fast = o.beta_fast or 32, beta_slow = o.beta_slow or 1,
        n_ctx_orig = m.rope_n_ctx_orig, factors = common.rope_factors(m),
    }
end

-- Divisors of the angles: Llama 3 (rope_freqs), or longrope, where the context's length chooses once for all positions.
function common.rope_factors(m)
    local freqs = tensor "rope_freqs.weight"
    local long, short = tensor "rope_factors_long.weight", tensor "rope_factors_short.weight"
    if freqs then return freqs end
    if m.rope_scaling ~= "longrope" then return nil end
    if m.n_ctx > m.rope_n_ctx_orig then return long else return short end
end

local function with_heads(parameters, n_head)
    local t = { n_head = n_head }
    for name, v in pairs(parameters) do t[name] = v end
    return t
end

-- q, k, v of a layer, from three matrices or from one whose rows are q, then k, then v.
function common.qkv(m, i, x)
    local blk = "blk." .. i .. "."
    local fused, bias = tensor(blk .. "attn_qkv.weight"), tensor(blk .. "attn_qkv.bias")
    local scale = tensor(blk .. "attn_qkv.scale")
    local width = {
        q = m.n_head[i] * m.head_dim, k = m.n_head_kv[i] * m.head_dim, v = m.n_head_kv[i] * m.head_dim,
    }
    if width.q == 0 or width.k == 0 then
        refuse(string.format("layer %d has %d heads and %d KV heads, expected at least 1", i, m.n_head[i], m.n_head_kv[i]))
    end
    local first, out = 0, {}
    for _, part in ipairs { "q", "k", "v" } do
        local n = width[part]
        out[part] = linear(x, blk .. "attn_" .. part, n, {
            weight = fused and fused:rows(first, n), bias = bias and bias:rows(first, n), scale = scale,
        })
        first = first + n
    end
    if fused and fused.ne[2] ~= first then
        refuse(string.format("tensor %s: %d rows, expected %d", fused.name, fused.ne[2], first))
    end
    return out.q, out.k, out.v
end

-- Causal self-attention with rotated q and k, up to the output matrix.
function common.attention(m, i, x, rope_parameters)
    local q, k, v = common.qkv(m, i, x)
    q = rope(q, with_heads(rope_parameters, m.n_head[i]))
    k = rope(k, with_heads(rope_parameters, m.n_head_kv[i]))
    local o = attention(q, k, v, {
        n_head = m.n_head[i], n_head_kv = m.n_head_kv[i], head_dim = m.head_dim,
        scale = 1 / math.sqrt(m.head_dim),
    })
    return linear(o, "blk." .. i .. ".attn_output", m.n_embd)
end

-- Gated feed-forward: down(silu(gate x) * up x).
function common.swiglu(m, i, x)
    local blk = "blk." .. i .. "."
    local gate = silu(linear(x, blk .. "ffn_gate", m.n_ff[i]))
    local up = linear(x, blk .. "ffn_up", m.n_ff[i])
    return linear(gate * up, blk .. "ffn_down", m.n_embd)
end

-- Final norm and output matrix; without one, the token embedding's.
function common.head(m, x)
    local h = rms_norm(x, "output_norm", m.norm_eps)
    local weight = tensor "output.weight" or tensor "token_embd.weight"
    return linear(h, "output", m.n_vocab, { weight = weight })
end

return common
