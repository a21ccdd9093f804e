-- admit: attempts want to begin: each gets all that it wants, or a place in the line of the first limit that is full.
--
-- KEYS    life     seq, swept, patient
--         held expiry used     permits: who has what, until when, and how much is in use
--         line heads idle asleep tickets     who waits
--         rates look limits    rates, when to look at a line again, what was set at run time
-- ARGV    consumer who runs them
--         lease    ms from now for which the permits are the consumer's
--         …        of each job id, start, queue, wants (lib/permit.lua)
-- Reply   of each a word, ms and a limit key: ok; wait (it stands in the line of the key, or a newer start has its
--         permit); later (all is reserved for it, and it is to come back in so many ms)
-- Cost    O(wants log jobs that wait)
-- uses lib/record.lua lib/permit.lua lib/line.lua lib/limit.lua
local life, held, expiry, used, line, heads, idle, asleep, tickets, rates, look, limits = unpack(KEYS)
local consumer, lease = unpack(ARGV, 1, 2)

even_when_full(life)
lease = tonumber(lease)
local q = limiter({
  life = life, held = held, expiry = expiry, used = used, line = line, heads = heads, idle = idle, asleep = asleep,
  tickets = tickets, rates = rates, look = look, limits = limits,
})

-- A queue that asks is awake; a sweep sees to the rest of its lines.
local function is_there(queue, wants)
  is_asleep(q, queue)
  if q.sleep[queue] < 0 then return end
  if q.sleep[queue] > 0 then redis.call('ZADD', asleep, 0, queue) end
  q.sleep[queue] = 0
  for _, w in ipairs(wants) do rouse(q, queue, w.key) end
end

local function stand(id, t, queue, wants, seq, key, wait)
  seq = seq or next_seq(q)
  join(q, id, { seq = seq, queue = queue, moves = t and t.moves or 0, wants = wants }, key)
  redis.call('ZREM', expiry, id)
  if wait then look_at(q, key, q.now + wait - AHEAD) end
end

local function ask(id, start, queue, text)
  local p, t = read_permit(redis.call('HGET', held, id)), read_ticket(redis.call('HGET', tickets, id))
  local wants = read_wants(text)
  is_there(queue, wants)
  if p and p.start > start then return 'wait', 0, '' end
  if p and p.state == 'h' and p.start == start and p.consumer == consumer then
    redis.call('ZADD', expiry, digits(q.now + lease), id)
    return 'ok', 0, ''
  end
  if p and p.state == 'r' and p.at > q.now then return 'later', p.at - q.now, '' end
  local kept, seq = p and p.state ~= 'x', p and p.seq or t and t.seq
  local stood = t and t.where or ''
  if p then drop_permit(q, id, p) end
  if t then leave(q, id, t) end
  local delay, key, wait = weigh(q, id, p and 0 or seq or math.huge, wants, kept)
  if stood ~= '' and stood ~= key and head_of(q, stood) then look_at(q, stood, q.now) end
  if not delay then
    stand(id, t, queue, wants, seq, key, wait)
    return 'wait', 0, key
  end
  if t then redis.call('HDEL', tickets, id) end
  local permit = { start = start, consumer = consumer, queue = queue, seq = seq or 0, wants = wants }
  if delay > 0 then
    reserve(q, id, permit, delay, kept)
    return 'later', delay, ''
  end
  give(q, id, permit, lease)
  return 'ok', 0, ''
end

local reply = {}
for i = 3, #ARGV, 4 do
  local r = #reply
  reply[r + 1], reply[r + 2], reply[r + 3] = ask(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3])
end
for key, change in pairs(q.change) do -- what a permit had and its job wants no more
  if change < 0 and head_of(q, key) then look_at(q, key, q.now) end
end
return reply
