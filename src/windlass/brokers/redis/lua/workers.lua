-- Called rarely, so the tasks of each worker are counted here and not stored.
-- KEYS: 1 the prefix. ARGV: 1 workers at most, 2 tasks of each worker at most.
-- Returns for each worker its id, the time of its last call, the microseconds since then, its queues and handlers as
-- JSON, the number of held tasks, then the id and the time of the claim of some of them.
local at = now()
local found, held, tasks = {}, {}, {}
local leases = redis.call('HGETALL', LEASES)
for i = 1, #leases, 2 do
  local holder = lease_holder(leases[i + 1])
  held[holder] = (held[holder] or 0) + 1
  local shown = tasks[holder] or {}
  tasks[holder] = shown
  if #shown < 2 * ARGV[2] then
    shown[#shown + 1] = leases[i]
    shown[#shown + 1] = lease_origin(leases[i + 1])
  end
end
local workers = redis.call('ZRANGE', WORKERS, 0, ARGV[1] - 1, 'WITHSCORES')
for i = 1, #workers, 2 do
  local worker = workers[i]
  local capabilities = redis.call('HGET', WORKER_CAPABILITIES, worker) or ''
  local silent = at - tonumber(workers[i + 1])
  found[#found + 1] = { worker, workers[i + 1], silent, capabilities, held[worker] or 0, unpack(tasks[worker] or {}) }
end
return found
