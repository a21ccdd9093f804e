-- open: a new lease holder's first act: its token becomes the queue's fence. Also read, again and again, by the holder.
--
-- KEYS    life     epoch, fence, settled, paused
-- ARGV    token    the holder's token
--         paused   1 while the queue's jobs must not start, else 0
-- Reply   {ok, epoch or '', position of the last settled outcome}, or {stale, the fence}
-- Cost    O(1)
-- uses lib/record.lua
local life = unpack(KEYS)
local token, paused = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch', 'settled')
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale', known[1] } end
even_when_full(life)
redis.call('HSET', life, 'fence', token, 'paused', paused)
return { 'ok', known[2] or '', known[3] or '0-0' }
