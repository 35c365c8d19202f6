-- Send results to their shards and remove the tasks in one step. The result of a task that was reclaimed from this
-- worker counts too; the present holder is asked to stop.
-- KEYS: 1 the prefix. ARGV: 1 worker, then the task id, the shard and the message of each report.
local worker, held, notifications, ids = ARGV[1], {}, {}, {}
redis.call('ZADD', WORKERS, now(), worker)
for i = 2, #ARGV, 3 do
  ids[#ids + 1] = ARGV[i]
end
local leases = hash_values(LEASES, ids)
for i, id in ipairs(ids) do
  local lease, at = leases[i], 3 * i
  if lease and lease_holder(lease) == worker then
    held[#held + 1] = id
  else
    remove_task(id, redis.call('HGET', LEASES, id))
  end
  send(notifications, ARGV[at], ARGV[at + 1])
end
remove_leases(held)
remove_bodies(held)
notify_shards(notifications)
return redis.status_reply('OK')
