-- Shared by all scripts: this text precedes each of them.
-- KEYS: 1 the prefix of all keys. The scripts derive the other keys from it, so a cluster is not supported.
--
-- bodies           hash    task id -> a line with the time of publication and a header as JSON, then the encoded task
-- tasks:Q:P:H      zset    task id -> turn: the waiting tasks of queue Q, priority P and handler H
-- lines:Q          zset    P:H -> P: the priorities and handlers of queue Q that have waiting tasks
-- turns:Q:P        hash    workflow -> its last turn, while tasks of that queue and priority wait
-- queues           set     the queues that have waiting tasks
-- leases           hash    task id -> turn, time of the claim, queue and holder of a held task
-- epochs           hash    shard -> epoch of its owner: what earlier owners publish is ignored
-- incarnation      string  a random name of these contents, and in checks how often it was read
-- heartbeats       hash    task id -> last heartbeat of its holder; absent before the first one
-- losses           hash    task id -> how often it was reclaimed
-- workers          zset    worker id -> time of its last call
-- worker_capabilities  hash    worker id -> its queues and handlers, as JSON
-- cancellations:W  list    held tasks that worker W must stop
-- inbox:S          stream  messages to shard S
-- The channels work:Q, work:*, cancel:W and inbox:S notify waiting processes.
local prefix = KEYS[1]
local BODIES, LEASES, HEARTBEATS = prefix .. 'bodies', prefix .. 'leases', prefix .. 'heartbeats'
local LOSSES, QUEUES, EPOCHS = prefix .. 'losses', prefix .. 'queues', prefix .. 'epochs'
local WORKERS, WORKER_CAPABILITIES = prefix .. 'workers', prefix .. 'worker_capabilities'
-- Cancellations of a worker that never receives them expire. `extend` returns the same information.
local CANCELLATIONS_SECONDS_MAX = 3600

-- The server's clock in microseconds, because the clocks of engines and workers may differ.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function tasks_key(queue, priority, handler)
  return prefix .. 'tasks:' .. queue .. ':' .. priority .. ':' .. handler
end

local function lines_key(queue)
  return prefix .. 'lines:' .. queue
end

local function turns_key(queue, priority)
  return prefix .. 'turns:' .. queue .. ':' .. priority
end

-- The priority and the handler of a line.
local function line_parts(line)
  return string.match(line, '^(.-):(.*)$')
end

-- Record the epoch of a shard's owner. Returns false for an earlier owner.
local function is_current(shard, epoch)
  local newest = tonumber(redis.call('HGET', EPOCHS, shard) or 0)
  if epoch > newest then
    redis.call('HSET', EPOCHS, shard, string.format('%.0f', epoch))
  end
  return epoch >= newest
end

-- A lease is a padded line with the task's turn, the time of the claim and the queue, then the holder. The padding
-- matters: Redis stores a hash of short values as a list and would search hundreds of entries on each access.
local LINE_WIDTH, LINE_END = 64, 10
local LINE = '%-' .. LINE_WIDTH .. 's\n'

-- The part after the turn, which is the same for all leases of one claim and queue.
local function lease_suffix(at, queue)
  return string.format(' %.0f %s', at, queue)
end

local function new_lease(turn, suffix, worker)
  return string.format(LINE, turn .. suffix) .. worker
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

local function lease_turn(lease)
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

-- The lowest turn of the waiting tasks of a queue and priority, or nil.
local function first_turn(queue, priority)
  local first
  for _, line in ipairs(redis.call('ZRANGEBYSCORE', lines_key(queue), priority, priority)) do
    local _, handler = line_parts(line)
    local head = redis.call('ZRANGE', tasks_key(queue, priority, handler), 0, 0, 'WITHSCORES')
    local turn = tonumber(head[2])
    if turn and (not first or turn < first) then
      first = turn
    end
  end
  return first
end

