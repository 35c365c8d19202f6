-- Rarely asked, so what each worker holds is counted here and not kept.
-- KEYS: 1 the prefix. ARGV: 1 how many at most.
-- Returns of each worker its id, when it was last seen, what it serves, and how many tasks it holds.
local found, held = {}, {}
for _, lease in ipairs(redis.call('HVALS', LEASES)) do
  local holder = holder_of(lease)
  held[holder] = (held[holder] or 0) + 1
end
local seen = redis.call('ZRANGE', WORKERS, 0, ARGV[1] - 1, 'WITHSCORES')
for i = 1, #seen, 2 do
  found[#found + 1] = { seen[i], seen[i + 1], redis.call('HGET', SERVES, seen[i]) or '', held[seen[i]] or 0 }
end
return found
