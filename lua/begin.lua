-- begin: entries just read by a blocking XREADGROUP become deliveries; while the queue is paused they go back.
-- What a lost call has begun already stays begun, and is answered again unless the queue is paused.
--
-- KEYS    life jobs runs, ready: the four streams, shares ring
-- ARGV    consumer who read them
--         lease    ms from now, and from each renewal, for which they are the consumer's
--         room     at most so many are begun; the others go back to their streams
--         …        band, entry, job id; three values each
-- Reply   as take
-- Cost    O(entries)
-- uses lib/record.lua lib/deliver.lua lib/turns.lua
local life, jobs, runs, ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local consumer, lease, room = unpack(ARGV, 1, 3)

local q = {
  life = life, jobs = jobs, runs = runs, ready = { ready0, ready1, ready2, ready3 }, shares = shares, ring = ring,
}
even_when_full(life)
local known = redis.call('HMGET', life, 'paused', 'shares_paused')
local paused = known[1] == '1'
q.stopped = known[2]
local found = {}
for i = 4, #ARGV, 3 do
  local band, entry, id = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  local pending = of_group(redis.pcall('XPENDING', q.ready[band + 1], 'workers', entry, entry, 1, consumer))
  if #pending > 0 then
    if (paused or #found >= tonumber(room)) and not is_begun(q, entry, id) then
      put_back(q, band, entry, id)
    elseif not paused then
      redis.call('XCLAIM', q.ready[band + 1], 'workers', consumer, 0, entry, 'JUSTID')
      found[#found + 1] = { band, entry, id }
    end
  end
end
if paused then return { 'paused' } end
local reply = deliver(q, found, consumer, lease, true)
prime(q)
return reply
