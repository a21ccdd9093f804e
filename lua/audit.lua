-- audit: which of these published rows are not placed in Redis?
--
-- KEYS    life jobs due outcomes lanes behind, ready: the four streams, shares ring
-- ARGV    token    the relay's token for this queue
--         epoch    the life of Redis that it believes in
--         …        of each row id, life (redrives), and the publication whose end has settled, or 0
-- Reply   {ok, then the ids that are missing}, or {stale}, {epoch}
-- Cost    O(rows)
-- uses lib/record.lua lib/place.lua
local life, jobs, due, outcomes, lanes, behind, ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch')
if known[2] ~= epoch then return { 'epoch' } end
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale' } end
local q = {
  life = life, due = due, outcomes = outcomes, lanes = lanes, behind = behind,
  ready = { ready0, ready1, ready2, ready3 }, shares = shares, ring = ring,
}
local reply = { 'ok' }
for i = 3, #ARGV, 3 do
  local rec = redis.call('HGET', jobs, ARGV[i])
  local here = false
  if rec then
    local stands, rows_life = is_tombstone(rec) and read_tombstone(rec) or read_record(rec), tonumber(ARGV[i + 1])
    here = stands.life == rows_life and not is_over(stands, rows_life, tonumber(ARGV[i + 2]))
      and is_placed(q, ARGV[i], rec) and (is_tombstone(rec) or is_led(q, stands))
  end
  if not here then reply[#reply + 1] = ARGV[i] end
end
return reply
