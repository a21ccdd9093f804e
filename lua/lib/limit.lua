-- limit: what an attempt wants, whether it can have it, and giving and taking it. All of its wants or none.
--
-- used    limit key -> weight in use; of a rate: how many are reserved that have not begun. Moves only with `held`
-- rates   key -> tat back closed
--     tat      ms of Redis time, with a fraction: when the starts so far were due if evenly spaced, plus one space
--     back     when the next one that came too soon is sent for
--     closed   ms until which nothing of the key starts
-- limits  name -> `max N`, or `rate count period burst`: set at run time, and counts instead of what jobs say
-- uses lib/record.lua lib/permit.lua lib/line.lua

-- What is reserved is kept for so long, in ms, from when the job may come for it.
local RESERVED = 10000
-- A rate is reserved so far ahead, in ms; sweeps come more often.
local AHEAD = 2000
-- For so long after a pause of a key, in ms, its rate remembers it.
local CALM = 60000
-- A queue that did not come for what was reserved for it is passed over for so long, in ms.
local SLEEP = 30000

-- Others leave this one what it wants.
local function wait_for_one(q, id, t)
  q.patient = { id = id, ticket = t, wants = {} }
  for _, w in ipairs(t.wants) do q.patient.wants[w.key] = w end
end

local function limiter(q)
  q.now, q.sleep, q.uses, q.rules, q.paces, q.touched, q.woken, q.room = now_ms(), {}, {}, {}, {}, {}, {}, 100
  q.change = {}
  local id, term = string.match(redis.call('HGET', q.life, 'patient') or '', '^(.*) (%d+)$')
  local t = id and tonumber(term) > q.now and read_ticket(redis.call('HGET', q.tickets, id))
  if t and not is_asleep(q, t.queue) then
    wait_for_one(q, id, t)
  elseif id then
    redis.call('HDEL', q.life, 'patient')
    for _, w in ipairs(t and t.wants or {}) do look_at(q, w.key, q.now) end
  end
  return q
end

