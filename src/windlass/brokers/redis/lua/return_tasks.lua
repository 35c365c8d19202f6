-- Return held tasks to the places they had in their queues, as if never taken.
-- KEYS: 1 the prefix. ARGV: 1 worker, 2… tasks; those that it does not hold are passed over.
local worker, lines = ARGV[1], {}
for i = 2, #ARGV do
  local lease = redis.call('HGET', LEASES, ARGV[i])
  if lease and holder_of(lease) == worker then
    put_back(lines, ARGV[i], lease)
  end
end
queue_up(lines)
return redis.status_reply('OK')
