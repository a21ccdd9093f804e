-- ease: nothing of a limit key starts for a while; what runs goes on. Longer than told before, never shorter.
--
-- KEYS    life rates look    as admit
-- ARGV    key      limit key
--         ms       from now; 0: it is over
-- Reply   ms from now until which nothing starts
-- Cost    O(log keys)
-- uses lib/record.lua
local life, rates, look = unpack(KEYS)
local key, ms = unpack(ARGV, 1, 2)

even_when_full(life)
local now = now_ms()
local tat, back, closed = string.match(redis.call('HGET', rates, key) or '', '^(%S+) (%S+) (%S+)$')
local ends = ms == '0' and 0 or math.max(now + tonumber(ms), tonumber(closed or 0))
redis.call('HSET', rates, key, (tat or '0') .. ' ' .. (back or '0') .. ' ' .. digits(ends))
redis.call('ZADD', look, 'LT', digits(math.max(now, ends)), key)
return math.max(0, ends - now)
