-- settled: these outcomes are in Postgres: the position moves past them, and their tombstones' grace begins.
--
-- KEYS    life     epoch, fence, settled
--         graves   outcome -> when it was settled
-- ARGV    token    the relay's token for this queue
--         epoch    the life of Redis that the outcomes were read in
--         …        the outcomes' ids, in their order
-- Reply   ok, stale below the fence, or epoch in another life
-- Cost    O(outcomes), each of which holds many jobs
-- uses lib/record.lua
local life, graves = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch')
if known[2] ~= epoch then return 'epoch' end
if tonumber(token) < tonumber(known[1] or 0) then return 'stale' end
if #ARGV < 3 then return 'ok' end
even_when_full(life)
local now = now_ms()
for i = 3, #ARGV do redis.call('ZADD', graves, 'NX', now, ARGV[i]) end
redis.call('HSET', life, 'settled', ARGV[#ARGV])
return 'ok'
