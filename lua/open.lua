-- open: a new lease holder's first act: its token becomes the queue's fence, and what operators have set becomes known.
-- Also read, again and again, by the holder.
--
-- KEYS    life     epoch, fence, settled, paused, the rules of shares
--         jobs     job id -> record
--         ready    the four streams, shares ring
-- ARGV    token    the holder's token
--         paused   1 while the queue's jobs must not start, else 0
--         …        of each share with a rule: share, weight, 1 while its jobs must not start else 0; three values each
-- Reply   {ok, epoch or '', position of the last settled outcome}, or {stale, the fence}
-- Cost    O(rules)
-- uses lib/record.lua lib/turns.lua lib/rules.lua
local life, jobs, ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local token, paused = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch', 'settled')
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale', known[1] } end
even_when_full(life)
redis.call('HSET', life, 'fence', token, 'paused', paused)
set_rules({
  life = life, jobs = jobs, ready = { ready0, ready1, ready2, ready3 }, shares = shares, ring = ring,
}, 3)
return { 'ok', known[2] or '', known[3] or '0-0' }
