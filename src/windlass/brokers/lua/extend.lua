-- KEYS: 1 the prefix. ARGV: 1 worker, 2… the tasks it says it holds.
-- Returns those that are not its own: cancelled, or taken from it.
local worker, at, times, foreign = ARGV[1], now(), {}, {}
redis.call('ZADD', WORKERS, at, worker)
for i = 2, #ARGV do
  local lease = redis.call('HGET', LEASES, ARGV[i])
  if lease and holder_of(lease) == worker then
    times[#times + 1] = at
    times[#times + 1] = ARGV[i]
  else
    foreign[#foreign + 1] = ARGV[i]
  end
end
for_all('ZADD', EXTENDED, times)
return foreign
