-- Finish once: the result goes to its shard and the task goes away in one step. A task that was taken from this worker
-- meanwhile is done all the same: its result counts, and whoever has it now is asked to stop.
-- KEYS: 1 the prefix. ARGV: 1 worker, then of each report the task id, the shard and the message.
local worker, own, told, ids = ARGV[1], {}, {}, {}
redis.call('ZADD', WORKERS, now(), worker)
for i = 2, #ARGV, 3 do
  ids[#ids + 1] = ARGV[i]
end
local leases = values_of(LEASES, ids)
for i, id in ipairs(ids) do
  local lease, at = leases[i], 3 * i
  if lease and holder_of(lease) == worker then
    own[#own + 1] = id
  else
    withdraw(id, redis.call('HGET', LEASES, id))
  end
  deliver(told, ARGV[at], ARGV[at + 1])
end
let_go(own)
forget(own)
tell_shards(told)
return redis.status_reply('OK')
