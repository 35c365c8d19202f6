-- KEYS: 1 the prefix. ARGV: 1 shard, 2… messages.
for i = 2, #ARGV do
  deliver(ARGV[1], ARGV[i])
end
ring_shards({ [ARGV[1]] = true })
return redis.status_reply('OK')
