-- place: is a job placed, and putting it in its place.
-- uses lib/record.lua

-- Does the stream entry still exist?
local function in_stream(stream, entry)
  return entry ~= '-' and #redis.call('XRANGE', stream, entry, entry) > 0
end

-- Is it waiting in `due`, does its entry stand in its stream, or is its outcome under way (or just settled)?
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
  return in_stream(q.ready[r.band + 1], r.entry)
end

local function forget_key(q, key, id)
  if redis.call('HGET', q.keys, key) == id then
    redis.call('HDEL', q.keys, key)
    redis.call('ZREM', q.windows, key)
  end
end

-- Everything that Redis knows of a job, gone; its key as well.
local function forget(q, id, rec)
  if rec and not is_tombstone(rec) then
    local r = read_record(rec)
    if r.entry ~= '-' then
      redis.call('XACK', q.ready[r.band + 1], 'workers', r.entry)
      redis.call('XDEL', q.ready[r.band + 1], r.entry)
    end
    if r.size > 0 then forget_key(q, key_of(r), id) end
  end
  redis.call('HDEL', q.jobs, id)
  redis.call('HDEL', q.runs, id)
  redis.call('ZREM', q.due, id)
  redis.call('SREM', q.cancels, id)
end

-- Who holds the key, if anybody but `id` does. An owner without a job and without a window is a ghost;
-- `q.fresh` are those whose job this call has yet to write. Answers dup while the owner lives, kept in its window.
local function key_owner(q, key, id, now)
  local owner = redis.call('HGET', q.keys, key)
  if not owner or owner == id then return nil end
  local ends = redis.call('ZSCORE', q.windows, key)
  if ends then
    if tonumber(ends) > now then return owner, 'kept' end
    return nil
  end
  if q.fresh[owner] or redis.call('HEXISTS', q.jobs, owner) == 1 then return owner, 'dup' end
  return nil
end

-- The item at ARGV[at], whose id is known. Answers new, repeat, or dup or kept and the key's owner.
local function place(q, at, id, rec, leftover, now)
  local head, key = ARGV[at + 1], ARGV[at + 5]
  local life, band = string.match(head, '^%d+ (%d+) %S+ (%d)')
  if q.fresh[id] then return 'repeat' end
  if rec then
    local known = is_tombstone(rec) and read_tombstone(rec) or read_record(rec)
    if tonumber(life) <= known.life and is_placed(q, id, rec) then return 'repeat' end
    forget(q, id, rec)
  elseif leftover then
    forget(q, id, nil)
  end
  if key ~= '' then
    local owner, why = key_owner(q, key, id, now)
    if owner then return why, owner end
    redis.call('HSET', q.keys, key, id)
    redis.call('ZREM', q.windows, key)
  end
  local entry, delay, expire = '-', tonumber(ARGV[at + 2]), ARGV[at + 3]
  if delay > 0 then
    redis.call('ZADD', q.due, now + delay, id)
  else
    entry = redis.call('XADD', q.ready[band + 1], '*', 'j', id)
  end
  expire = expire == '' and '0' or digits(math.max(1, now + tonumber(expire)))
  q.fresh[id] = true
  local w = #q.writes
  q.writes[w + 1] = id
  q.writes[w + 2] = entry .. ' ' .. expire .. ' ' .. head .. '\n' .. key .. ARGV[at + 6]
  if ARGV[at + 4] ~= '0' then
    redis.call('HSET', q.runs, id, '0 ' .. ARGV[at + 4] .. ' 0 - - 0 -')
  end
  return 'new'
end

-- Items from ARGV, seven values each: id, head (number life flags band window keysize), delay, expire, attempts,
-- key, envelope. Answers ok, then for each that is not simply new: index, word, owner.
local function place_all(q, first)
  local now, ids = now_ms(), {}
  for at = first, #ARGV, 7 do ids[#ids + 1] = ARGV[at] end
  if #ids == 0 then return { 'ok' } end
  local recs, runs = in_pieces('HMGET', q.jobs, ids), in_pieces('HMGET', q.runs, ids)
  local dues = in_pieces('ZMSCORE', q.due, ids)
  q.writes, q.fresh = {}, {}
  local reply = { 'ok' }
  for i, id in ipairs(ids) do
    local word, owner = place(q, first + 7 * (i - 1), id, recs[i], runs[i] or dues[i], now)
    if word ~= 'new' then
      reply[#reply + 1] = i - 1
      reply[#reply + 1] = word
      reply[#reply + 1] = owner or ''
    end
  end
  in_pieces('HSET', q.jobs, q.writes)
  return reply
end
