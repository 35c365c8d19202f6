-- KEYS: 1 the prefix. ARGV: 1 worker, 2… the tasks it says it holds.
-- Returns those that are not its own: cancelled, or taken from it.
local worker, at, beats, foreign = ARGV[1], now(), {}, {}
redis.call('ZADD', WORKERS, at, worker)
local beat = string.format('%.0f', at)
for i = 2, #ARGV do
  local lease = redis.call('HGET', LEASES, ARGV[i])
  if lease and holder_of(lease) == worker then
    beats[#beats + 1] = ARGV[i]
    beats[#beats + 1] = beat
  else
    foreign[#foreign + 1] = ARGV[i]
  end
end
for_all('HSET', BEATS, beats)
return foreign
