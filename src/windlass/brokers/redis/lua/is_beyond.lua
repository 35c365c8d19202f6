-- Whether an id is beyond the end of an inbox. After the server lost its data and its clock went back, a new stream may
-- start below the last id that was read.
-- KEYS: 1 the prefix. ARGV: 1 shard, 2 the last id that was read. Returns 1 or 0.
local inbox = prefix .. 'inbox:' .. ARGV[1]
if redis.call('EXISTS', inbox) == 0 then
  return 1
end
local info = redis.call('XINFO', 'STREAM', inbox)
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then
    local time, count = string.match(info[i + 1], '^(%d+)-(%d+)$')
    local read_time, read_count = string.match(ARGV[2], '^(%d+)-(%d+)$')
    time, read_time = tonumber(time), tonumber(read_time)
    local is_behind = time < read_time or (time == read_time and tonumber(count) < tonumber(read_count))
    return is_behind and 1 or 0
  end
end
return 0
