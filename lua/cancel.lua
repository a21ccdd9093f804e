-- cancel: ends jobs that wait, and flags those that run.
--
-- KEYS    life jobs runs due keys windows outcomes graves cancels lanes behind, ready: the four streams, shares ring
-- ARGV    token    the relay's token for this queue
--         epoch    the life of Redis that it believes in
--         …        of each job id, life (redrives), and the publication whose end has settled, or 0
-- Reply   {ok, then a word each: ended, running, over (it has ended already), unknown}, or {stale}, {epoch}
-- Cost    O(jobs)
-- uses lib/record.lua lib/place.lua lib/ending.lua lib/turns.lua
local life, jobs, runs, due, keys, windows, outcomes, graves, cancels, lanes, behind,
  ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch')
if known[2] ~= epoch then return { 'epoch' } end
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale' } end
local q = {
  life = life, jobs = jobs, runs = runs, due = due, keys = keys, windows = windows, outcomes = outcomes,
  graves = graves, cancels = cancels, lanes = lanes, behind = behind, ready = { ready0, ready1, ready2, ready3 },
  shares = shares, ring = ring,
}
even_when_full(life)
local batch, now, answered = new_batch(), now_ms(), {}

local function cancel(id, rows_life, after)
  local rec = redis.call('HGET', jobs, id)
  if not rec or not is_placed(q, id, rec) then return 'unknown' end
  local stands = is_tombstone(rec) and read_tombstone(rec) or read_record(rec)
  if is_over(stands, rows_life, after) then
    if not is_tombstone(rec) then forget(q, id, rec) end
    return 'unknown'
  end
  if is_tombstone(rec) then return read_tombstone(rec).life < rows_life and 'unknown' or 'over' end
  local r, run = read_record(rec), read_run(redis.call('HGET', runs, id))
  if r.life < rows_life then
    forget(q, id, rec)
    return 'unknown'
  end
  if r.entry == '-' or run.entry ~= r.entry then
    end_job(q, batch, id, r, run, 'cancelled', '', nil, now)
    return 'ended'
  end
  r.flags = with(r.flags, 'c')
  redis.call('HSET', jobs, id, write_record(r))
  redis.call('SADD', cancels, id)
  return 'running'
end

local reply = { 'ok' }
for i = 3, #ARGV, 3 do
  local id = ARGV[i]
  answered[id] = answered[id] or cancel(id, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
  reply[#reply + 1] = answered[id]
end
write_batch(q, batch, now)
if q.joined then prime(q) end
return reply
