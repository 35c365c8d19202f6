-- Ignore from now on what earlier owners of a shard publish.
-- KEYS: 1 the prefix. ARGV: 1 shard, 2 epoch.
is_current(ARGV[1], tonumber(ARGV[2]))
return redis.status_reply('OK')
