-- Remove a worker that stops.
-- KEYS: 1 the prefix. ARGV: 1 worker.
remove_workers({ ARGV[1] })
return redis.status_reply('OK')
