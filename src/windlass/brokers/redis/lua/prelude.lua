-- What every script shares; it is put before each of them.
-- KEYS: 1 the prefix of all keys. The scripts make the others from it, so all of them live on one server.
--
-- bodies           hash    task id -> a line of JSON that tells where the task belongs, then the task: queued or held
-- tasks:Q:P        zset    task id -> its number: what waits in queue Q with priority P, oldest first
-- priorities:Q     zset    priority -> itself: those of queue Q that have something waiting
-- queues           set     queues that have something waiting
-- leases           hash    task id -> its number and its holder: what is held, and its place if it comes back
-- numbers          string  the last number that was given
-- beats            hash    task id -> when its holder last said that it has it; not before it said so once
-- losses           hash    task id -> how often it was taken from a silent holder
-- workers, serves  zset, hash  worker -> when it last said anything; the queues it asked for
-- stops:W          list    tasks that worker W was asked to stop
-- inbox:S          stream  messages to shard S
-- The channels work:Q, work:*, stop:W and inbox:S tell whoever waits that there is something to look for.
local prefix = KEYS[1]
local BODIES, LEASES, BEATS = prefix .. 'bodies', prefix .. 'leases', prefix .. 'beats'
local LOSSES, QUEUES, NUMBERS = prefix .. 'losses', prefix .. 'queues', prefix .. 'numbers'
local WORKERS, SERVES = prefix .. 'workers', prefix .. 'serves'
-- A worker that never asks must not have its stops kept for good. They are hints: `extend` tells the same.
local STOPS_SECONDS_MAX = 3600

-- The server's clock, in microseconds: those of engines and workers may differ.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function line_of(queue, priority)
  return prefix .. 'tasks:' .. queue .. ':' .. priority
end

-- A lease is a line, padded, with the task's number, when it was taken and its queue, and then its holder. The padding
-- is not for looks: Redis keeps a hash of short values as a list, and looks through hundreds of entries for every one.
local LINE_WIDTH, LINE_END = 64, 10
local LINE = '%-' .. LINE_WIDTH .. 's\n'

-- What follows the number in the leases that a worker gets of one queue at one time.
local function lease_tail(at, queue)
  return string.format(' %.0f %s', at, queue)
end

local function new_lease(number, tail, worker)
  return string.format(LINE, number .. tail) .. worker
end

-- The line of a queue with a long name is longer. Leases that an earlier version gave have no line.
local function holder_of(lease)
  if string.byte(lease, LINE_WIDTH + 1) == LINE_END then
    return string.sub(lease, LINE_WIDTH + 2)
  end
  return string.match(lease, '\n(.*)') or string.sub(lease, LINE_WIDTH + 1)
end

local function taken_of(lease)
  local at, queue = string.match(lease, '^%d+ (%d+) (.-) *\n')
  return at or '0', queue
end

local function number_of(lease)
  return string.match(lease, '^%d+')
end

