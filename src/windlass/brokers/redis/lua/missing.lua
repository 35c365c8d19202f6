-- KEYS: 1 the prefix. ARGV: task ids. Returns those that are neither queued nor held.
local missing = {}
local bodies = hash_values(BODIES, ARGV)
for i = 1, #ARGV do
  if not bodies[i] or not is_placed(ARGV[i], bodies[i]) then
    missing[#missing + 1] = ARGV[i]
  end
end
return missing
