-- What waits is counted by the server; what is held, as much as workers take at once, is looked through.
-- KEYS: 1 the prefix.
-- Returns of each queue its name, how many wait, how many are held, and for how many microseconds the oldest waits; -1
-- when nothing does.
local at, queues, found = now(), {}, {}
local function seen(queue)
  queues[queue] = queues[queue] or { depth = 0, running = 0, waits = -1 }
  return queues[queue]
end
for _, queue in ipairs(redis.call('SMEMBERS', QUEUES)) do
  local one = seen(queue)
  for _, priority in ipairs(redis.call('ZRANGE', prefix .. 'priorities:' .. queue, 0, -1)) do
    local line = line_of(queue, priority)
    local head = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
    one.depth = one.depth + redis.call('ZCARD', line)
    if head[2] then
      one.waits = math.max(one.waits, at - tonumber(head[2]), 0)
    end
  end
end
for _, lease in ipairs(redis.call('HVALS', LEASES)) do
  local _, queue = taken_of(lease)
  if queue then
    seen(queue).running = seen(queue).running + 1
  end
end
for queue, one in pairs(queues) do
  found[#found + 1] = { queue, one.depth, one.running, one.waits }
end
return found
