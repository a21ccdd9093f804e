-- line: who waits for a limit key, in the order of coming. Each queue has its own part of a line, so that one that
-- nobody serves can be passed over; the first of each part stand in `heads`.
--
-- line    key LF queue LF seq LF id: every job that waits
-- heads   key LF seq LF queue LF id: the first of each queue that is awake
-- idle    queue LF key: parts of queues that are asleep
-- asleep  queue -> ms of Redis time until which it is asleep: it did not come for what was reserved for it. Times that
--         are over wait for a sweep to rouse the queue's parts
-- look    key -> ms at which a sweep is to look at its line, or to drop what `rates` has of it
-- uses lib/record.lua lib/permit.lua

local function padded(seq)
  return string.format('%016.0f', seq)
end

-- The first member that begins with these words.
local function first_with(zset, ...)
  local start = table.concat({ ... }, '\n')
  return redis.call('ZRANGE', zset, '[' .. start .. '\n', '(' .. start .. '\11', 'BYLEX', 'LIMIT', 0, 1)[1]
end

-- The entry in `heads` for the first of a queue's part of a line, or nil where nobody waits.
local function first_head(q, key, queue)
  local first = first_with(q.line, key, queue)
  if not first then return nil end
  local rest = string.sub(first, #key + #queue + 3)
  return table.concat({ key, string.sub(rest, 1, 16), queue, string.sub(rest, -16) }, '\n')
end

local function is_asleep(q, queue)
  local known = q.sleep[queue]
  if known == nil then
    known = tonumber(redis.call('ZSCORE', q.asleep, queue) or -1)
    q.sleep[queue] = known
  end
  return known > q.now
end

-- A sweep looks at the line of `key` at this time, or before.
local function look_at(q, key, at)
  redis.call('ZADD', q.look, 'LT', math.floor(at), key)
end

-- A queue's part of a line counts again.
local function rouse(q, queue, key)
  if redis.call('ZREM', q.idle, queue .. '\n' .. key) == 0 then return end
  local first = first_head(q, key, queue)
  if first then redis.call('ZADD', q.heads, 0, first) end
  look_at(q, key, q.now)
end

-- The first in a line, of all queues that are awake: {seq, queue, id}, or nil.
local function head_of(q, key)
  for _ = 1, 100 do
    local head = first_with(q.heads, key)
    if not head then return nil end
    local rest = string.sub(head, #key + 2)
    local queue = string.sub(rest, 18, -18)
    if not is_asleep(q, queue) then
      return { seq = tonumber(string.sub(rest, 1, 16)), queue = queue, id = string.sub(rest, -16) }
    end
    redis.call('ZREM', q.heads, head)
    redis.call('ZADD', q.idle, 0, queue .. '\n' .. key)
  end
end

-- The ticket stands in the line of `key` from now on.
local function join(q, id, t, key)
  rouse(q, t.queue, key)
  local before = first_head(q, key, t.queue)
  redis.call('ZADD', q.line, 0, table.concat({ key, t.queue, padded(t.seq), id }, '\n'))
  local after = first_head(q, key, t.queue)
  if before ~= after then
    if before then redis.call('ZREM', q.heads, before) end
    redis.call('ZADD', q.heads, 0, after)
  end
  t.where = key
  redis.call('HSET', q.tickets, id, write_ticket(t))
end

-- It stands in no line any more; `tickets` is left to the caller.
local function leave(q, id, t)
  if t.where == '' then return end
  local key, seq = t.where, padded(t.seq)
  redis.call('ZREM', q.line, table.concat({ key, t.queue, seq, id }, '\n'))
  if redis.call('ZREM', q.heads, table.concat({ key, seq, t.queue, id }, '\n')) == 1 then
    local first = first_head(q, key, t.queue)
    if first then redis.call('ZADD', q.heads, 0, first) end
  end
  t.where = ''
end
