-- enqueue: jobs that go straight to Redis, without a row in Postgres. The same id again is a repeat.
--
-- KEYS    life jobs runs due keys windows outcomes graves cancels lanes behind, ready: the four streams, shares ring
-- ARGV    count    how many jobs follow
--         …        eight values a job, as in publish
-- Reply   {ok, then for each job that is not simply new: its index, repeat, dup or kept, the key's owner or ''; or
--         replaces, and the job whose end is asked for}
-- Cost    O(jobs)
-- uses lib/record.lua lib/place.lua lib/ending.lua lib/policy.lua lib/turns.lua
local life, jobs, runs, due, keys, windows, outcomes, graves, cancels, lanes, behind,
  ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local count = unpack(ARGV, 1, 1)

if (#ARGV - 1) ~= 8 * tonumber(count) then return { 'malformed' } end
local q = {
  life = life, jobs = jobs, runs = runs, due = due, keys = keys, windows = windows, outcomes = outcomes,
  graves = graves, cancels = cancels, lanes = lanes, behind = behind, ready = { ready0, ready1, ready2, ready3 },
  shares = shares, ring = ring, batch = new_batch(), by_policy = by_policy,
}
local reply = place_all(q, 2)
write_batch(q, q.batch, now_ms())
if q.joined then prime(q) end
return reply
