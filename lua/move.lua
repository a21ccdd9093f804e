-- move: jobs that wait go to another band, or wait for another time. What runs is left alone.
--
-- KEYS    life jobs runs due outcomes lanes behind, ready: the four streams, shares ring
-- ARGV    token    the relay's token for this queue
--         epoch    the life of Redis that it believes in
--         …        six values a job: id, life (redrives), the publication whose end has settled or 0, band, ms until
--                  it may start (0: now, -1: its time stays as it is), envelope
-- Reply   {ok, then a word each: moved, running, over (it has ended), unknown (it is not placed)}, or {stale}, {epoch}
-- Cost    O(jobs)
-- uses lib/record.lua lib/place.lua lib/turns.lua
local life, jobs, runs, due, outcomes, lanes, behind, ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch')
if known[2] ~= epoch then return { 'epoch' } end
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale' } end
local now, q = now_ms(), {
  life = life, jobs = jobs, due = due, outcomes = outcomes, lanes = lanes, behind = behind,
  ready = { ready0, ready1, ready2, ready3 }, shares = shares, ring = ring,
}
even_when_full(life)

local function leave_line(id, r)
  leave_share(q, id, r)
  if has_entry(r) then
    local stream = stream_of(q, r)
    redis.call('XACK', stream, 'workers', r.entry)
    redis.call('XDEL', stream, r.entry)
  end
  r.entry = '-'
end

-- Among what waits for a worker; one in the front stays there, and goes back to the new band later. One that has not
-- run leaves its lane to others until its time.
local function move_in_line(id, r, band, delay, has_run)
  local has_place = delay <= 0 and (r.front or r.band == band)
  if not has_place then leave_line(id, r) end
  r.band = band
  if delay > 0 then
    r.front = false
    redis.call('ZADD', due, now + delay, id)
    if not has_run then leave_lane(q, id, r) end
  elseif not has_place then
    make_ready(q, id, r)
  end
end

-- Among what waits behind its lane, which knows no bands.
local function move_behind(id, r, band, delay)
  r.band = band
  if delay <= 0 then return end
  step_out(q, id, r)
  r.entry = '-'
  redis.call('ZADD', due, now + delay, id)
end

-- Among what waits for its time. One that waits for a limit asks for it anew where it gets another time. Answers false
-- where it waits behind its lane now, and is written.
local function move_in_due(id, r, band, delay)
  r.band = band
  if delay >= 0 then r.flags = without(r.flags, 'l') end
  if delay > 0 then
    redis.call('ZADD', due, now + delay, id)
  elseif delay == 0 then
    redis.call('ZREM', due, id)
    r.flags = without(r.flags, 'p')
    if not may_run(q, id, r) then return false end
    make_ready(q, id, r)
  end
  return true
end

local function move(id, rows_life, after, band, delay, envelope)
  local rec = redis.call('HGET', jobs, id)
  if not rec or not is_placed(q, id, rec) then return 'unknown' end
  local r = is_tombstone(rec) and read_tombstone(rec) or read_record(rec)
  if r.life ~= rows_life or is_over(r, rows_life, after) then return 'unknown' end
  if is_tombstone(rec) then return 'over' end
  local run = read_run(redis.call('HGET', runs, id))
  if r.entry ~= '-' and run.entry == r.entry then return 'running' end
  r.text = string.sub(r.text, 1, r.at + r.size - 1) .. envelope
  if is_behind(r) then
    move_behind(id, r, band, delay)
  elseif r.entry ~= '-' then
    move_in_line(id, r, band, delay, run.attempts > 0)
  elseif not move_in_due(id, r, band, delay) then
    return 'moved'
  end
  redis.call('HSET', jobs, id, write_record(r))
  return 'moved'
end

local reply = { 'ok' }
for i = 3, #ARGV, 6 do
  reply[#reply + 1] = move(
    ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), ARGV[i + 5]
  )
end
if q.joined then prime(q) end
return reply
