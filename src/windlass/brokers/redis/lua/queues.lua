-- The server counts waiting tasks. Held tasks are counted here; they are few, at most what the workers run at once.
-- KEYS: 1 the prefix.
-- Returns for each queue its name, its waiting tasks, its held tasks and the age of the oldest waiting task in
-- microseconds, or -1 if none is waiting, then the handlers with waiting tasks and their number.
local at, queues, found = now(), {}, {}
-- With turns, the oldest task is among the next ones.
local NEXT_MAX = 10
local function counts(queue)
  queues[queue] = queues[queue] or { depth = 0, running = 0, oldest = -1, waiting = {} }
  return queues[queue]
end
local function age(tasks)
  local oldest = 0
  for _, body in ipairs(hash_values(BODIES, redis.call('ZRANGE', tasks, 0, NEXT_MAX - 1))) do
    if body then
      oldest = math.max(oldest, at - published_at(body))
    end
  end
  return oldest
end
for _, queue in ipairs(redis.call('SMEMBERS', QUEUES)) do
  local count = counts(queue)
  for _, line in ipairs(redis.call('ZRANGE', lines_key(queue), 0, -1)) do
    local priority, handler = line_parts(line)
    local tasks = tasks_key(queue, priority, handler)
    local depth = redis.call('ZCARD', tasks)
    if depth > 0 then
      count.depth = count.depth + depth
      count.oldest = math.max(count.oldest, age(tasks))
      count.waiting[handler] = (count.waiting[handler] or 0) + depth
    end
  end
end
for _, lease in ipairs(redis.call('HVALS', LEASES)) do
  local _, queue = lease_origin(lease)
  counts(queue).running = counts(queue).running + 1
end
for queue, count in pairs(queues) do
  local row = { queue, count.depth, count.running, count.oldest }
  for handler, depth in pairs(count.waiting) do
    row[#row + 1] = handler
    row[#row + 1] = depth
  end
  found[#found + 1] = row
end
return found
