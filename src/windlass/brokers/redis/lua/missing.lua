-- KEYS: 1 the prefix. ARGV: task ids. Returns those that are neither queued nor held.
local missing = {}
for i = 1, #ARGV do
  if redis.call('HEXISTS', BODIES, ARGV[i]) == 0 then
    missing[#missing + 1] = ARGV[i]
  end
end
return missing
