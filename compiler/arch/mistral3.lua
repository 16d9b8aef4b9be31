-- mistral3.lua - Mistral Small 3.2 and Ministral 3: llama with YaRN parameters of its own.

local llama = include "compiler/arch/llama.lua"

return function(m)
    if key("attention.temperature_scale", 0) ~= 0 then
        refuse "mistral3.attention.temperature_scale is set: attention temperature is not supported"
    end
    return llama(m, {
        beta_fast = key "rope.scaling.yarn_beta_fast", beta_slow = key "rope.scaling.yarn_beta_slow",
        log_multiplier = key "rope.scaling.yarn_log_multiplier",
    })
end
