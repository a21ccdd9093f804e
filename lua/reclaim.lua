-- reclaim: deliveries whose lease has ended go to a worker with free slots; the loss is counted.
--
-- KEYS    life jobs runs due keys windows outcomes graves cancels lanes behind, ready: the four streams, shares ring
-- ARGV    consumer   who has free slots
--         lease      ms, as in take
--         count      free slots
--         max_losses after so many lost leases the job is a dead letter
-- Reply   as take; {paused} as long as nothing may start
-- Cost    O(leases) once in lease/4 for the whole fleet; O(1) in between, unless there is more to take
-- uses lib/record.lua lib/place.lua lib/ending.lua lib/deliver.lua lib/turns.lua
local life, jobs, runs, due, keys, windows, outcomes, graves, cancels, lanes, behind,
  ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local consumer, lease, count, max_losses = unpack(ARGV, 1, 4)

local q = {
  life = life, jobs = jobs, runs = runs, due = due, keys = keys, windows = windows, outcomes = outcomes,
  graves = graves, cancels = cancels, lanes = lanes, behind = behind, ready = { ready0, ready1, ready2, ready3 },
  shares = shares, ring = ring,
}
lease, count = tonumber(lease), tonumber(count)
local now, found, ended, batch, more = now_ms(), {}, 0, new_batch(), false
local known = redis.call('HMGET', life, 'paused', 'swept', 'shares_paused')
if known[1] == '1' then return { 'paused' } end
q.stopped = known[3]
local since = now - tonumber(known[2] or 0)
if since >= 0 and since < lease / 4 then return { 'ok' } end
even_when_full(life)

-- What becomes of one lapsed delivery; true when it is the consumer's now.
local function take_over(band, entry, id, idle)
  local rec = redis.call('HGET', jobs, id)
  if not rec or string.match(rec, '^(%S+)') ~= entry then
    batch.acks[band][#batch.acks[band] + 1] = entry
    return false
  end
  local run, r = read_run(redis.call('HGET', runs, id)), read_record(rec)
  if run.entry == entry then
    if idle < run.lease then return false end
    run.losses = run.losses + 1
    local word = has(r.flags, 'c') and 'cancelled' or run.losses >= tonumber(max_losses) and 'dead'
    if word then
      end_job(q, batch, id, r, run, word, '', nil, now)
      ended = ended + 1
      return false
    end
    run.holder, run.entry = '-', '-'
    redis.call('HSET', runs, id, write_run(run))
  end
  redis.call('XCLAIM', q.ready[band], 'workers', consumer, 0, entry, 'JUSTID')
  return true
end

for band, stream in ipairs(q.ready) do
  local late = of_group(redis.pcall('XPENDING', stream, 'workers', 'IDLE', lease, '-', '+', count + 500))
  for _, item in ipairs(late) do
    if #found >= count or ended >= 500 then more = true break end
    local entry = redis.call('XRANGE', stream, item[1], item[1])[1]
    if not entry then
      redis.call('XACK', stream, 'workers', item[1])
    elseif take_over(band, item[1], entry[2][2], item[3]) then
      found[#found + 1] = { band - 1, item[1], entry[2][2] }
    end
  end
end
write_batch(q, batch, now)
if not more then redis.call('HSET', life, 'swept', now) end
local reply = deliver(q, found, consumer, lease, true)
if q.joined then prime(q) end
return reply
