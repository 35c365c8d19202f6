-- Drop queued tasks, and ask the holders of the others to stop.
-- KEYS: 1 the prefix. ARGV: tasks.
for i = 1, #ARGV do
  if redis.call('HEXISTS', BODIES, ARGV[i]) == 1 then
    withdraw(ARGV[i], redis.call('HGET', LEASES, ARGV[i]))
  end
end
return redis.status_reply('OK')
