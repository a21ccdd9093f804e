-- place: is a job placed, and putting it in its place. Who places hands `by_policy` of lib/policy.lua in.
-- uses lib/record.lua lib/lanes.lua lib/shares.lua

-- Does the stream entry still exist?
local function in_stream(stream, entry)
  return entry ~= '-' and #redis.call('XRANGE', stream, entry, entry) > 0
end

-- Is it waiting in `due`, behind its lane or in its share, does its entry stand in its stream, or is its outcome under
-- way (or just settled)?
local function is_placed(q, id, rec)
  if is_tombstone(rec) then
    local outcome = read_tombstone(rec).outcome
    if q.seen == nil then q.seen = {} end
    if q.seen[outcome] == nil then
      q.seen[outcome] = #redis.call('XRANGE', q.outcomes, outcome, outcome) > 0
    end
    return q.seen[outcome]
  end
  local r = read_record(rec)
  if r.entry == '-' then return redis.call('ZSCORE', q.due, id) ~= false end
  if is_behind(r) then return stands_behind(q, id, r) end
  if is_in_share(r) then return has_place_in_share(q, id, r) end
  return in_stream((stream_of(q, r)), r.entry)
end

local function forget_key(q, key, id)
  if redis.call('HGET', q.keys, key) == id then
    redis.call('HDEL', q.keys, key)
    redis.call('ZREM', q.windows, key)
  end
end

-- Everything that Redis knows of a job, gone; its key as well. One that is placed anew keeps its lane.
local function forget(q, id, rec, keeps_lane)
  if rec and not is_tombstone(rec) then
    local r = read_record(rec)
    leave_share(q, id, r)
    if has_entry(r) then
      local stream = stream_of(q, r)
      redis.call('XACK', stream, 'workers', r.entry)
      redis.call('XDEL', stream, r.entry)
    end
    if r.size > 0 then forget_key(q, key_of(r), id) end
    if keeps_lane then step_out(q, id, r) else leave_lane(q, id, r) end
  end
  redis.call('HDEL', q.jobs, id)
  redis.call('HDEL', q.runs, id)
  redis.call('ZREM', q.due, id)
  redis.call('SREM', q.cancels, id)
end

-- Who holds the key, if anybody but `id` does. An owner without a job and without a window is a ghost;
-- `q.fresh` are those whose job this call has yet to write. Answers dup while the owner lives or is suspended, kept in
-- its window.
local function key_owner(q, key, id, now)
  local owner = redis.call('HGET', q.keys, key)
  if not owner or owner == id then return nil end
  local ends = redis.call('ZSCORE', q.windows, key)
  if ends then
    if tonumber(ends) >= UNTIL_IT_ENDS then return owner, 'dup' end
    if tonumber(ends) > now then return owner, 'kept' end
    return nil
  end
  if q.fresh[owner] or redis.call('HEXISTS', q.jobs, owner) == 1 then return owner, 'dup' end
  return nil
end

-- Of a publication whose end has settled nothing counts any more: neither its tombstone, nor its job in a Redis that
-- went back. The next one goes on counting its starts, so that no token is given twice.
local function is_over(known, life, after)
  return after > 0 and known.life == life and known.number <= after
end

local function starts_of(q, id, rec)
  if is_tombstone(rec) then
    local t = read_tombstone(rec)
    return t.start or '0', t.consumer and t.consumer ~= '-' and t.consumer .. '/' .. t.start or '-'
  end
  local run = read_run(redis.call('HGET', q.runs, id))
  return run.starts, run.last
end

-- What is placed already is a repeat; of one that has replaced another job that is told again.
local function repeated(rec)
  local replaced = not is_tombstone(rec) and string.match(policy_of(read_record(rec)), '^r:[%d-]+:(%x+)$')
  if not replaced then return 'repeat' end
  return 'replaces', (string.gsub(replaced, '%x%x', function(h) return string.char(tonumber(h, 16)) end))
end

-- A key by the ordinary policy: it is its job's until that ends, and for a window after. A job that ran before its key
-- was lost to another one goes on without it.
local function by_key(q, id, key, after, now)
  local owner, why = key_owner(q, key, id, now)
  if owner and after == 0 then return why, owner end
  if not owner then
    redis.call('HSET', q.keys, key, id)
    redis.call('ZREM', q.windows, key)
  end
  return 'new'
