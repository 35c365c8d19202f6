-- Shared by all scripts: this text precedes each of them.
-- KEYS: 1 the prefix of all keys. The scripts derive the other keys from it, so a cluster is not supported.
--
-- bodies           hash    task id -> header (a line of JSON) and the encoded task, queued or held
-- tasks:Q:P        zset    task id -> number: the waiting tasks of queue Q with priority P, oldest first
-- priorities:Q     zset    priority -> itself: the priorities of queue Q that have waiting tasks
-- queues           set     the queues that have waiting tasks
-- leases           hash    task id -> number, time of the claim, queue and holder of a held task
-- last_number      string  the last number that was assigned
-- heartbeats       hash    task id -> last heartbeat of its holder; absent before the first one
-- losses           hash    task id -> how often it was reclaimed
-- workers          zset    worker id -> time of its last call
-- worker_queues    hash    worker id -> the queues it serves
-- cancellations:W  list    held tasks that worker W must stop
-- inbox:S          stream  messages to shard S
-- The channels work:Q, work:*, cancel:W and inbox:S notify waiting processes.
local prefix = KEYS[1]
local BODIES, LEASES, HEARTBEATS = prefix .. 'bodies', prefix .. 'leases', prefix .. 'heartbeats'
local LOSSES, QUEUES, LAST_NUMBER = prefix .. 'losses', prefix .. 'queues', prefix .. 'last_number'
local WORKERS, WORKER_QUEUES = prefix .. 'workers', prefix .. 'worker_queues'
-- Cancellations of a worker that never receives them expire. `extend` returns the same information.
local CANCELLATIONS_SECONDS_MAX = 3600

-- The server's clock in microseconds, because the clocks of engines and workers may differ.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function tasks_key(queue, priority)
  return prefix .. 'tasks:' .. queue .. ':' .. priority
end

-- A lease is a padded line with the task's number, the time of the claim and the queue, then the holder. The padding
-- matters: Redis stores a hash of short values as a list and would search hundreds of entries on each access.
local LINE_WIDTH, LINE_END = 64, 10
local LINE = '%-' .. LINE_WIDTH .. 's\n'

-- The part after the number, which is the same for all leases of one claim and queue.
local function lease_suffix(at, queue)
  return string.format(' %.0f %s', at, queue)
end

local function new_lease(number, suffix, worker)
  return string.format(LINE, number .. suffix) .. worker
end

local function lease_holder(lease)
  if string.byte(lease, LINE_WIDTH + 1) == LINE_END then
    return string.sub(lease, LINE_WIDTH + 2)
  end
  -- A long queue name makes the line longer.
  return string.match(lease, '\n(.*)')
end

-- The time of the claim and the queue.
local function lease_origin(lease)
  return string.match(lease, '^%d+ (%d+) (.-) *\n')
end

local function lease_number(lease)
  return string.match(lease, '^%d+')
end

