-- enqueue: jobs that go straight to Redis, without a row in Postgres. The same id again is a repeat.
--
-- KEYS    jobs runs due keys windows outcomes cancels, ready: the three streams
-- ARGV    count    how many jobs follow
--         …        seven values a job, as in publish
-- Reply   {ok, then for each job that is not simply new: its index, repeat, dup or kept, the key's owner or ''}
-- Cost    O(jobs)
-- uses lib/record.lua lib/place.lua
local jobs, runs, due, keys, windows, outcomes, cancels, ready0, ready1, ready2 = unpack(KEYS)
local count = unpack(ARGV, 1, 1)

if (#ARGV - 1) ~= 7 * tonumber(count) then return { 'malformed' } end
local q = {
  jobs = jobs, runs = runs, due = due, keys = keys, windows = windows, outcomes = outcomes, cancels = cancels,
  ready = { ready0, ready1, ready2 },
}
return place_all(q, 2)
