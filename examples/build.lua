-- build.lua - one model for several targets: qcc script examples/build.lua [OUT-DIRECTORY]
local out = arg[1] or "."
local model = "examples/tiny-stories-3m-q4_k_m.gguf"

local builds = {
  { target = "lavapipe-25.0", ctx = 256 },
  { target = "nvidia-h200", batch = 64 },
  -- the least that Android 15 promises
  { target = "android-15-requirements", kv = "f32" },
}

for _, b in ipairs(builds) do
  b.model = model
  b.output = ("%s/tiny-stories-%s"):format(out, b.target)
  -- per-layer overrides: operations by name (* is any text), then knobs of their kernel
  b.overrides = { ["blk.0.*"] = { inner = "f32" } }
  print(qcc.compile(b))
end
