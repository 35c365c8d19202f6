-- Put held tasks back at their former positions, as if they had not been claimed.
-- KEYS: 1 the prefix. ARGV: 1 worker, 2… task ids; those that the worker does not hold are ignored.
local worker, collected = ARGV[1], {}
for i = 2, #ARGV do
  local lease = redis.call('HGET', LEASES, ARGV[i])
  if lease and lease_holder(lease) == worker then
    requeue(collected, ARGV[i], lease)
  end
end
enqueue_collected(collected)
return redis.status_reply('OK')
