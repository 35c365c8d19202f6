-- Finish once: the result goes to its shard and the task goes away in one step. A task that was taken from this worker
-- meanwhile is done all the same: its result counts, and whoever has it now is asked to stop.
-- KEYS: 1 the prefix. ARGV: 1 worker, then of each report the task id, the shard and the message.
local worker, own, shards = ARGV[1], {}, {}
redis.call('ZADD', WORKERS, now(), worker)
for i = 2, #ARGV, 3 do
  local id, shard = ARGV[i], ARGV[i + 1]
  local lease = redis.call('HGET', LEASES, id)
  if lease and holder_of(lease) == worker then
    own[#own + 1] = id
  else
    withdraw(id, lease)
  end
  deliver(shard, ARGV[i + 2])
  shards[shard] = true
end
let_go(own)
forget(own)
ring_shards(shards)
return redis.status_reply('OK')