-- Workflows with waiting tasks of one queue and priority take turns: the tasks of each have increasing turns, and claims
-- take the lowest ones. A workflow without waiting tasks starts at the turn that comes next. Turns start at the time, so
-- that a task which was held while its queue became empty is not behind newer ones.
local function next_turn(groups, queue, priority, workflow)
  local key = turns_key(queue, priority)
  local group = groups[key]
  if not group then
    group = { first = first_turn(queue, priority) or now(), last = {} }
    groups[key] = group
  end
  local last = group.last[workflow] or tonumber(redis.call('HGET', key, workflow) or 0)
  local turn = math.max(last + 1, group.first)
  group.last[workflow] = turn
  return turn
end

local function save_turns(groups)
  for key, group in pairs(groups) do
    local turns = {}
    for workflow, turn in pairs(group.last) do
      turns[#turns + 1] = workflow
      turns[#turns + 1] = string.format('%.0f', turn)
    end
    call_with_all('HSET', key, turns)
  end
end

-- Collect a task to be queued under its turn; `enqueue_collected` queues all of them.
local function collect(collected, queue, priority, handler, turn, id)
  local key = tasks_key(queue, priority, handler)
  local group = collected[key]
  if not group then
    group = { queue = queue, priority = priority, handler = handler, items = {} }
    collected[key] = group
  end
  local items = group.items
  items[#items + 1] = turn
  items[#items + 1] = id
end

-- Record that tasks of a queue, priority and handler wait.
local function add_names(queue, priority, handler)
  redis.call('ZADD', lines_key(queue), priority, priority .. ':' .. handler)
  redis.call('SADD', QUEUES, queue)
end

local function enqueue_collected(collected)
  local notified = {}
  for key, group in pairs(collected) do
    call_with_all('ZADD', key, group.items)
    add_names(group.queue, group.priority, group.handler)
    if not notified[group.queue] then
      notified[group.queue] = true
      redis.call('PUBLISH', prefix .. 'work:' .. group.queue, '')
    end
  end
  if next(notified) then
    redis.call('PUBLISH', prefix .. 'work:*', '')
  end
end

-- Remove the names of an empty queue, so that an idle server stores nothing.
local function remove_if_empty(queue, priority, handler)
  if redis.call('EXISTS', tasks_key(queue, priority, handler)) == 1 then
    return
  end
  local lines = lines_key(queue)
  redis.call('ZREM', lines, priority .. ':' .. handler)
  if redis.call('ZCOUNT', lines, priority, priority) == 0 then
    redis.call('DEL', turns_key(queue, priority))
    if redis.call('EXISTS', lines) == 0 then
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

-- When the task of a body was published.
local function published_at(body)
  return tonumber(string.match(body, '^%d+') or 0)
end

-- The decoded header of a body, or nil if it is invalid.
local function header_of(body)
  local line = string.sub(body, 1, (string.find(body, '\n', 1, true) or 1) - 1)
  local is_valid, header = pcall(cjson.decode, string.match(line, '^%d+ (.*)$') or '')
  if is_valid and type(header) == 'table' and header.queue and header.priority and header.handler then
    return header
  end
  return nil
end

-- Whether a task with a body is held or queued: the server may have lost one structure and kept another. The names of
-- the queue are repaired.
local function is_placed(id, body)
  if redis.call('HEXISTS', LEASES, id) == 1 then
    return true
  end
  local header = header_of(body)
  if not header or not redis.call('ZSCORE', tasks_key(header.queue, header.priority, header.handler), id) then
    return false
  end
  add_names(header.queue, header.priority, header.handler)
  return true
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
      redis.call('ZREM', tasks_key(header.queue, header.priority, header.handler), id)
      remove_if_empty(header.queue, header.priority, header.handler)
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
    collect(collected, header.queue, header.priority, header.handler, lease_turn(lease), id)
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
      redis.call('HDEL', WORKER_CAPABILITIES, worker)
      redis.call('DEL', prefix .. 'cancellations:' .. worker)
    end
  end
end