-- One command for many items costs a fraction of many commands; Lua passes no more than 8,000 values at once.
local ITEMS_MAX = 4000
local function for_all(command, key, items)
  for i = 1, #items, ITEMS_MAX do
    redis.call(command, key, unpack(items, i, math.min(i + ITEMS_MAX - 1, #items)))
  end
end

-- The values of many fields of a hash; false for one that is not there.
local function values_of(key, fields)
  local values = {}
  for i = 1, #fields, ITEMS_MAX do
    local found = redis.call('HMGET', key, unpack(fields, i, math.min(i + ITEMS_MAX - 1, #fields)))
    for j = 1, #found do
      values[i + j - 1] = found[j]
    end
  end
  return values
end

-- Note that a task is to be queued under its number; `queue_up` does it, for all that were noted.
local function note(lines, queue, priority, number, id)
  local name = line_of(queue, priority)
  local line = lines[name]
  if not line then
    line = { queue = queue, priority = priority, items = {} }
    lines[name] = line
  end
  local items = line.items
  items[#items + 1] = number
  items[#items + 1] = id
end

local function queue_up(lines)
  local rung = {}
  for name, line in pairs(lines) do
    for_all('ZADD', name, line.items)
    redis.call('ZADD', prefix .. 'priorities:' .. line.queue, line.priority, line.priority)
    if not rung[line.queue] then
      rung[line.queue] = true
      redis.call('SADD', QUEUES, line.queue)
      redis.call('PUBLISH', prefix .. 'work:' .. line.queue, '')
    end
  end
  if next(rung) then
    redis.call('PUBLISH', prefix .. 'work:*', '')
  end
end

-- Forget the names of a line that ran empty: an idle server keeps nothing.
local function tidy(queue, priority)
  local priorities = prefix .. 'priorities:' .. queue
  if redis.call('EXISTS', line_of(queue, priority)) == 0 then
    redis.call('ZREM', priorities, priority)
    if redis.call('EXISTS', priorities) == 0 then
      redis.call('SREM', QUEUES, queue)
    end
  end
end

local function let_go(ids)
  for_all('HDEL', LEASES, ids)
  -- Mostly a task is over before its holder has to say that it has it.
  if redis.call('EXISTS', BEATS) == 1 then
    for_all('HDEL', BEATS, ids)
  end
end

local function forget(ids)
  for_all('HDEL', BODIES, ids)
  -- Mostly nothing was ever lost.
  if redis.call('EXISTS', LOSSES) == 1 then
    for_all('HDEL', LOSSES, ids)
  end
end

-- Where the task in a body belongs, or nil for one that nobody can read.
local function read(body)
  local is_readable, task = pcall(cjson.decode, string.sub(body, 1, (string.find(body, '\n', 1, true) or 1) - 1))
  if is_readable and type(task) == 'table' and task.queue and task.priority then
    return task
  end
  return nil
end

-- Drop a task, queued or held. Its holder is asked to stop.
local function withdraw(id, lease)
  if lease then
    local holder = holder_of(lease)
    local stops = prefix .. 'stops:' .. holder
    let_go({ id })
    redis.call('RPUSH', stops, id)
    redis.call('EXPIRE', stops, STOPS_SECONDS_MAX)
    redis.call('PUBLISH', prefix .. 'stop:' .. holder, '')
  else
    local body = redis.call('HGET', BODIES, id)
    local task = body and read(body)
    if task then
      redis.call('ZREM', line_of(task.queue, task.priority), id)
      tidy(task.queue, task.priority)
    end
  end
  forget({ id })
end

-- End a lease; the task goes to the place that it had in its queue. One whose body is gone or unreadable is forgotten:
-- the engine finds it missing and publishes it again.
local function put_back(lines, id, lease)
  let_go({ id })
  local body = redis.call('HGET', BODIES, id)
  local task = body and read(body)
  if task then
    note(lines, task.queue, task.priority, number_of(lease), id)
  else
    forget({ id })
  end
  return task
end

-- Messages that ride along with the notification of their shard, so that its owner need not come for them.
local TOLD_MAX, TOLD_BYTES_MAX = 100, 32768

-- Put a message into a shard's inbox and note it; `tell_shards` rings for all that were noted.
local function deliver(told, shard, message)
  local inbox = prefix .. 'inbox:' .. shard
  local note = told[shard]
  if not note then
    local newest = redis.call('XREVRANGE', inbox, '+', '-', 'COUNT', 1)[1]
    note = { head = { newest and newest[1] or '0-0' }, messages = {}, bytes = 0 }
    told[shard] = note
  end
  local id = redis.call('XADD', inbox, '*', 'm', message)
  note.bytes = note.bytes + #message
  if #note.messages < TOLD_MAX and note.bytes <= TOLD_BYTES_MAX then
    note.head[#note.head + 1] = id .. ' ' .. #message
    note.messages[#note.messages + 1] = message
  else
    note.is_long = true
  end
end

-- A notification is empty, or a line and then the messages. The line has the id of the message before them, which must
-- have been read for these to be the next ones, and of each its id and its length.
local function tell_shards(told)
  for shard, note in pairs(told) do
    local body = ''
    if not note.is_long then
      body = table.concat(note.head, ' ') .. '\n' .. table.concat(note.messages)
    end
    redis.call('PUBLISH', prefix .. 'inbox:' .. shard, body)
  end
end
