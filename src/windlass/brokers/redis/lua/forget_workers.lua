-- Remove workers that sent no heartbeat for long and hold nothing.
-- KEYS: 1 the prefix. ARGV: 1 microseconds without a heartbeat, 2 workers at most.
local before = '(' .. string.format('%.0f', now() - tonumber(ARGV[1]))
remove_workers(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', before, 'LIMIT', 0, ARGV[2]))
return redis.status_reply('OK')
