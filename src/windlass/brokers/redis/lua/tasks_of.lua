-- List the tasks of a shard that are queued or held.
-- KEYS: 1 the prefix. ARGV: 1 shard, 2 tasks to scan (approximately), 3 the scan cursor.
-- Returns the next cursor, 0 at the end, and task ids.
local found = {}
local cursor, bodies = unpack(redis.call('HSCAN', BODIES, ARGV[3], 'COUNT', ARGV[2]))
for i = 1, #bodies, 2 do
  local header = header_of(bodies[i + 1])
  if header and header.shard == tonumber(ARGV[1]) then
    found[#found + 1] = bodies[i]
  end
end
return { cursor, found }
