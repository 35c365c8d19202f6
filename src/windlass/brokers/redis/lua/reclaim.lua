-- Requeue tasks without a recent heartbeat and notify their shards.
-- Several engines may run this at once: requeueing a task also removes its lease, so each task is reclaimed once.
-- KEYS: 1 the prefix. ARGV: 1 microseconds without a heartbeat, 2 leases to scan (approximately), 3 the scan cursor.
-- Returns the next cursor, 0 at the end, and how many tasks were requeued.
local expired_before = now() - tonumber(ARGV[1])
local collected, notifications, candidates, lease_of, count = {}, {}, {}, {}, 0
local cursor, leases = unpack(redis.call('HSCAN', LEASES, ARGV[3], 'COUNT', ARGV[2]))
for i = 1, #leases, 2 do
  local id, lease = leases[i], leases[i + 1]
  local claimed_at = lease_origin(lease)
  -- HSCAN may return a field twice.
  if tonumber(claimed_at) < expired_before and not lease_of[id] then
    candidates[#candidates + 1] = id
    lease_of[id] = lease
  end
end
local heartbeats = hash_values(HEARTBEATS, candidates)
for i, id in ipairs(candidates) do
  local lease = lease_of[id]
  local is_expired = not heartbeats[i] or tonumber(heartbeats[i]) < expired_before
  local header = is_expired and requeue(collected, id, lease)
  if header then
    count = count + 1
    local losses = redis.call('HINCRBY', LOSSES, id, 1)
    send(notifications, header.shard, cjson.encode({
      type = 'task_lost', job_id = header.job_id, node_id = header.node_id, attempt = header.attempt,
      worker_id = lease_holder(lease), losses = losses, index = header.index,
    }))
  end
end
enqueue_collected(collected)
notify_shards(notifications)
return { cursor, count }
