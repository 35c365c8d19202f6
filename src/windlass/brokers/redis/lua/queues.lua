-- The server counts waiting tasks. Held tasks are counted here; they are few, at most what the workers run at once.
-- KEYS: 1 the prefix.
-- Returns for each queue its name, its waiting tasks, its held tasks and the age of the oldest waiting task in
-- microseconds, or -1 if none is waiting.
local at, queues, found = now(), {}, {}
local function counts(queue)
  queues[queue] = queues[queue] or { depth = 0, running = 0, oldest = -1 }
  return queues[queue]
end
for _, queue in ipairs(redis.call('SMEMBERS', QUEUES)) do
  local count = counts(queue)
  for _, priority in ipairs(redis.call('ZRANGE', prefix .. 'priorities:' .. queue, 0, -1)) do
    local tasks = tasks_key(queue, priority)
    local first = redis.call('ZRANGE', tasks, 0, 0, 'WITHSCORES')
    count.depth = count.depth + redis.call('ZCARD', tasks)
    if first[2] then
      count.oldest = math.max(count.oldest, at - tonumber(first[2]), 0)
    end
  end
end
for _, lease in ipairs(redis.call('HVALS', LEASES)) do
  local _, queue = lease_origin(lease)
  counts(queue).running = counts(queue).running + 1
end
for queue, count in pairs(queues) do
  found[#found + 1] = { queue, count.depth, count.running, count.oldest }
end
return found
