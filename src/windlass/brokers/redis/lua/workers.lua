-- Rarely asked, so what each worker holds is counted here and not kept.
-- KEYS: 1 the prefix. ARGV: 1 how many at most, 2 how many tasks of each at most.
-- Returns of each worker its id, when it was last seen, what it serves, how many tasks it holds, and of some of them
-- the id and since when.
local found, held, tasks = {}, {}, {}
local leases = redis.call('HGETALL', LEASES)
for i = 1, #leases, 2 do
  local holder = holder_of(leases[i + 1])
  held[holder] = (held[holder] or 0) + 1
  local some = tasks[holder] or {}
  tasks[holder] = some
  if #some < 2 * ARGV[2] then
    some[#some + 1] = leases[i]
    some[#some + 1] = taken_of(leases[i + 1])
  end
end
local seen = redis.call('ZRANGE', WORKERS, 0, ARGV[1] - 1, 'WITHSCORES')
for i = 1, #seen, 2 do
  local worker = seen[i]
  local serves = redis.call('HGET', SERVES, worker) or ''
  found[#found + 1] = { worker, seen[i + 1], serves, held[worker] or 0, unpack(tasks[worker] or {}) }
end
return found
