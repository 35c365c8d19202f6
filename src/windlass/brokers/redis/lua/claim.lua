-- Claim tasks for a worker: queues in the given order, in each the highest priority first, then the lowest turn.
-- The lease is written in the same step, so a task whose answer is lost is reclaimed later.
-- KEYS: 1 the prefix. ARGV: 1 worker, 2 limit, 3 its queues and handlers as JSON, 4 the number of queues, then the queues
-- (or *) and the handlers (or *).
-- Returns the body and the delivery count of each task.
local worker, limit, queue_count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
local at = now()
redis.call('ZADD', WORKERS, at, worker)
redis.call('HSET', WORKER_CAPABILITIES, worker, ARGV[3])
local queues, handlers = {}, {}
for i = 5, 4 + queue_count do
  if ARGV[i] == '*' then
    queues = redis.call('SMEMBERS', QUEUES)
    table.sort(queues)
    break
  end
  queues[#queues + 1] = ARGV[i]
end
for i = 5 + queue_count, #ARGV do
  handlers[ARGV[i]] = true
end
local is_any = handlers['*']

-- The lines of a queue that the worker serves, grouped by priority, the highest first.
local function served_lines(queue)
  local groups, group = {}, nil
  for _, line in ipairs(redis.call('ZREVRANGE', lines_key(queue), 0, -1)) do
    local priority, handler = line_parts(line)
    if is_any or handlers[handler] then
      if not group or group.priority ~= priority then
        group = { priority = priority, handlers = {} }
        groups[#groups + 1] = group
      end
      group.handlers[#group.handlers + 1] = handler
    end
  end
  return groups
end

-- Remove the tasks with the lowest turns of several handlers. Returns ids and turns alternately, as ZPOPMIN does.
local function pop_lowest(queue, group, count)
  local found = {}
  for _, handler in ipairs(group.handlers) do
    local key = tasks_key(queue, group.priority, handler)
    local first = redis.call('ZRANGE', key, 0, count - 1, 'WITHSCORES')
    for i = 1, #first, 2 do
      found[#found + 1] = { id = first[i], turn = first[i + 1], key = key }
    end
  end
  table.sort(found, function(a, b)
    local a_turn, b_turn = tonumber(a.turn), tonumber(b.turn)
    return a_turn < b_turn or (a_turn == b_turn and a.id < b.id)
  end)
  local popped, removed = {}, {}
  for i = 1, math.min(count, #found) do
    local task = found[i]
    popped[#popped + 1] = task.id
    popped[#popped + 1] = task.turn
    removed[task.key] = removed[task.key] or {}
    table.insert(removed[task.key], task.id)
  end
  for key, ids in pairs(removed) do
    call_with_all('ZREM', key, ids)
  end
  return popped
end

local function pop(queue, group, count)
  if #group.handlers == 1 then
    return redis.call('ZPOPMIN', tasks_key(queue, group.priority, group.handlers[1]), count)
  end
  return pop_lowest(queue, group, count)
end

local has_losses = redis.call('EXISTS', LOSSES) == 1
local claimed, leases = {}, {}
for _, queue in ipairs(queues) do
  local suffix = lease_suffix(at, queue)
  for _, group in ipairs(served_lines(queue)) do
    local left = limit - #claimed / 2
    local popped = left > 0 and pop(queue, group, left) or {}
    local ids, turns = {}, {}
    for i = 1, #popped, 2 do
      ids[#ids + 1] = popped[i]
      turns[#turns + 1] = popped[i + 1]
    end
    local bodies = hash_values(BODIES, ids)
    for i, id in ipairs(ids) do
      if bodies[i] then
        claimed[#claimed + 1] = bodies[i]
        claimed[#claimed + 1] = 1 + (has_losses and redis.call('HGET', LOSSES, id) or 0)
        leases[#leases + 1] = id
        leases[#leases + 1] = new_lease(turns[i], suffix, worker)
      end
    end
    if #popped > 0 then
      for _, handler in ipairs(group.handlers) do
        remove_if_empty(queue, group.priority, handler)
      end
    end
  end
end
call_with_all('HSET', LEASES, leases)
return claimed
