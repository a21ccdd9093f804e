-- sweep: what was lost comes back: permits whose lease has lapsed, what was reserved and not come for, the parts of
-- lines whose queue is awake again, what a full reply left. Then those who waited longest are told to come.
--
-- KEYS    life held expiry used line heads idle asleep tickets rates look limits, as admit
-- ARGV    consumer who asks
--         every    ms between two sweeps of the whole fleet
--         keep     ms for which a lapsed permit can be taken again, and after which who was told to come is told again
-- Reply   {1 where there is more to do, else 0, then as release}
-- Cost    O(what is found), at most 100 of each kind; O(1) where the last one was less than `every` ago
-- uses lib/record.lua lib/permit.lua lib/line.lua lib/limit.lua lib/wake.lua
local life, held, expiry, used, line, heads, idle, asleep, tickets, rates, look, limits = unpack(KEYS)
local consumer, every, keep = unpack(ARGV, 1, 3)

local since = now_ms() - tonumber(redis.call('HGET', life, 'swept') or 0)
if since >= 0 and since < tonumber(every) then return { 0 } end
even_when_full(life)
local q = limiter({
  life = life, held = held, expiry = expiry, used = used, line = line, heads = heads, idle = idle, asleep = asleep,
  tickets = tickets, rates = rates, look = look, limits = limits,
})
local later = digits(q.now + tonumber(keep))

-- A reservation that nobody came for: the word may have been lost, so it is told again, and its place in the lines is
-- kept. Its queue may have nobody who serves it: others go first until it is heard of.
local function not_come(id, p)
  local seq = p.seq > 0 and p.seq or next_seq(q)
  redis.call('HDEL', held, id)
  redis.call('HSET', tickets, id, write_ticket({ seq = seq, queue = p.queue, moves = 0, where = '', wants = p.wants }))
  redis.call('ZADD', expiry, later, id)
  redis.call('ZADD', asleep, digits(q.now + SLEEP), p.queue)
  q.sleep[p.queue] = q.now + SLEEP
  tell(q, p.queue, id, 0)
end

local function for_each(hash, visit)
  local cursor = '0'
  repeat
    local reply = redis.call('HSCAN', hash, cursor, 'COUNT', 1000)
    cursor = reply[1]
    for i = 1, #reply[2], 2 do visit(reply[2][i], reply[2][i + 1]) end
  until cursor == '0'
end

local function has_limits(p)
  for _, w in ipairs(p.wants) do
    if w.kind == 'l' then return true end
  end
  return false
end

local function lapse(id)
  local p = read_permit(redis.call('HGET', held, id))
  if p then
    if p.state == 'x' or p.state == 'h' and not has_limits(p) then return drop_permit(q, id, p) end
    free(q, p)
    if p.state == 'r' then return not_come(id, p) end
    p.state = 'x'
    redis.call('HSET', held, id, write_permit(p))
    redis.call('ZADD', expiry, later, id)
    return
  end
  local t = read_ticket(redis.call('HGET', tickets, id))
  if t and t.where == '' then
    redis.call('ZADD', expiry, later, id)
    tell(q, t.queue, id, 0)
  else
    redis.call('ZREM', expiry, id)
  end
end

-- Parts of lines whose queue was heard of, or slept long enough.
local function rouse_parts(queue)
  local parts = redis.call('ZRANGE', idle, '[' .. queue .. '\n', '(' .. queue .. '\11', 'BYLEX', 'LIMIT', 0, 100)
  for _, part in ipairs(parts) do
    rouse(q, queue, string.sub(part, #queue + 2))
  end
  if #parts < 100 then redis.call('ZREM', asleep, queue) end
end

local function give_up(key)
  redis.call('HDEL', used, key)
  if key ~= '' then look_at(q, key, q.now) end
end

-- Where `used` was lost, permits say what is in use; its empty field tells that it was not. Where `held` was lost,
-- nothing is in use, once `expiry` has noticed.
local function count_again()
  if redis.call('HEXISTS', used, '') == 1 or redis.call('ZCARD', expiry) == 0 then return end
  q.uses = {}
  for_each(used, give_up)
  for_each(held, function(_, text)
    local p = read_permit(text)
    for _, w in ipairs(p and p.state ~= 'x' and p.wants or {}) do
      if w.kind == 'l' then use(q, w.key, w.takes) elseif p.state == 'r' then use(q, w.key, 1) end
    end
  end)
  redis.call('HSET', used, '', 0)
end

local function look_over(key)
  redis.call('ZREM', look, key)
  touch(q, key)
  local over = pace_ends(pace_of(q, key))
  if over <= q.now then redis.call('HDEL', rates, key) else look_at(q, key, over) end
end

count_again()
local lapsed = redis.call('ZRANGEBYSCORE', expiry, '-inf', q.now, 'LIMIT', 0, 100)
for _, id in ipairs(lapsed) do lapse(id) end
for _, queue in ipairs(redis.call('ZRANGEBYSCORE', asleep, '-inf', q.now, 'LIMIT', 0, 20)) do rouse_parts(queue) end
local keys = redis.call('ZRANGEBYSCORE', look, '-inf', q.now, 'LIMIT', 0, 100)
for _, key in ipairs(keys) do look_over(key) end
local woken = wake(q, consumer)
if redis.call('ZCARD', expiry) == 0 then -- at rest, or lost
  for_each(held, function(id) redis.call('ZADD', expiry, later, id) end)
  if redis.call('ZCARD', expiry) == 0 then for_each(used, give_up) end
end
local more = #lapsed == 100 or #keys == 100 or q.room <= 0
if not more then redis.call('HSET', life, 'swept', q.now) end
return { more and 1 or 0, unpack(woken) }
