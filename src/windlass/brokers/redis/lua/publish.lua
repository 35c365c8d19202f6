-- Queue tasks of one shard. A task id that is already queued or held is ignored; so is everything from an earlier owner.
-- KEYS: 1 the prefix. ARGV: 1 shard, 2 epoch, then the id, queue, priority, handler, workflow and body of each task.
if not is_current(ARGV[1], tonumber(ARGV[2])) then
  return redis.status_reply('STALE')
end
local collected, turns, ids, new, is_new = {}, {}, {}, {}, {}
for i = 3, #ARGV, 6 do
  ids[#ids + 1] = ARGV[i]
end
local time = string.format('%.0f ', now())
local known = hash_values(BODIES, ids)
for i, id in ipairs(ids) do
  local at = 6 * i - 3
  if not is_new[id] and not (known[i] and is_placed(id, known[i])) then
    is_new[id] = true
    new[#new + 1] = id
    new[#new + 1] = time .. ARGV[at + 5]
    local queue, priority, handler = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
    local turn = next_turn(turns, queue, priority, ARGV[at + 4])
    collect(collected, queue, priority, handler, string.format('%.0f', turn), id)
  end
end
call_with_all('HSET', BODIES, new)
save_turns(turns)
enqueue_collected(collected)
return redis.status_reply('OK')
