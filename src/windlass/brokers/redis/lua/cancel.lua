-- Remove queued tasks, and ask the holders of claimed ones to stop.
-- KEYS: 1 the prefix. ARGV: task ids.
for i = 1, #ARGV do
  if redis.call('HEXISTS', BODIES, ARGV[i]) == 1 then
    remove_task(ARGV[i], redis.call('HGET', LEASES, ARGV[i]))
  end
end
return redis.status_reply('OK')