-- One command for many items is much cheaper than many commands. Lua passes at most 8,000 values at once.
local ITEMS_MAX = 4000
local function call_with_all(command, key, items)
  for i = 1, #items, ITEMS_MAX do
    redis.call(command, key, unpack(items, i, math.min(i + ITEMS_MAX - 1, #items)))
  end
end

-- The values of many fields of a hash; false for a field that does not exist.
local function hash_values(key, fields)
  local values = {}
  for i = 1, #fields, ITEMS_MAX do
    local found = redis.call('HMGET', key, unpack(fields, i, math.min(i + ITEMS_MAX - 1, #fields)))
    for j = 1, #found do
      values[i + j - 1] = found[j]
    end
  end
  return values
end

-- Collect a task to be queued under its number; `enqueue_collected` queues all of them.
local function collect(collected, queue, priority, number, id)
  local key = tasks_key(queue, priority)
  local group = collected[key]
  if not group then
    group = { queue = queue, priority = priority, items = {} }
    collected[key] = group
  end
  local items = group.items
  items[#items + 1] = number
  items[#items + 1] = id
end

local function enqueue_collected(collected)
  local notified = {}
  for key, group in pairs(collected) do
    call_with_all('ZADD', key, group.items)
    redis.call('ZADD', prefix .. 'priorities:' .. group.queue, group.priority, group.priority)
    if not notified[group.queue] then
      notified[group.queue] = true
      redis.call('SADD', QUEUES, group.queue)
      redis.call('PUBLISH', prefix .. 'work:' .. group.queue, '')
    end
  end
  if next(notified) then
    redis.call('PUBLISH', prefix .. 'work:*', '')
  end
end

-- Remove the names of an empty queue, so that an idle server stores nothing.
local function remove_if_empty(queue, priority)
  local priorities = prefix .. 'priorities:' .. queue
  if redis.call('EXISTS', tasks_key(queue, priority)) == 0 then
    redis.call('ZREM', priorities, priority)
    if redis.call('EXISTS', priorities) == 0 then
      redis.call('SREM', QUEUES, queue)
    end
  end
end

local function remove_leases(ids)
  call_with_all('HDEL', LEASES, ids)
  -- Most tasks finish before their first heartbeat.
  if redis.call('EXISTS', HEARTBEATS) == 1 then
    call_with_all('HDEL', HEARTBEATS, ids)
  end
end

local function remove_bodies(ids)
  call_with_all('HDEL', BODIES, ids)
  -- Mostly no task was ever lost.
  if redis.call('EXISTS', LOSSES) == 1 then
    call_with_all('HDEL', LOSSES, ids)
  end
end

-- The decoded header of a body, or nil if it is invalid.
local function header_of(body)
  local is_valid, header = pcall(cjson.decode, string.sub(body, 1, (string.find(body, '\n', 1, true) or 1) - 1))
  if is_valid and type(header) == 'table' and header.queue and header.priority then
    return header
  end
  return nil
end

-- Remove a task, queued or held. Its holder is asked to stop.
local function remove_task(id, lease)
  if lease then
    local holder = lease_holder(lease)
    local cancellations = prefix .. 'cancellations:' .. holder
    remove_leases({ id })
    redis.call('RPUSH', cancellations, id)
    redis.call('EXPIRE', cancellations, CANCELLATIONS_SECONDS_MAX)
    redis.call('PUBLISH', prefix .. 'cancel:' .. holder, '')
  else
    local body = redis.call('HGET', BODIES, id)
    local header = body and header_of(body)
    if header then
      redis.call('ZREM', tasks_key(header.queue, header.priority), id)
      remove_if_empty(header.queue, header.priority)
    end
  end
  remove_bodies({ id })
end

-- End a lease and collect the task for its former position. A task without a valid body is removed: the engine finds
-- it missing and publishes it again. Returns the header, or nil.
local function requeue(collected, id, lease)
  remove_leases({ id })
  local body = redis.call('HGET', BODIES, id)
  local header = body and header_of(body)
  if header then
    collect(collected, header.queue, header.priority, lease_number(lease), id)
  else
    remove_bodies({ id })
  end
  return header
end

-- Messages that a notification contains, which saves the owner of the shard a round trip.
local PUSHED_MAX, PUSHED_BYTES_MAX = 100, 32768

-- Append a message to the inbox of a shard; `notify_shards` notifies all shards that were appended to.
local function send(notifications, shard, message)
  local inbox = prefix .. 'inbox:' .. shard
  local notification = notifications[shard]
  if not notification then
    local newest = redis.call('XREVRANGE', inbox, '+', '-', 'COUNT', 1)[1]
    notification = { head = { newest and newest[1] or '0-0' }, messages = {}, bytes = 0 }
    notifications[shard] = notification
  end
  local id = redis.call('XADD', inbox, '*', 'm', message)
  notification.bytes = notification.bytes + #message
  if #notification.messages < PUSHED_MAX and notification.bytes <= PUSHED_BYTES_MAX then
    notification.head[#notification.head + 1] = id .. ' ' .. #message
    notification.messages[#notification.messages + 1] = message
  else
    notification.is_too_long = true
  end
end

-- A notification is empty, or a line followed by the messages. The line contains the id of the preceding message, which
-- must have been read for these to be the next ones, then the id and the length of each message.
local function notify_shards(notifications)
  for shard, notification in pairs(notifications) do
    local payload = ''
    if not notification.is_too_long then
      payload = table.concat(notification.head, ' ') .. '\n' .. table.concat(notification.messages)
    end
    redis.call('PUBLISH', prefix .. 'inbox:' .. shard, payload)
  end
end

-- Remove those of the workers that hold no tasks.
local function remove_workers(workers)
  local is_holder = {}
  for _, lease in ipairs(#workers > 0 and redis.call('HVALS', LEASES) or {}) do
    is_holder[lease_holder(lease)] = true
  end
  for _, worker in ipairs(workers) do
    if not is_holder[worker] then
      redis.call('ZREM', WORKERS, worker)
      redis.call('HDEL', WORKER_QUEUES, worker)
      redis.call('DEL', prefix .. 'cancellations:' .. worker)
    end
  end
end
