-- Hand tasks to a worker: the queues in the order it names them, in each the highest priority first, then the oldest.
-- Its lease is written in the same step, so a task whose answer is lost is held, not gone, and comes back.
-- KEYS: 1 the prefix. ARGV: 1 worker, 2 how many at most, 3 what it serves, 4… queues (or *).
-- Returns body, number of the delivery, body, number, …
local worker, limit = ARGV[1], tonumber(ARGV[2])
local at = now()
redis.call('ZADD', WORKERS, at, worker)
redis.call('HSET', SERVES, worker, ARGV[3])
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
local found, leases = {}, {}
for _, queue in ipairs(queues) do
  local tail = lease_tail(at, queue)
  for _, priority in ipairs(redis.call('ZREVRANGE', prefix .. 'priorities:' .. queue, 0, -1)) do
    local left = limit - #found / 2
    local popped = left > 0 and redis.call('ZPOPMIN', line_of(queue, priority), left) or {}
    local ids, numbers = {}, {}
    for i = 1, #popped, 2 do
      ids[#ids + 1] = popped[i]
      numbers[#numbers + 1] = popped[i + 1]
    end
    local bodies = values_of(BODIES, ids)
    for i, id in ipairs(ids) do
      if bodies[i] then
        found[#found + 1] = bodies[i]
        found[#found + 1] = 1 + (has_losses and redis.call('HGET', LOSSES, id) or 0)
        leases[#leases + 1] = id
        leases[#leases + 1] = new_lease(numbers[i], tail, worker)
      end
    end
    if #popped > 0 then
      tidy(queue, priority)
    end
  end
end
for_all('HSET', LEASES, leases)
return found
