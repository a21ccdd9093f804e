-- publish: rows of the outbox become jobs in Redis; a row that is already placed is a repeat and nothing is written.
--
-- KEYS    life jobs runs due keys windows outcomes graves cancels lanes behind, ready: the four streams, shares ring
-- ARGV    token    the relay's token for this queue
--         epoch    the life of Redis that it believes in
--         …        eight values a row: id, head (number life flags band window keysize), delay in ms, ms to the
--                  expiry or '', attempts so far, the publication whose end has settled or 0, key or '', envelope
-- Reply   {ok, then for each row that is not simply new: its index, repeat, dup or kept, the key's owner or
--         ''; or replaces, and the job whose end is asked for in Redis and must be in Postgres},
--         or {stale} below the fence, {epoch} in another life
-- Cost    O(rows)
-- uses lib/record.lua lib/place.lua lib/ending.lua lib/policy.lua lib/turns.lua
local life, jobs, runs, due, keys, windows, outcomes, graves, cancels, lanes, behind,
  ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch')
if known[2] ~= epoch then return { 'epoch' } end
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale' } end
local q = {
  life = life, jobs = jobs, runs = runs, due = due, keys = keys, windows = windows, outcomes = outcomes,
  graves = graves, cancels = cancels, lanes = lanes, behind = behind, ready = { ready0, ready1, ready2, ready3 },
  shares = shares, ring = ring, batch = new_batch(), by_policy = by_policy,
}
local reply = place_all(q, 3)
write_batch(q, q.batch, now_ms())
if q.joined then prime(q) end
return reply
