-- Append messages to the inbox of a shard.
-- KEYS: 1 the prefix. ARGV: 1 shard, 2… messages.
local notifications = {}
for i = 2, #ARGV do
  send(notifications, ARGV[1], ARGV[i])
end
notify_shards(notifications)
return redis.status_reply('OK')
