-- Queue tasks. A task id that is already queued or held is ignored.
-- KEYS: 1 the prefix. ARGV: the id, queue, priority and body of each task.
local collected, ids, new, is_new = {}, {}, {}, {}
for i = 1, #ARGV, 4 do
  ids[#ids + 1] = ARGV[i]
end
-- Numbers always increase. While the clock does too, they are the times when tasks were queued.
local number = math.max(tonumber(redis.call('GET', LAST_NUMBER) or 0), now())
redis.call('SET', LAST_NUMBER, string.format('%.0f', number + #ids))
local known = hash_values(BODIES, ids)
for i, id in ipairs(ids) do
  local at = 4 * i - 3
  if not known[i] and not is_new[id] then
    is_new[id] = true
    new[#new + 1] = id
    new[#new + 1] = ARGV[at + 3]
    collect(collected, ARGV[at + 1], ARGV[at + 2], number + i, id)
  end
end
call_with_all('HSET', BODIES, new)
enqueue_collected(collected)
return redis.status_reply('OK')
