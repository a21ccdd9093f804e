-- cancel: ends jobs that wait, and flags those that run.
--
-- KEYS    life jobs runs due keys windows outcomes graves cancels, ready: the three streams
-- ARGV    token    the relay's token for this queue
--         epoch    the life of Redis that it believes in
--         …        id and life (redrives) of each job
-- Reply   {ok, then a word each: ended, running, over (it has ended already), unknown}, or {stale}, {epoch}
-- Cost    O(jobs)
-- uses lib/record.lua lib/place.lua lib/ending.lua
local life, jobs, runs, due, keys, windows, outcomes, graves, cancels, ready0, ready1, ready2 = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch')
if known[2] ~= epoch then return { 'epoch' } end
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale' } end
local q = {
  jobs = jobs, runs = runs, due = due, keys = keys, windows = windows, outcomes = outcomes, graves = graves,
  cancels = cancels, ready = { ready0, ready1, ready2 },
}
even_when_full(life)
local batch, now, answered = new_batch(), now_ms(), {}

local function cancel(id, rows_life)
  local rec = redis.call('HGET', jobs, id)
  if not rec or not is_placed(q, id, rec) then return 'unknown' end
  if is_tombstone(rec) then return read_tombstone(rec).life < rows_life and 'unknown' or 'over' end
  local r, run = read_record(rec), read_run(redis.call('HGET', runs, id))
  if r.life < rows_life then
    forget(q, id, rec)
    return 'unknown'
  end
  if r.entry == '-' or run.entry ~= r.entry then
    end_job(q, batch, id, r, run, 'cancelled', '', run.starts, '-', now)
    return 'ended'
  end
  r.flags = with(r.flags, 'c')
  redis.call('HSET', jobs, id, write_record(r))
  redis.call('SADD', cancels, id)
  return 'running'
end

local reply = { 'ok' }
for i = 3, #ARGV, 2 do
  local id = ARGV[i]
  answered[id] = answered[id] or cancel(id, tonumber(ARGV[i + 1]))
  reply[#reply + 1] = answered[id]
end
write_batch(q, batch, now)
return reply
