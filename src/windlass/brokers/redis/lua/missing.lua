-- KEYS: 1 the prefix. ARGV: tasks. Returns those that are neither queued nor held.
local absent = {}
for i = 1, #ARGV do
  if redis.call('HEXISTS', BODIES, ARGV[i]) == 0 then
    absent[#absent + 1] = ARGV[i]
  end
end
return absent
