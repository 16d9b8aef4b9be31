-- render.lua - text templates. A line whose first visible character is % is Lua; elsewhere <%= expression %> is replaced by
-- its value. render(text, env, name) returns the filled text; errors carry the template's own line numbers.
local function quote(s) return string.format("%q", s):gsub("\\\n", "\\n") end

-- One template line as one line of Lua, so that line numbers agree.
local function translate(line)
  local code = line:match("^%s*%%(.*)$")
  if code then return code end
  local parts, at = {}, 1
  while true do
    local from, to, expr = line:find("<%%=(.-)%%>", at)
    if not from then break end
    if from > at then parts[#parts + 1] = "_w(" .. quote(line:sub(at, from - 1)) .. ")" end
    parts[#parts + 1] = "_w(" .. expr .. ")"
    at = to + 1
  end
  parts[#parts + 1] = "_w(" .. quote(line:sub(at) .. "\n") .. ")"
  return table.concat(parts, " ")
end

return function(text, env, name, compile)
  local lines, out = {}, {}
  for line in text:gmatch("([^\n]*)\n") do lines[#lines + 1] = translate(line) end
  env._w = function(v) out[#out + 1] = tostring(v) end
  setmetatable(env, { __index = _G })
  compile(table.concat(lines, "\n"), name, env)()
  return table.concat(out)
end
