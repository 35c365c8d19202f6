-- Take tasks from holders that did not extend them, tell their shards, and forget workers that are silent and empty.
-- One caller finds each of them: the script that queues a task again also removes its lease.
-- KEYS: 1 the prefix. ARGV: 1 microseconds of silence, 2 about how many leases to look at, 3 where to go on looking.
-- Returns where to go on, 0 when all were looked at, and how many tasks were queued again.
local silent_since = now() - tonumber(ARGV[1])
local lines, told, old, lease_of, count = {}, {}, {}, {}, 0
local cursor, leases = unpack(redis.call('HSCAN', LEASES, ARGV[3], 'COUNT', ARGV[2]))
for i = 1, #leases, 2 do
  local taken = taken_of(leases[i + 1])
  -- A lease may be met twice.
  if tonumber(taken) < silent_since and not lease_of[leases[i]] then
    old[#old + 1] = leases[i]
    lease_of[leases[i]] = leases[i + 1]
  end
end
local beats = values_of(BEATS, old)
for i, id in ipairs(old) do
  local lease = lease_of[id]
  local is_silent = not beats[i] or tonumber(beats[i]) < silent_since
  local task = is_silent and put_back(lines, id, lease)
  if task then
    count = count + 1
    local losses = redis.call('HINCRBY', LOSSES, id, 1)
    deliver(told, task.shard, cjson.encode({
      type = 'task_lost', job_id = task.job_id, node_id = task.node_id, attempt = task.attempt,
      worker_id = holder_of(lease), losses = losses, index = task.index,
    }))
  end
end
queue_up(lines)
tell_shards(told)
if cursor == '0' then
  -- Once, at the end: by then the silent hold nothing any more.
  local before = '(' .. string.format('%.0f', silent_since)
  local quiet = redis.call('ZRANGEBYSCORE', WORKERS, '-inf', before, 'LIMIT', 0, ARGV[2])
  local holds = {}
  for _, lease in ipairs(#quiet > 0 and redis.call('HVALS', LEASES) or {}) do
    holds[holder_of(lease)] = true
  end
  for _, worker in ipairs(quiet) do
    if not holds[worker] then
      redis.call('ZREM', WORKERS, worker)
      redis.call('HDEL', SERVES, worker)
      redis.call('DEL', prefix .. 'stops:' .. worker)
    end
  end
end
return { cursor, count }
