-- KEYS: 1 the prefix. ARGV: 1 shard, 2… messages.
local told = {}
for i = 2, #ARGV do
  deliver(told, ARGV[1], ARGV[i])
end
tell_shards(told)
return redis.status_reply('OK')
