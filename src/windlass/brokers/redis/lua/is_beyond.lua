-- Whether a place is beyond the end of an inbox: one that was made anew after the server lost its data may begin below
-- what was read before, where the server's clock went back.
-- KEYS: 1 the prefix. ARGV: 1 shard, 2 the last id read. Returns 1 or 0.
local inbox = prefix .. 'inbox:' .. ARGV[1]
if redis.call('EXISTS', inbox) == 0 then
  return 1
end
local told = redis.call('XINFO', 'STREAM', inbox)
for i = 1, #told, 2 do
  if told[i] == 'last-generated-id' then
    local time, count = string.match(told[i + 1], '^(%d+)-(%d+)$')
    local read_time, read_count = string.match(ARGV[2], '^(%d+)-(%d+)$')
    time, read_time = tonumber(time), tonumber(read_time)
    local is_behind = time < read_time or (time == read_time and tonumber(count) < tonumber(read_count))
    return is_behind and 1 or 0
  end
end
return 0