local function touch(q, key)
  if not q.touched[key] then
    q.touched[key] = true
    q.touched[#q.touched + 1] = key
  end
end

local function rule_of(q, w)
  local rule = q.rules[w.name]
  if rule == nil then
    rule = redis.call('HGET', q.limits, w.name)
    q.rules[w.name] = rule
  end
  return rule or ''
end

-- The most at once, or for a rate: ms between two starts, and how many ms they may come too soon. Nil: nothing at all.
local function size_of(q, w)
  local rule = rule_of(q, w)
  local most = tonumber(string.match(rule, '^max (%d+)$'))
  if most == 0 then return nil end
  if w.kind == 'l' then
    most = most or w.b
    return most > 0 and most or nil
  end
  local count, period, burst = string.match(rule, '^rate (%d+) (%d+) (%d+)$')
  local space = tonumber(period or w.b) / tonumber(count or w.a)
  return space, space * tonumber(burst or w.c)
end

local function used_of(q, key)
  local used = q.uses[key]
  if used == nil then
    used = tonumber(redis.call('HGET', q.used, key) or 0)
    q.uses[key] = used
  end
  return used
end

local function use(q, key, by)
  if by == 0 then return end
  local used = math.max(0, used_of(q, key) + by)
  if used > 0 then redis.call('HSET', q.used, key, used) else redis.call('HDEL', q.used, key) end
  q.uses[key] = used
  q.change[key] = (q.change[key] or 0) + by
end

local function read_pace(text)
  local tat, back, closed = string.match(text or '', '^(%S+) (%S+) (%S+)$')
  return { tat = tonumber(tat or 0), back = tonumber(back or 0), closed = tonumber(closed or 0) }
end

-- From when on it says nothing any more.
local function pace_ends(pace)
  return math.max(pace.tat, pace.closed > 0 and pace.closed + CALM or 0)
end

local function pace_of(q, key)
  local pace = q.paces[key]
  if pace == nil then
    pace = read_pace(redis.call('HGET', q.rates, key))
    q.paces[key] = pace
  end
  return pace
end

local function write_pace(q, key)
  local pace = q.paces[key]
  redis.call('HSET', q.rates, key, string.format('%.3f %.3f %.0f', pace.tat, pace.back, pace.closed))
  look_at(q, key, pace_ends(pace))
end

-- Once its key was closed, a rate begins with single starts, and not with as many as may come too soon. What says that
-- the next start is further away than a start can make it is of another rate, or of another clock, and is put right.
local function tat_of(q, key, space, early)
  local pace = pace_of(q, key)
  if pace.tat > q.now + early + space then
    pace.tat = q.now + early + space
    write_pace(q, key)
  end
  return math.max(pace.tat, pace.closed > 0 and pace.closed + early or 0)
end

-- What the one that others wait for wants of a key.
local function claim_on(q, id, key)
  return q.patient and q.patient.id ~= id and q.patient.wants[key] or nil
end

-- ms until a want can be had, or nil where nobody knows. `kept`: it is reserved.
local function wait_for(q, id, w, kept)
  local size, early = size_of(q, w)
  if not size then return nil end
  local pace, claim = pace_of(q, w.key), not kept and claim_on(q, id, w.key)
  local ready = pace.closed
  if w.kind == 'l' then
    w.takes = math.min(w.a, size)
    local claimed = claim and math.min(claim.a, size) or 0
    if used_of(q, w.key) + w.takes + claimed > size then return nil end
  elseif kept then
    local open = tat_of(q, w.key, size, early) - early
    if open > q.now then open = math.max(open, math.min(pace.back, open + used_of(q, w.key) * size)) end
    ready = math.max(ready, open)
  else
    ready = math.max(ready, tat_of(q, w.key, size, early) - early + (used_of(q, w.key) + (claim and 1 or 0)) * size)
  end
  return math.max(0, math.ceil(ready - q.now))
end

-- May a job with this place in the lines have all that it wants? Answers in how many ms, at most AHEAD; or nil, the key
-- that it must wait for, and in how many ms that allows it, where this is known. With `kept` it stands behind nobody.
local function weigh(q, id, seq, wants, kept)
  local delay = 0
  for _, w in ipairs(wants) do
    local wait = wait_for(q, id, w, kept)
    if not wait or wait > AHEAD then return nil, w.key, wait end
    if not kept then
      local head = head_of(q, w.key)
      if head and head.seq < seq then return nil, w.key, nil end
    end
    delay = math.max(delay, wait)
  end
  return delay
end

-- A place behind all others, also where the last one given was lost.
local function next_seq(q)
  local seq = math.max(tonumber(redis.call('HGET', q.life, 'seq') or 0) + 1, q.now * 1000)
  redis.call('HSET', q.life, 'seq', digits(seq))
  return seq
end

local function write_held(q, id, p, expiry)
  redis.call('HSET', q.held, id, write_permit(p))
  redis.call('ZADD', q.expiry, digits(expiry), id)
end

local function forget_patient(q, id)
  if q.patient and q.patient.id == id then
    redis.call('HDEL', q.life, 'patient')
    q.patient = nil
  end
end

-- The attempt begins: its limits are in use, its rates have one start more.
local function give(q, id, p, lease)
  p.state, p.since, p.at = 'h', q.now, q.now
  for _, w in ipairs(p.wants) do
    if w.kind == 'l' then
      use(q, w.key, w.takes)
    else
      local pace = pace_of(q, w.key)
      local space, early = size_of(q, w)
      pace.tat = math.max(tat_of(q, w.key, space, early), q.now) + space
      write_pace(q, w.key)
    end
  end
  write_held(q, id, p, q.now + lease)
  forget_patient(q, id)
end

-- All that it wants is kept for it, from in `delay` ms on.
local function reserve(q, id, p, delay, again)
  p.state, p.start, p.since, p.at = 'r', 0, q.now, q.now + delay
  for _, w in ipairs(p.wants) do
    use(q, w.key, w.kind == 'l' and w.takes or 1)
    if again and delay > 0 and w.kind == 'r' then
      pace_of(q, w.key).back = p.at + size_of(q, w)
      write_pace(q, w.key)
    end
  end
  write_held(q, id, p, p.at + RESERVED)
  forget_patient(q, id)
end

-- What it has of its limits is free again; `held` is left to the caller.
local function free(q, p)
  for _, w in ipairs(p.wants) do
    if p.state ~= 'x' then
      if w.kind == 'l' then use(q, w.key, -w.takes) elseif p.state == 'r' then use(q, w.key, -1) end
    end
    touch(q, w.key)
  end
end

local function drop_permit(q, id, p)
  free(q, p)
  redis.call('HDEL', q.held, id)
  redis.call('ZREM', q.expiry, id)
end
