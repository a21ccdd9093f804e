-- overtake: a holder takes a token above one that stands in Postgres, as after a failover that lost the newest starts.
-- Only whom Redis knows as the holder gets it; with the old token that holder can do nothing any more.
--
-- KEYS    life jobs runs
-- ARGV    consumer who holds it
--         id, entry, start   the delivery
--         number, above      the token in Postgres: its publication, and its start
-- Reply   {ok, the publication's number, the start}, or {lost}
-- Cost    O(1)
-- uses lib/record.lua
local life, jobs, runs = unpack(KEYS)
local consumer, id, entry, start, number, above = unpack(ARGV)

local rec, run = redis.call('HGET', jobs, id), read_run(redis.call('HGET', runs, id))
if not rec or is_tombstone(rec) or entry == '-' then return { 'lost' } end
local r = read_record(rec)
if r.entry ~= entry or run.entry ~= entry or run.holder ~= consumer then return { 'lost' } end
-- One more than a reclaim would give: what stands there after a lost reply is known again.
local higher = math.max(tonumber(start) + 1, tonumber(above)) + 1
r.number = math.max(r.number, tonumber(number))
if run.starts == tonumber(start) then
  run.starts = higher
  even_when_full(life)
  redis.call('HSET', jobs, id, write_record(r))
  redis.call('HSET', runs, id, write_run(run))
elseif run.starts ~= higher then
  return { 'lost' }
end
return { 'ok', r.number, higher }
