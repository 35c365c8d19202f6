-- Take tasks from holders that did not extend them, tell their shards, and forget workers that are silent and empty.
-- One caller finds each of them: the script that queues a task again also removes its lease.
-- KEYS: 1 the prefix. ARGV: 1 microseconds of silence, 2 how many at most.
-- Returns how many leases ended and how many of their tasks were queued again.
local limit = tonumber(ARGV[2])
local silent_since = '(' .. string.format('%.0f', now() - tonumber(ARGV[1]))
local lines, told, count = {}, {}, 0
local silent = redis.call('ZRANGEBYSCORE', EXTENDED, '-inf', silent_since, 'LIMIT', 0, limit)
for _, id in ipairs(silent) do
  local lease = redis.call('HGET', LEASES, id)
  local task = lease and put_back(lines, id, lease)
  if task then
    count = count + 1
    local losses = redis.call('HINCRBY', LOSSES, id, 1)
    deliver(told, task.shard, cjson.encode({
      type = 'task_lost', job_id = task.job_id, node_id = task.node_id, attempt = task.attempt,
      worker_id = holder_of(lease), losses = losses, index = task.index,
    }))
  else
    redis.call('ZREM', EXTENDED, id)
  end
end
queue_up(lines)
tell_shards(told)
local quiet = redis.call('ZRANGEBYSCORE', WORKERS, '-inf', silent_since, 'LIMIT', 0, limit)
if #quiet > 0 then
  local holds = {}
  for _, lease in ipairs(redis.call('HVALS', LEASES)) do
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
return { #silent, count }
