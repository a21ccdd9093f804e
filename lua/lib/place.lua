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
-- `q.fresh` are those whose job this call has yet to write.
local function key_owner(q, key, id, now)
  local owner = redis.call('HGET', q.keys, key)
  if not owner or owner == id then return nil end
  local ends = redis.call('ZSCORE', q.windows, key)
  if ends then return tonumber(ends) > now and owner or nil end
  return (q.fresh[owner] or redis.call('HEXISTS', q.jobs, owner) == 1) and owner or nil
end

-- item: id head band life delay expire attempts key envelope. Answers new, repeat, or dup and the key's owner.
local function place(q, item, rec, leftover, now)
  local id = item.id
  if q.fresh[id] then return 'repeat' end
  if rec then
    local known = is_tombstone(rec) and read_tombstone(rec) or read_record(rec)
    if item.life <= known.life and is_placed(q, id, rec) then return 'repeat' end
    forget(q, id, rec)
  elseif leftover then
    forget(q, id, nil)
  end
  if item.key ~= '' then
    local owner = key_owner(q, item.key, id, now)
    if owner then return 'dup', owner end
    redis.call('HSET', q.keys, item.key, id)
    redis.call('ZREM', q.windows, item.key)
  end
  local entry = '-'
  if item.delay > 0 then
    redis.call('ZADD', q.due, now + item.delay, id)
  else
    entry = redis.call('XADD', q.ready[item.band + 1], '*', 'j', id)
  end
  local expire = item.expire == '' and 0 or digits(math.max(1, now + tonumber(item.expire)))
  q.fresh[id] = true
  q.writes[#q.writes + 1] = id
  q.writes[#q.writes + 1] = entry .. ' ' .. expire .. ' ' .. item.head .. '\n' .. item.key .. item.envelope
  if item.attempts ~= '0' then
    redis.call('HSET', q.runs, id, '0 ' .. item.attempts .. ' 0 - - 0 -')
  end
  return 'new'
end

-- Items from ARGV, seven values each: id, head (number life flags band window keysize), delay, expire, attempts,
-- key, envelope. Answers ok, then for each that is not simply new: index, word, owner.
local function place_all(q, first)
  local now, items, ids = now_ms(), {}, {}
  for i = first, #ARGV, 7 do
    local life, band = string.match(ARGV[i + 1], '^%d+ (%d+) %S+ (%d)')
    items[#items + 1] = {
      id = ARGV[i], head = ARGV[i + 1], life = tonumber(life), band = tonumber(band), delay = tonumber(ARGV[i + 2]),
      expire = ARGV[i + 3], attempts = ARGV[i + 4], key = ARGV[i + 5], envelope = ARGV[i + 6],
    }
    ids[#ids + 1] = ARGV[i]
  end
  if #ids == 0 then return { 'ok' } end
  local recs, runs = in_pieces('HMGET', q.jobs, ids), in_pieces('HMGET', q.runs, ids)
  local dues = in_pieces('ZMSCORE', q.due, ids)
  q.writes, q.fresh = {}, {}
  local reply = { 'ok' }
  for i, item in ipairs(items) do
    local word, owner = place(q, item, recs[i], runs[i] or dues[i], now)
    if word ~= 'new' then
      reply[#reply + 1] = i - 1
      reply[#reply + 1] = word
      reply[#reply + 1] = owner or ''
    end
  end
  in_pieces('HSET', q.jobs, q.writes)
  return reply
end
