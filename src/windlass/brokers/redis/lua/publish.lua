-- Dispatch once: a task that is queued or held already, by its id, is dropped.
-- KEYS: 1 the prefix. ARGV: of each task its id, queue, priority and body.
local lines, ids, new, is_new = {}, {}, {}, {}
for i = 1, #ARGV, 4 do
  ids[#ids + 1] = ARGV[i]
end
-- Numbers go up whatever the clock does, and where it goes on they tell when a task was queued.
local number = math.max(tonumber(redis.call('GET', NUMBERS) or 0), now())
redis.call('SET', NUMBERS, string.format('%.0f', number + #ids))
local known = values_of(BODIES, ids)
for i, id in ipairs(ids) do
  local at = 4 * i - 3
  if not known[i] and not is_new[id] then
    is_new[id] = true
    new[#new + 1] = id
    new[#new + 1] = ARGV[at + 3]
    note(lines, ARGV[at + 1], ARGV[at + 2], number + i, id)
  end
end
for_all('HSET', BODIES, new)
queue_up(lines)
return redis.status_reply('OK')
