-- Dispatch once: a task that is queued or held already, by its id, is dropped.
-- KEYS: 1 the prefix. ARGV: of each task its id, queue, priority and body.
local lines = {}
local number = redis.call('INCRBY', NUMBERS, #ARGV / 4) - #ARGV / 4
for i = 1, #ARGV, 4 do
  number = number + 1
  if redis.call('HSETNX', BODIES, ARGV[i], ARGV[i + 3]) == 1 then
    note(lines, ARGV[i + 1], ARGV[i + 2], number, ARGV[i])
  end
end
queue_up(lines)
return redis.status_reply('OK')
