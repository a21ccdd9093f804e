-- audit: which of these published rows are not placed in Redis?
--
-- KEYS    life jobs due outcomes, ready: the three streams
-- ARGV    token    the relay's token for this queue
--         epoch    the life of Redis that it believes in
--         …        id and life (redrives) of each row
-- Reply   {ok, then the ids that are missing}, or {stale}, {epoch}
-- Cost    O(rows)
-- uses lib/record.lua lib/place.lua
local life, jobs, due, outcomes, ready0, ready1, ready2 = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch')
if known[2] ~= epoch then return { 'epoch' } end
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale' } end
local q = { due = due, outcomes = outcomes, ready = { ready0, ready1, ready2 } }
local reply = { 'ok' }
for i = 3, #ARGV, 2 do
  local rec = redis.call('HGET', jobs, ARGV[i])
  local here = false
  if rec then
    local known_life = (is_tombstone(rec) and read_tombstone(rec) or read_record(rec)).life
    here = known_life == tonumber(ARGV[i + 1]) and is_placed(q, ARGV[i], rec)
  end
  if not here then reply[#reply + 1] = ARGV[i] end
end
return reply
