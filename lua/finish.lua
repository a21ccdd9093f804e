-- finish: attempts end. Holder, entry and start are checked; ends leave a tombstone and an outcome. A suspension is the
-- end of a publication: the job is published anew when it goes on, and only its key stays held.
--
-- KEYS    life jobs runs due keys windows outcomes graves cancels lanes behind, ready: the four streams, shares ring,
--         then a result stream for each attempt that keeps its result
-- ARGV    consumer who held them
--         …        eight values each: id, entry, start, word, ms until the next start (of a suspension that has
--                  no time: -1), 1 if the attempt counts else 0, record for Postgres, and '' or 'N ms': the Nth
--                  result stream and how long it is kept
-- Words   done dead cancelled expired | suspended | retry snooze parked | `retry skip` (the next one of its lane goes
--         on meanwhile) | released (handed back, at once) |
--         limited (it waits for a limit: comes back by `wake`, at the latest after the ms; Postgres is not told) |
--         over (it has ended in Postgres already: it is forgotten)
-- Reply   for each that is not simply ok: its index and repeat (accepted before), lost or gone
-- Cost    O(attempts)
-- uses lib/record.lua lib/place.lua lib/ending.lua lib/turns.lua
local life, jobs, runs, due, keys, windows, outcomes, graves, cancels, lanes, behind,
  ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local consumer = unpack(ARGV, 1, 1)

local FINAL = { done = true, dead = true, cancelled = true, expired = true }
local q = {
  life = life, jobs = jobs, runs = runs, due = due, keys = keys, windows = windows, outcomes = outcomes,
  graves = graves, cancels = cancels, lanes = lanes, behind = behind, ready = { ready0, ready1, ready2, ready3 },
  shares = shares, ring = ring,
}
even_when_full(life)
local ids, reply, accepted, batch, now = {}, {}, {}, new_batch(), now_ms()
for i = 2, #ARGV, 8 do ids[#ids + 1] = ARGV[i] end
if #ids == 0 then return {} end

local function refusal(rec, run, start)
  if not rec then return 'gone' end
  if is_tombstone(rec) then
    local t = read_tombstone(rec)
    return t.consumer == consumer and t.start == start and 'repeat' or 'lost'
  end
  return run.last == consumer .. '/' .. start and 'repeat' or 'lost'
end

local function come_back(id, r, run, word, delay, counted, record, skips)
  drop_entry(q, batch, id, r)
  if word ~= 'limited' then run.losses = 0 end -- its body was not started, and has proved nothing
  run.attempts, run.last = run.attempts + counted, consumer .. '/' .. run.starts
  run.holder, run.entry, run.lease = '-', '-', 0
  if skips then leave_lane(q, id, r) end
  local woken = has(r.flags, 'w')
  r.flags = without(r.flags, 'w')
  if word == 'limited' and woken then
    r.front = true
    make_ready(q, id, r)
  elseif word == 'released' then
    make_ready(q, id, r)
  else
    r.entry, r.front = '-', false
    if word == 'parked' then r.flags = with(r.flags, 'p') end
    if word == 'limited' then r.flags = with(r.flags, 'l') end
    redis.call('ZADD', due, now + delay, id)
    if word ~= 'limited' then tell(batch, id, r, run, word, now + delay, record) end
  end
  batch.jobs[#batch.jobs + 1] = id
  batch.jobs[#batch.jobs + 1] = write_record(r)
  batch.runs[#batch.runs + 1] = id
  batch.runs[#batch.runs + 1] = write_run(run)
end

local function accept(id, rec, run, word, delay, counted, record)
  if word == 'over' then
    forget(q, id, rec)
    return word
  end
  local r, skips = read_record(rec), word == 'retry skip'
  if skips then word = 'retry' end
  if not FINAL[word] and has(r.flags, 'c') then word = 'cancelled' end
  if word == 'suspended' and has(r.flags, 'd') then word, delay = 'snooze', math.max(0, delay) end -- no row can wake it
  if FINAL[word] or word == 'suspended' then
    run.attempts = run.attempts + counted
    local back_at = word == 'suspended' and delay >= 0 and now + delay or nil
    end_job(q, batch, id, r, run, word, record, consumer, now, back_at)
  else
    come_back(id, r, run, word, delay, counted, record, skips)
  end
  return word, r.life
end

local recs, runtexts = in_pieces('HMGET', jobs, ids), in_pieces('HMGET', runs, ids)
for n, id in ipairs(ids) do
  local at = 8 * n - 6
  local entry, start = ARGV[at + 1], ARGV[at + 2]
  local rec, text, token = recs[n], runtexts[n], entry .. ' ' .. start
  local plain = rec and text and ARGV[at + 3] == 'done' and ARGV[at + 7] == '' and not accepted[id]
    and end_plainly(batch, id, rec, text, entry, start, consumer, ARGV[at + 5], ARGV[at + 6])
  local run = not plain and read_run(text)
  if plain then
    accepted[id] = token
  elseif accepted[id] then
    reply[#reply + 1] = n - 1
    reply[#reply + 1] = accepted[id] == token and 'repeat' or 'lost'
  elseif rec and run.entry == entry and run.holder == consumer and run.starts == tonumber(start) then
    accepted[id] = token
    local delay, counted = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
    local word, at_life = accept(id, rec, run, ARGV[at + 3], delay, counted, ARGV[at + 6])
    if FINAL[word] and ARGV[at + 7] ~= '' then
      local nth, keep = string.match(ARGV[at + 7], '^(%d+) (%d+)$')
      local result = KEYS[17 + nth]
      redis.call('XADD', result, 'MAXLEN', 1, '*', 'word', word, 'record', ARGV[at + 6], 'life', at_life)
      redis.call('PEXPIRE', result, keep)
    end
  else
    reply[#reply + 1] = n - 1
    reply[#reply + 1] = refusal(rec, run, start)
  end
end
write_batch(q, batch, now)
if q.joined then prime(q) end
return reply
