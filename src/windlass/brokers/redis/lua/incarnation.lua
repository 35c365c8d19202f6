-- Name these contents, which start with a random name. The count of checks falls when older contents replace them.
-- KEYS: 1 the prefix. ARGV: 1 a name for contents that have none. Returns the name and the count.
redis.call('SETNX', prefix .. 'incarnation', ARGV[1])
return { redis.call('GET', prefix .. 'incarnation'), redis.call('INCR', prefix .. 'checks') }
