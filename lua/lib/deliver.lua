-- deliver: entries become deliveries, each with a fencing token.
-- uses lib/record.lua lib/ready.lua

-- New entries of a stream for this consumer; the group is made, from the stream's start, where it is missing.
local function read_new(stream, consumer, count)
  local reply = redis.pcall('XREADGROUP', 'GROUP', 'workers', consumer, 'COUNT', count, 'STREAMS', stream, '>')
  if reply and reply.err then
    of_group(reply)
    redis.call('XGROUP', 'CREATE', stream, 'workers', '0', 'MKSTREAM')
    reply = redis.call('XREADGROUP', 'GROUP', 'workers', consumer, 'COUNT', count, 'STREAMS', stream, '>')
  end
  return reply and reply[1] and reply[1][2] or {}
end

-- Its share was paused once it had had its turn: it is the first there again.
local function hand_to_share(q, band, entry, id, rec)
  local r = read_record(rec)
  redis.call('XACK', q.ready[band + 1], 'workers', entry)
  redis.call('XDEL', q.ready[band + 1], entry)
  r.front, r.entry = false, join_share(q, id, extras_of(r).share, r.band, true)
  redis.call('HSET', q.jobs, id, write_record(r))
end

-- found: a list of {band, entry, id} pending under this consumer. What it has begun already is told again, under the
-- same token, where it asks `again`; for a fresh read that can only be what it runs now, of a group that was lost.
-- Reply: entry, id, band, record, starts, attempts, losses, expired (0 or 1) for each; what has ended is dropped.
local function deliver(q, found, consumer, lease, again)
  local reply, ids = { 'ok' }, {}
  if #found == 0 then return reply end
  for i, item in ipairs(found) do ids[i] = item[3] end
  local recs, runs, now, writes = in_pieces('HMGET', q.jobs, ids), in_pieces('HMGET', q.runs, ids), now_ms(), {}
  for i, item in ipairs(found) do
    local band, entry, id = item[1], item[2], item[3]
    local rec = recs[i]
    local placed, expire = nil, nil
    if rec then placed, expire = string.match(rec, '^(%S+) (%d+)') end
    if placed ~= entry then
      redis.call('XACK', q.ready[band + 1], 'workers', entry)
      redis.call('XDEL', q.ready[band + 1], entry)
    elseif is_stopped(q, rec) and not (runs[i] and read_run(runs[i]).entry == entry) then
      hand_to_share(q, band, entry, id, rec)
    else
      local run, text = runs[i] and read_run(runs[i]), nil
      if not run then -- most have never run
        text = '1 0 0 ' .. consumer .. ' ' .. entry .. ' ' .. lease .. ' -'
      elseif run.entry ~= entry or (again and run.holder == consumer) then
        if run.entry ~= entry then run.starts = run.starts + 1 end
        run.holder, run.entry, run.lease = consumer, entry, lease
        text = write_run(run)
      end
      if text then
        local w, n = #writes, #reply
        writes[w + 1], writes[w + 2] = id, text
        reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = entry, id, band, rec
        reply[n + 5], reply[n + 6], reply[n + 7] = 1, 0, 0
        if run then reply[n + 5], reply[n + 6], reply[n + 7] = run.starts, run.attempts, run.losses end
        reply[n + 8] = expire ~= '0' and tonumber(expire) <= now and 1 or 0
      end
    end
  end
  in_pieces('HSET', q.runs, writes)
  return reply
end

local function is_begun(q, entry, id)
  return read_run(redis.call('HGET', q.runs, id)).entry == entry
end

-- Puts an entry that was read but not begun back into its stream, for another reader.
local function put_back(q, band, entry, id)
  local rec = redis.call('HGET', q.jobs, id)
  redis.call('XACK', q.ready[band + 1], 'workers', entry)
  redis.call('XDEL', q.ready[band + 1], entry)
  if rec and not is_tombstone(rec) then
    local r = read_record(rec)
    if r.entry == entry then
      make_ready(q, id, r)
      redis.call('HSET', q.jobs, id, write_record(r))
    end
  end
end
