-- Record a heartbeat of a worker for the tasks it holds.
-- KEYS: 1 the prefix. ARGV: 1 worker, 2… task ids.
-- Returns the tasks that the worker does not hold: cancelled or reclaimed ones.
local worker, at, heartbeats, not_held = ARGV[1], now(), {}, {}
redis.call('ZADD', WORKERS, at, worker)
local heartbeat = string.format('%.0f', at)
for i = 2, #ARGV do
  local lease = redis.call('HGET', LEASES, ARGV[i])
  if lease and lease_holder(lease) == worker then
    heartbeats[#heartbeats + 1] = ARGV[i]
    heartbeats[#heartbeats + 1] = heartbeat
  else
    not_held[#not_held + 1] = ARGV[i]
  end
end
call_with_all('HSET', HEARTBEATS, heartbeats)
return not_held
