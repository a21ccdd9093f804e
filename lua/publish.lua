-- publish: rows of the outbox become jobs in Redis; a row that is already placed is a repeat and nothing is written.
--
-- KEYS    life jobs runs due keys windows outcomes cancels, ready: the three streams
-- ARGV    token    the relay's token for this queue
--         epoch    the life of Redis that it believes in
--         …        seven values a row: id, head (number life flags band window keysize), delay in ms, ms to the
--                  expiry or '', attempts so far, key or '', envelope
-- Reply   {ok, then for each row that is not simply new: its index, repeat, dup or kept, the key's owner or
--         ''},
--         or {stale} below the fence, {epoch} in another life
-- Cost    O(rows)
-- uses lib/record.lua lib/place.lua
local life, jobs, runs, due, keys, windows, outcomes, cancels, ready0, ready1, ready2 = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch')
if known[2] ~= epoch then return { 'epoch' } end
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale' } end
local q = {
  jobs = jobs, runs = runs, due = due, keys = keys, windows = windows, outcomes = outcomes, cancels = cancels,
  ready = { ready0, ready1, ready2 },
}
return place_all(q, 3)
