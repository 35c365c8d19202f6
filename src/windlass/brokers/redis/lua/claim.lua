-- Claim tasks for a worker: queues in the given order, in each the highest priority first, then the oldest task.
-- The lease is written in the same step, so a task whose answer is lost is reclaimed later.
-- KEYS: 1 the prefix. ARGV: 1 worker, 2 limit, 3 the queues as JSON, 4… the queues (or *).
-- Returns the body and the delivery count of each task.
local worker, limit = ARGV[1], tonumber(ARGV[2])
local at = now()
redis.call('ZADD', WORKERS, at, worker)
redis.call('HSET', WORKER_QUEUES, worker, ARGV[3])
local queues = {}
for i = 4, #ARGV do
  if ARGV[i] == '*' then
    queues = redis.call('SMEMBERS', QUEUES)
    table.sort(queues)
    break
  end
  queues[#queues + 1] = ARGV[i]
end
local has_losses = redis.call('EXISTS', LOSSES) == 1
local claimed, leases = {}, {}
for _, queue in ipairs(queues) do
  local suffix = lease_suffix(at, queue)
  for _, priority in ipairs(redis.call('ZREVRANGE', prefix .. 'priorities:' .. queue, 0, -1)) do
    local left = limit - #claimed / 2
    local popped = left > 0 and redis.call('ZPOPMIN', tasks_key(queue, priority), left) or {}
    local ids, numbers = {}, {}
    for i = 1, #popped, 2 do
      ids[#ids + 1] = popped[i]
      numbers[#numbers + 1] = popped[i + 1]
    end
    local bodies = hash_values(BODIES, ids)
    for i, id in ipairs(ids) do
      if bodies[i] then
        claimed[#claimed + 1] = bodies[i]
        claimed[#claimed + 1] = 1 + (has_losses and redis.call('HGET', LOSSES, id) or 0)
        leases[#leases + 1] = id
        leases[#leases + 1] = new_lease(numbers[i], suffix, worker)
      end
    end
    if #popped > 0 then
      remove_if_empty(queue, priority)
    end
  end
end
call_with_all('HSET', LEASES, leases)
return claimed