end

-- The item at ARGV[at], whose id is known. Answers new, repeat, or dup or kept and the key's owner, or replaces and the
-- job whose key it has taken. A run that goes on after a suspension has had what throttle and debounce are for.
local function place(q, at, id, rec, leftover, now)
  local head, after, region = ARGV[at + 1], tonumber(ARGV[at + 5]), ARGV[at + 6]
  local life, flags, band = string.match(head, '^%d+ (%d+) (%S+) (%d)')
  local x = has(flags, 'x') and read_extras(region) or { key = region, policy = '-', share = '' }
  local starts, last = 0, '-'
  if q.fresh[id] then return 'repeat' end
  if rec then
    local known = is_tombstone(rec) and read_tombstone(rec) or read_record(rec)
    if is_over(known, tonumber(life), after) then
      starts, last = starts_of(q, id, rec)
    elseif tonumber(life) <= known.life and is_placed(q, id, rec) and (is_tombstone(rec) or is_led(q, known)) then
      return repeated(rec)
    end
    forget(q, id, rec, true)
  elseif leftover then
    forget(q, id, nil)
  end
  local entry, delay, expire, word, owner = '-', tonumber(ARGV[at + 2]), ARGV[at + 3], 'new', nil
  if x.key ~= '' and after == 0 and x.policy ~= '-' then
    word, owner, delay = q.by_policy(q, id, x, delay, now)
    region = write_extras(x)
    head = string.gsub(head, '%d+$', #region)
  elseif x.key ~= '' and not string.find(x.policy, '^[td]:') then
    word, owner = by_key(q, id, x.key, after, now)
  end
  if word == 'dup' or word == 'kept' then
    if rec and not is_tombstone(rec) then leave_lane(q, id, read_record(rec)) end
    return word, owner
  end
  expire = expire == '' and '0' or digits(math.max(1, now + tonumber(expire)))
  local text, w = ' ' .. expire .. ' ' .. head .. '\n' .. region .. ARGV[at + 7], #q.writes
  if x.lane and x.lane ~= '' then
    q.fresh[id] = true
    place_in_lane(q, id, read_record('-' .. text), delay > 0 and now + delay, ARGV[at + 4] ~= '0' or after > 0)
  else
    if delay > 0 then
      redis.call('ZADD', q.due, now + delay, id)
    elseif x.share ~= '' then
      entry = join_share(q, id, x.share, band)
    else
      entry = redis.call('XADD', q.ready[band + 1], '*', 'j', id)
    end
    q.fresh[id] = w + 2
    q.writes[w + 1] = id
    q.writes[w + 2] = entry .. text
  end
  if ARGV[at + 4] ~= '0' or tonumber(starts) > 0 then
    redis.call('HSET', q.runs, id, starts .. ' ' .. ARGV[at + 4] .. ' 0 - - 0 ' .. last)
  end
  return word, owner
end

-- Items from ARGV, eight values each: id, head (number life flags band window keysize), delay, expire, attempts,
-- after, key, envelope. Answers ok, then for each that is not simply new: index, word, owner.
local function place_all(q, first)
  local now, ids = now_ms(), {}
  for at = first, #ARGV, 8 do ids[#ids + 1] = ARGV[at] end
  if #ids == 0 then return { 'ok' } end
  local recs, runs = in_pieces('HMGET', q.jobs, ids), in_pieces('HMGET', q.runs, ids)
  local dues = in_pieces('ZMSCORE', q.due, ids)
  q.writes, q.fresh = {}, {}
  local reply = { 'ok' }
  for i, id in ipairs(ids) do
    local word, owner = place(q, first + 8 * (i - 1), id, recs[i], runs[i] or dues[i], now)
    if word ~= 'new' then
      reply[#reply + 1] = i - 1
      reply[#reply + 1] = word
      reply[#reply + 1] = owner or ''
    end
  end
  in_pieces('HSET', q.jobs, q.writes)
  return reply
end
