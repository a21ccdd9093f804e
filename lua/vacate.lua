-- vacate: lanes whose head has ended without Redis hearing of it go on with the next job.
--
-- KEYS    life     epoch, fence
--         jobs     job id -> record
--         due outcomes
--         lanes    lane -> its head
--         behind   who waits behind its lane
--         ready    the four streams, shares ring
-- ARGV    token    the relay's token for this queue
--         epoch    the life of Redis that it believes in
--         …        lane, and the id of a job that has no row; two values each
-- Reply   {ok, how many lanes went on}, {stale} below the fence, or {epoch} in another life
-- Cost    O(lanes)
-- uses lib/record.lua lib/place.lua lib/turns.lua
local life, jobs, due, outcomes, lanes, behind, ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch')
if known[2] ~= epoch then return { 'epoch' } end
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale' } end
even_when_full(life)
local q = {
  life = life, jobs = jobs, due = due, outcomes = outcomes, lanes = lanes, behind = behind,
  ready = { ready0, ready1, ready2, ready3 }, shares = shares, ring = ring,
}
local went_on = 0
for i = 3, #ARGV, 2 do
  local lane, id = ARGV[i], ARGV[i + 1]
  local head, rec = redis.call('HGET', lanes, lane), redis.call('HGET', jobs, id)
  local is_live = rec and not is_tombstone(rec) and is_placed(q, id, rec)
  if head == 's' .. id or head == id and not is_live then
    advance(q, lane)
    went_on = went_on + 1
  end
end
if q.joined then prime(q) end
return { 'ok', went_on }
