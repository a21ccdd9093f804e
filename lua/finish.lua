-- finish: attempts end. Holder, entry and start are checked; ends leave a tombstone and an outcome.
--
-- KEYS    life jobs runs due keys windows outcomes graves cancels, ready: the three streams, then a result
--         stream for each attempt that keeps its result
-- ARGV    consumer who held them
--         …        eight values each: id, entry, start, word, ms until the next start, 1 if the attempt counts
--                  else 0, record for Postgres, and '' or 'N ms': the Nth result stream and how long it is kept
-- Words   done dead cancelled expired | retry snooze suspended parked | released (handed back, at once)
-- Reply   for each that is not simply ok: its index and repeat (accepted before), lost or gone
-- Cost    O(attempts)
-- uses lib/record.lua lib/place.lua lib/ending.lua
local life, jobs, runs, due, keys, windows, outcomes, graves, cancels, ready0, ready1, ready2 = unpack(KEYS)
local consumer = unpack(ARGV, 1, 1)

local FINAL = { done = true, dead = true, cancelled = true, expired = true }
local q = {
  jobs = jobs, runs = runs, due = due, keys = keys, windows = windows, outcomes = outcomes, graves = graves,
  cancels = cancels, ready = { ready0, ready1, ready2 },
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

local function come_back(id, r, run, word, delay, counted, record)
  drop_entry(batch, r)
  run.attempts, run.losses, run.last = run.attempts + counted, 0, consumer .. '/' .. run.starts
  run.holder, run.entry, run.lease = '-', '-', 0
  if word == 'released' then
    r.entry = redis.call('XADD', q.ready[r.band + 1], '*', 'j', id)
  else
    r.entry = '-'
    r.flags = word == 'suspended' and with(r.flags, 's') or word == 'parked' and with(r.flags, 'p') or r.flags
    redis.call('ZADD', due, now + delay, id)
    tell(batch, id, r, run, word, now + delay, record)
  end
  batch.jobs[#batch.jobs + 1] = id
  batch.jobs[#batch.jobs + 1] = write_record(r)
  batch.runs[#batch.runs + 1] = id
  batch.runs[#batch.runs + 1] = write_run(run)
end

local function accept(id, rec, run, word, delay, counted, record)
  local r = read_record(rec)
  if not FINAL[word] and has(r.flags, 'c') then word = 'cancelled' end
  if FINAL[word] then
    run.attempts = run.attempts + counted
    end_job(q, batch, id, r, run, word, record, run.starts, consumer, now)
  else
    come_back(id, r, run, word, delay, counted, record)
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
      local result = KEYS[12 + nth]
      redis.call('XADD', result, 'MAXLEN', 1, '*', 'word', word, 'record', ARGV[at + 6], 'life', at_life)
      redis.call('PEXPIRE', result, keep)
    end
  else
    reply[#reply + 1] = n - 1
    reply[#reply + 1] = refusal(rec, run, start)
  end
end
write_batch(q, batch, now)
return reply
