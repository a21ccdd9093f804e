-- ending: outcomes and ends, gathered first and written at once.
-- uses lib/record.lua lib/lanes.lua lib/shares.lua

local ENTRY_VALUES, ENTRY_BYTES = 1000, 1000000

local function new_batch()
  return { entries = {}, open = {}, ended = {}, jobs = {}, runs = {}, gone = {}, acks = { {}, {}, {}, {} } }
end

-- The entry of `outcomes` to be that takes the next text: of `told`, or of `quiet` ones, which nobody waits for.
local function entry_for(batch, kind, text)
  local entry = batch.open[kind]
  if not entry or #entry >= ENTRY_VALUES or entry.bytes + #text > ENTRY_BYTES then
    entry = { kind = kind, bytes = 0 }
    batch.open[kind] = entry
    batch.entries[#batch.entries + 1] = entry
  end
  entry.bytes = entry.bytes + #text
  return entry
end

-- The outcome on its way to Postgres: word life number attempts due envelopesize LF envelope record
local function tell(batch, id, r, run, word, due, record)
  local kind, envelope = 'told', ''
  if has(r.flags, 'd') then
    if word == 'dead' then envelope = envelope_of(r) else kind = 'quiet' end
  end
  local text = table.concat({ word, r.life, r.number, run.attempts, due and digits(due) or 0, #envelope }, ' ')
    .. '\n' .. envelope .. record
  local entry = entry_for(batch, kind, text)
  entry[#entry + 1] = id
  entry[#entry + 1] = text
  return entry
end

local function drop_entry(q, batch, id, r)
  leave_share(q, id, r)
  if has_entry(r) then
    local _, n = stream_of(q, r)
    local acks = batch.acks[n]
    acks[#acks + 1] = r.entry
  end
end

-- The job ends: a tombstone with the token of the holder whose finish was accepted. A suspended one keeps its key.
-- consumer: who ends it; nil where nobody holds it: then the tombstone names whose finish of its last start was
-- accepted, for that one may ask again.
local function end_job(q, batch, id, r, run, word, record, consumer, now, due)
  local holder = consumer or string.match(run.last, '^(.*)/' .. run.starts .. '$') or '-'
  drop_entry(q, batch, id, r)
  local outcome = tell(batch, id, r, run, word, due, record)
  batch.ended[#batch.ended + 1] = { id, outcome, r.number .. ' ' .. run.starts .. ' ' .. r.life .. ' ' .. holder }
  batch.gone[#batch.gone + 1] = id
  if r.entry == '-' then redis.call('ZREM', q.due, id) end
  if has(r.flags, 'c') then redis.call('SREM', q.cancels, id) end
  if word == 'suspended' then keep_lane(q, id, r) else leave_lane(q, id, r) end
  if r.size > 0 and not string.find(policy_of(r), '^t:') then -- a throttle counts on, whatever becomes of its job
    local key = key_of(r)
    if redis.call('HGET', q.keys, key) == id then
      if word == 'suspended' then
        redis.call('ZADD', q.windows, UNTIL_IT_ENDS, key)
      elseif r.window > 0 then
        redis.call('ZADD', q.windows, now + r.window, key)
      else
        redis.call('HDEL', q.keys, key)
      end
    end
  end
end

-- Most ends, in one go: a job done that is held as told and has no key, lane, cancel and result to look after.
-- Its values are read as far as needed, and not into tables. Answers false where it is not that.
local function end_plainly(batch, id, rec, run, entry, start, consumer, counted, record)
  local placed, number, life, flags, band, size, at =
    string.match(rec, '^(%S+) %d+ (%d+) (%d+) ([dx-]+) ([0-5]) %d+ (%d+)\n()')
  if placed ~= entry or size ~= '0' and not string.find(rec, '^0 0 %d+ %-\n', at) then return false end
  local starts, attempts, holder, held = string.match(run, '^(%d+) (%d+) %d+ (%S+) (%S+) ')
  if held ~= entry or holder ~= consumer or starts ~= start then return false end
  local text = 'done ' .. life .. ' ' .. number .. ' ' .. attempts + counted .. ' 0 0\n' .. record
  local outcome = entry_for(batch, has(flags, 'd') and 'quiet' or 'told', text)
  local acks = batch.acks[band > '2' and 4 or band + 1]
  local o, e = #outcome, #batch.ended + 1
  outcome[o + 1], outcome[o + 2] = id, text
  acks[#acks + 1] = entry
  batch.ended[e] = { id, outcome, number .. ' ' .. start .. ' ' .. life .. ' ' .. consumer }
  batch.gone[#batch.gone + 1] = id
  return true
end

local function write_batch(q, batch, now)
  for band = 1, 4 do
    if #batch.acks[band] > 0 then
      for first = 1, #batch.acks[band], 1000 do
        local last = math.min(first + 999, #batch.acks[band])
        redis.call('XACK', q.ready[band], 'workers', unpack(batch.acks[band], first, last))
        redis.call('XDEL', q.ready[band], unpack(batch.acks[band], first, last))
      end
    end
  end
  for _, entry in ipairs(batch.entries) do
    entry.id = redis.call('XADD', q.outcomes, '*', unpack(entry))
    if entry.kind == 'quiet' then redis.call('ZADD', q.graves, now, entry.id) end
  end
  for _, item in ipairs(batch.ended) do
    batch.jobs[#batch.jobs + 1] = item[1]
    batch.jobs[#batch.jobs + 1] = '! ' .. item[2].id .. ' ' .. item[3]
  end
  in_pieces('HSET', q.jobs, batch.jobs)
  in_pieces('HSET', q.runs, batch.runs)
  in_pieces('HDEL', q.runs, batch.gone)
end
